rule measure:
    """Turn the runs of a figure into its table."""
    input:
        runs=lambda w: PLAN.run_files(w.figure),
    output:
        table=f"{RESULTS}/tables/{{figure}}.parquet",
    log:
        f"{RESULTS}/logs/measure/{{figure}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/measure/{{figure}}.tsv"
    conda:
        "../../environment.yml"
    threads: 1
    resources:
        mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt),
        runtime=lambda w, attempt: PLAN.request("runtime", attempt),
    params:
        module=lambda w: PLAN.module(w.figure),
        scale=PLAN.scale,
        first_seed=PLAN.first_seed,
        constants=lambda w: canonical(PLAN.constants_of(w.figure)),
        observables=lambda w: canonical(PLAN.observables(w.figure)),
        identity=lambda w: PLAN.measurement_identity(w.figure),
    shell:
        "python scripts/measure.py --module {params.module} --figure {wildcards.figure} --scale {params.scale} --first-seed {params.first_seed}"
        " --constants {params.constants:q} --observables {params.observables:q} --identity {params.identity} --table {output.table:q}"
        " --runs {input.runs:q} > {log:q} 2>&1"
