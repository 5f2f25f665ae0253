# One page for reviewers: figures, verdicts, constants, provenance, in one file that needs nothing else.
localrules:
    report,
    report_now,


rule report:
    """Write the reviewer's page from all figures: results/<scale>/report/report.html and report.md."""
    input:
        pictures=PLAN.pictures(PLAN.figures),
        verdicts=PLAN.verdict_files(PLAN.figures),
    log:
        f"results/{PLAN.scale}/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        figures=" ".join(PLAN.figures),
        scale=PLAN.scale,
        # By a function, since Snakemake would look for wildcards in a text; with "=", since it may begin with a dash.
        against=lambda wildcards: (
            [f"--against={config['against']}"] if config["against"] else []
        ),
        folder=f"results/{PLAN.scale}/report",
    shell:
        "python scripts/report.py --scale {params.scale} --figures {params.figures} {params.against:q}"
        " --html {params.folder}/report.html --markdown {params.folder}/report.md 2> >(tee {log} >&2)"


use rule report as report_now with:
    input:
        [],
    log:
        f"results/{PLAN.scale}/logs/report_now.log",


workflow.get_rule("report_now").docstring = (
    "The same page from the results at hand; what is missing is named."
)
