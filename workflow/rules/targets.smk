# Targets over all figures. Those that print run on every request.
from icl.core.sealed import SealedError
from icl.report import verdict_files

if config["against"]:
    try:
        verdict_files.load_all(Path(config["against"]), PLAN.folder)
    except SealedError as error:
        sys.exit(f"against = {error}")
try:
    ONLY = [ledger.figure_name(word) for word in config["only"].split()] or PLAN.figures
except ConstantError as error:
    sys.exit(f"only = {config['only']!r}: {error}")


localrules:
    figures,
    verdicts,
    compare,
    verify,
    gallery,
    gallery_text,


EVERYTHING = [path for name in PLAN.figures for path in PLAN.chain(name)]


rule figures:
    """Draw every figure, judge every claim, and verify the results."""
    default_target: True
    input:
        EVERYTHING,
    log:
        f"{RESULTS}/logs/figures.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
    shell:
        "python scripts/verify.py --config {params.config:q} --all 2> >(tee {log:q} >&2)"


rule verdicts:
    """Print the verdicts on disk, and the figures without any."""
    log:
        f"{RESULTS}/logs/verdicts.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
        table=f"{RESULTS}/verdicts.md",
    shell:
        "python scripts/verdicts.py --config {params.config:q} --table {params.table:q} 2> >(tee {log:q} >&2)"


rule compare:
    """Print the changes against another result set: --config against=<results folder>."""
    input:
        EVERYTHING,
    log:
        f"{RESULTS}/logs/compare.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
        against=given_folder,
        table=f"{RESULTS}/compare.md",
    shell:
        "python scripts/compare.py --config {params.config:q} --against={params.against:q}"
        " --table {params.table:q} 2> >(tee {log:q} >&2)"


rule verify:
    """Check results on disk against code, constants, data and each other."""
    log:
        f"{RESULTS}/logs/verify.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
    shell:
        "python scripts/verify.py --config {params.config:q} 2> >(tee {log:q} >&2)"


rule gallery:
    """Update gallery/, docs/ and the README; --config only='figure12 figure9' for some figures."""
    input:
        [path for name in ONLY for path in PLAN.chain(name)],
    log:
        f"{RESULTS}/logs/gallery.log",
    conda:
        "../../environment.yml"
    params:
        config=lambda w: canonical(PLAN.plain()),
        figures=ONLY,
    shell:
        "python scripts/gallery.py --config {params.config:q} --figures {params.figures} 2> >(tee {log:q} >&2)"


use rule gallery as gallery_text with:
    input:
        [],
    log:
        f"{RESULTS}/logs/gallery_text.log",
    params:
        config=lambda w: canonical(PLAN.plain()),
        figures=[],


workflow.get_rule("gallery_text").docstring = (
    "Rewrite the texts of gallery/, docs/ and the README; needs no results."
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
