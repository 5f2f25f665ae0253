rule train:
    """Train one shard of a sweep (needs a file name: results/<scale>/runs/<sweep>/<shard>.safetensors)."""
    output:
        weights="results/{scale}/runs/{sweep}/{shard}.safetensors",
        trajectory="results/{scale}/runs/{sweep}/{shard}.parquet",
    log:
        "results/{scale}/logs/train/{sweep}.{shard}.log",
    benchmark:
        "results/{scale}/benchmarks/train/{sweep}.{shard}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: REQUESTS.memory_mb(
            Job("train", w.sweep, w.shard), attempt
        ),
        runtime=lambda w, attempt: REQUESTS.minutes(
            Job("train", w.sweep, w.shard), attempt
        ),
    params:
        figure=lambda wildcards: PLAN.trainings[wildcards.sweep][0],
        constants=lambda wildcards: PLAN.training_constants(wildcards.sweep),
        identity=lambda wildcards: PLAN.training_identity(
            wildcards.sweep, wildcards.shard
        ),
    # Without the two thresholds, glibc hands the memory of every step's activations back to the kernel.
    shell:
        "MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000"
        " python scripts/train.py --figure {params.figure} --scale {wildcards.scale} --constants {params.constants:q}"
        " --sweep {wildcards.sweep} --shard {wildcards.shard} --identity {params.identity}"
        " --weights {output.weights} --trajectory {output.trajectory} > {log} 2>&1"
