rule train:
    """Train one shard of a sweep (needs a file name: results/<scale>/runs/<sweep>/<shard>.safetensors)."""
    output:
        weights=f"{RESULTS}/runs/{{sweep}}/{{shard}}.safetensors",
        trajectory=f"{RESULTS}/runs/{{sweep}}/{{shard}}.parquet",
    log:
        f"{RESULTS}/logs/train/{{sweep}}.{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{sweep}}.{{shard}}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt, w.sweep),
        runtime=lambda w, attempt: PLAN.request("runtime", attempt, w.sweep),
    params:
        module=lambda w: PLAN.system_module(w.sweep),
        sweep=lambda w: canonical(PLAN.training(w.sweep, w.shard)),
        identity=lambda w: PLAN.training_identity(w.sweep, w.shard),
    # Without the two thresholds, glibc returns the memory of every step's activations to the kernel.
    shell:
        "MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000"
        " python scripts/train.py --module {params.module} --sweep {params.sweep:q} --shard {wildcards.shard}"
        " --identity {params.identity} --weights {output.weights:q} --trajectory {output.trajectory:q} > {log:q} 2>&1"
