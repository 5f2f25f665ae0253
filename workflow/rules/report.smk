# One page for reviewers: figures, verdicts, constants, provenance, in one file that needs nothing else.
localrules:
    report,
    report_now,


rule report:
    """Write the reviewer's page from all figures: results/<scale>/report/report.html and report.md."""
    input:
        EVERYTHING,
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
        # By a function: Snakemake would look for wildcards in a text.
        against=lambda w: config["against"],
        folder=f"{RESULTS}/report",
    shell:
        "python scripts/report.py --config {params.config:q} --against={params.against:q}"
        " --html {params.folder:q}/report.html --markdown {params.folder:q}/report.md 2> >(tee {log:q} >&2)"


use rule report as report_now with:
    input:
        [],
    log:
        f"{RESULTS}/logs/report_now.log",


workflow.get_rule("report_now").docstring = (
    "The same page from the results at hand; what is missing is named."
)
