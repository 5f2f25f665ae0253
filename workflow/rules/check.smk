rule check:
    """Judge a figure's claims, and measure its distance from the published curve."""
    input:
        table=f"{RESULTS}/tables/{{figure}}.parquet",
        published=lambda w: PLAN.published_files(w.figure),
    output:
        verdicts=f"{RESULTS}/verdicts/{{figure}}.json",
    log:
        f"{RESULTS}/logs/check/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/check/{{figure}}.tsv"
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt),
        runtime=lambda w, attempt: PLAN.request("runtime", attempt),
    params:
        scale=PLAN.scale,
        folder=PLAN.folder,
        questions=lambda w: canonical(PLAN.questions(w.figure)),
        identity=lambda w: PLAN.judging_identity(w.figure),
        measured=lambda w: PLAN.measurement_identity(w.figure),
    shell:
        "python scripts/check.py --figure {wildcards.figure} --scale {params.scale} --folder {params.folder}"
        " --questions {params.questions:q} --identity {params.identity} --measured {params.measured} --table {input.table:q}"
        " --published {input.published:q} --verdicts {output.verdicts:q} > {log:q} 2>&1"
