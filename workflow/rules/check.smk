rule check:
    """Judge a figure and measure its distance from the published curve."""
    input:
        table="results/{scale}/tables/{figure}.parquet",
    output:
        verdicts="results/{scale}/verdicts/{figure}.json",
    log:
        "results/{scale}/logs/check/{figure}.log",
    benchmark:
        "results/{scale}/benchmarks/check/{figure}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: REQUESTS.memory_mb(Job("check", w.figure), attempt),
        runtime=lambda w, attempt: REQUESTS.minutes(Job("check", w.figure), attempt),
    params:
        identity=lambda wildcards: PLAN.judging_identity(wildcards.figure),
    shell:
        "python scripts/check.py --figure {wildcards.figure} --table {input.table}"
        " --verdicts {output.verdicts} > {log} 2>&1"
