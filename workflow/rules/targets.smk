# Targets over all figures. Those that print run on every request.
localrules:
    figures,
    verdicts,
    compare,
    verify,
    report,
    report_now,
    gallery,
    gallery_text,


# Results to compare with are read before anything runs.
if config["against"]:
    from icl.core.problem import Problem
    from icl.report import results

    try:
        results.of_folder(Path(config["against"]), PLAN.folder)
    except Problem as problem:
        sys.exit(f"against = {problem}")


rule figures:
    """Draw every figure, judge every claim, and verify the results."""
    default_target: True
    input:
        EVERYTHING,
    log:
        f"{RESULTS}/logs/figures.log",
    conda:
        "../../environment.yml"
    shell:
        'python -m icl verify --config "$config" --all 2> >(tee {log:q} >&2)'


rule verdicts:
    """Print the verdicts on disk, and the figures without any."""
    log:
        f"{RESULTS}/logs/verdicts.log",
    conda:
        "../../environment.yml"
    shell:
        'python -m icl verdicts --config "$config" 2> >(tee {log:q} >&2)'


rule compare:
    """Compare with the gallery (--config only=figure12), or with another folder (--config against=<results folder>)."""
    input:
        [path for name in ONLY for path in PLAN.chain(name)]
        if config["against"]
        else [],
    log:
        f"{RESULTS}/logs/compare.log",
    conda:
        "../../environment.yml"
    params:
        against=lambda w: config["against"],
        figures=ONLY if config["only"] else [],
    shell:
        'python -m icl compare --config "$config" --against={params.against:q} {params.figures} 2> >(tee {log:q} >&2)'


rule verify:
    """Check results on disk against code, constants, data and each other."""
    log:
        f"{RESULTS}/logs/verify.log",
    conda:
        "../../environment.yml"
    shell:
        'python -m icl verify --config "$config" 2> >(tee {log:q} >&2)'


rule report:
    """Make all figures and the report on them: results/<scale>/report.html."""
    input:
        EVERYTHING,
    log:
        f"{RESULTS}/logs/report.log",
    conda:
        "../../environment.yml"
    params:
        # A function, because Snakemake expands wildcards in a text.
        against=lambda w: config["against"],
    shell:
        'python -m icl report --config "$config" --against={params.against:q} 2> >(tee {log:q} >&2)'


use rule report as report_now with:
    input:
        [],
    log:
        f"{RESULTS}/logs/report_now.log",


workflow.get_rule("report_now").docstring = (
    "Write the report from the results on disk; missing figures are listed."
)


rule gallery:
    """Update gallery/ and the README; --config only='figure12 figure9' for some figures."""
    input:
        [path for name in ONLY for path in PLAN.chain(name)],
    log:
        f"{RESULTS}/logs/gallery.log",
    conda:
        "../../environment.yml"
    params:
        figures=ONLY,
    shell:
        'python -m icl gallery --config "$config" {params.figures} 2> >(tee {log:q} >&2)'


use rule gallery as gallery_text with:
    input:
        [],
    log:
        f"{RESULTS}/logs/gallery_text.log",
    params:
        figures=[],


workflow.get_rule("gallery_text").docstring = (
    "Rewrite the pages of gallery/ and the README; needs no results."
)


rule other_folder:
    """Stop for a file of another scale or variant, with the config that makes it."""
    input:
        other_folder,
    output:
        rf"{{top,results|figures}}/{{folder,(?!{PLAN.folder}/)[^/]+}}/{{rest,.+}}",


rule unknown:
    """Stop for any other word, with similar targets."""
    input:
        unknown_target,
    output:
        r"{target,[^/]+}",
