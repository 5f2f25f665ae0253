# The report for reviewers: figures, verdicts, constants and provenance in one self-contained file.
localrules:
    report,
    report_now,


rule report:
    """Make all figures and the report on them: results/<scale>/report/report.html and report.md."""
    input:
        EVERYTHING,
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
        # A function, because Snakemake expands wildcards in a text.
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
    "Write the report from the results on disk; missing figures are listed."
)
