# The search for constants that the papers leave out. Not part of the default target: its outcome is packaged in
# src/icl/calibrations/, where the defaults come from. Trials are kept as they are made, beside the output, so that an
# interrupted search goes on: Snakemake removes the outputs of a job that failed.
localrules:
    calibrate,
    calibration_page,
    settlement,


for system, space in SPACES.items():

    rule:
        name:
            f"calibrate_{system}"
        output:
            outcome=f"results/{PLAN.scale}/calibration/{system}.csv",
        log:
            f"results/{PLAN.scale}/logs/calibrate/{system}.log",
        benchmark:
            f"results/{PLAN.scale}/benchmarks/calibrate/{system}.tsv"
        conda:
            "../../environment.yml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=240,
        params:
            system=system,
            scale=PLAN.scale,
            trials=config["trials"].get(system, 0),
            table=f"results/{PLAN.scale}/calibration/{system}.parquet",
            # Of what is searched and where the slices start, not of the code: trials are costly, and those that were
            # made stay as they are until their table is removed.
            identity=digest([calibration.identity(space, PLAN.scale), space.defaults()]),
        shell:
            "MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000"
            " python scripts/calibrate.py --system {params.system:q} --scale {params.scale} --trials {params.trials:q}"
            " --table {params.table} --outcome {output.outcome} > {log} 2>&1"

    workflow.get_rule(f"calibrate_{system}").docstring = (
        f"Search the unpublished constants of {system}: results/<scale>/calibration/{system}.csv."
    )

    rule:
        name:
            f"settlement_{system}"
        output:
            fidelity=f"results/{PLAN.scale}/calibration/{system}.fidelity.csv",
            pictures=[
                f"figures/{PLAN.scale}/before/{name}_overlay.png"
                for name in space.fitted
            ],
        log:
            f"results/{PLAN.scale}/logs/settlement/{system}.log",
        benchmark:
            f"results/{PLAN.scale}/benchmarks/settlement/{system}.tsv"
        conda:
            "../../environment.yml"
        threads: 1
        resources:
            mem_mb=4000,
            runtime=60,
        params:
            system=system,
            scale=PLAN.scale,
            identity=settled(system),
        shell:
            "MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000"
            " python scripts/settlement.py --system {params.system:q} --scale {params.scale}"
            " --fidelity {output.fidelity} --pictures {output.pictures} > {log} 2>&1"

    workflow.get_rule(f"settlement_{system}").docstring = (
        f"Compare {system} before and after its constants were settled: results/<scale>/calibration/{system}.fidelity.csv."
    )


rule calibrate:
    """Search the unpublished constants of every system that has a space in src/icl/calibrations/."""
    input:
        expand(
            "results/{scale}/calibration/{system}.csv",
            scale=PLAN.scale,
            system=list(SPACES),
        ),


rule settlement:
    """Compare the figures of every calibrated system before and after its constants were settled."""
    input:
        expand(
            "results/{scale}/calibration/{system}.fidelity.csv",
            scale=PLAN.scale,
            system=list(SPACES),
        ),


rule calibration_page:
    """Write gallery/calibration.md and its pictures from the packaged outcome of the calibrations."""
    log:
        f"results/{PLAN.scale}/logs/calibration_page.log",
    conda:
        "../../environment.yml"
    params:
        before=f"figures/{PLAN.scale}/before",
    shell:
        "python scripts/settled.py --gallery gallery --before {params.before:q} 2> {log}"
