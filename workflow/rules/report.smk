from snakemake.exceptions import WorkflowError


def other_results(wildcards):
    """The results folder that `against` names, once it is shown to hold verdicts."""
    from icl.core.sealed import SealedError
    from icl.report import verdict_files

    if not config["against"]:
        raise WorkflowError(
            "compare: name the other results by --config against=<results folder>"
        )
    try:
        verdict_files.load_all(Path(config["against"]), PLAN.folder)
    except SealedError as error:
        raise WorkflowError(f"against = {error}") from error
    return config["against"]


def named_figures():
    """The figures that `only` names; none for all of them."""
    try:
        return [ledger.figure_name(word) for word in config["only"].split()]
    except ConstantError as error:
        raise WorkflowError(f"only = {config['only']!r}: {error}") from error


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
        against=lambda w: other_results(w) if config["against"] else "",
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
