# The jobs behind the figures: train, measure and judge; figures.smk has those that draw. Each runs a module of
# icl.jobs with the plan of this config.
rule train:
    """Train one shard of a sweep (needs a file name: results/<scale>/runs/<sweep>/<shard>.safetensors)."""
    output:
        f"{RESULTS}/runs/{{sweep}}/{{shard}}.safetensors",
    log:
        f"{RESULTS}/logs/train/{{sweep}}.{{shard}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{sweep}}.{{shard}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt),
        runtime=lambda w, attempt: PLAN.request("runtime", attempt),
    params:
        figure=lambda w: PLAN.trainings[w.sweep][0],
        fingerprint=lambda w: PLAN.training_fingerprint(PLAN.shard(w.sweep, w.shard)),
    shell:
        'python -m icl job --config "$config" train {params.figure}/{wildcards.sweep}/{wildcards.shard} > {log:q} 2>&1'


rule measure:
    """Turn the runs of a figure into its table."""
    input:
        lambda w: PLAN.run_files(w.figure),
    output:
        update(f"{RESULTS}/tables/{{figure}}.parquet"),
    log:
        f"{RESULTS}/logs/measure/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/measure/{{figure}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt),
        runtime=lambda w, attempt: PLAN.request("runtime", attempt),
    params:
        fingerprint=lambda w: PLAN.measurement_fingerprint(w.figure),
    shell:
        'python -m icl job --config "$config" measure {wildcards.figure} > {log:q} 2>&1'


rule judge:
    """Judge a figure's claims, and measure its distance from the published curve."""
    input:
        f"{RESULTS}/tables/{{figure}}.parquet",
        lambda w: PLAN.published_files(w.figure),
    output:
        update(f"{RESULTS}/verdicts/{{figure}}.json"),
    log:
        f"{RESULTS}/logs/judge/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/judge/{{figure}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt),
        runtime=lambda w, attempt: PLAN.request("runtime", attempt),
    params:
        fingerprint=lambda w: PLAN.judging_fingerprint(w.figure),
        measured=lambda w: PLAN.measurement_fingerprint(w.figure),
    shell:
        'python -m icl job --config "$config" judge {wildcards.figure} > {log:q} 2>&1'
