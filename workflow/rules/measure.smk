rule measure:
    """Turn the runs of a figure into its table."""
    input:
        runs=lambda wildcards: PLAN.run_files(wildcards.figure),
    output:
        table="results/{scale}/tables/{figure}.parquet",
    log:
        "results/{scale}/logs/measure/{figure}.log",
    benchmark:
        "results/{scale}/benchmarks/measure/{figure}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: REQUESTS.memory_mb(Job("measure", w.figure), attempt),
        runtime=lambda w, attempt: REQUESTS.minutes(Job("measure", w.figure), attempt),
    params:
        constants=lambda wildcards: PLAN.measurement_constants(wildcards.figure),
        identity=lambda wildcards: PLAN.measurement_identity(wildcards.figure),
    shell:
        "python scripts/measure.py --figure {wildcards.figure} --scale {wildcards.scale}"
        " --constants {params.constants:q} --identity {params.identity}"
        " --table {output.table} --runs {input.runs} > {log} 2>&1"
