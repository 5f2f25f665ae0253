# Targets over all figures. The ones that print run each time they are asked for.
localrules:
    figures,
    verdicts,
    compare,
    verify,
    gallery,
    peaks,


rule figures:
    """Draw every figure with its overlay, and judge every claim."""
    default_target: True
    input:
        pictures=PLAN.pictures(PLAN.figures),
        verdicts=PLAN.verdict_files(PLAN.figures),


rule verdicts:
    """Print what the data say of every claim (table: results/<scale>/verdicts.md)."""
    input:
        PLAN.verdict_files(PLAN.figures),
    log:
        f"results/{PLAN.scale}/logs/verdicts.log",
    conda:
        "../../environment.yml"
    params:
        table=f"results/{PLAN.scale}/verdicts.md",
    shell:
        "python scripts/verdicts.py --table {params.table} --verdicts {input} 2> {log}"


rule compare:
    """Print what changed against another result set: --config against=<results folder>."""
    input:
        PLAN.verdict_files(PLAN.figures),
    log:
        f"results/{PLAN.scale}/logs/compare.log",
    conda:
        "../../environment.yml"
    params:
        against=given_folder,
        scale=PLAN.scale,
        table=f"results/{PLAN.scale}/compare.md",
    shell:
        "python scripts/compare.py --against={params.against:q} --scale {params.scale}"
        " --table {params.table} --verdicts {input} 2> >(tee {log} >&2)"


rule verify:
    """Check results on disk against their own metadata: constants, code, inputs, damage."""
    log:
        f"results/{PLAN.scale}/logs/verify.log",
    conda:
        "../../environment.yml"
    params:
        folder=f"results/{PLAN.scale}",
    shell:
        "python scripts/verify.py --results {params.folder} 2> {log}"


rule unknown:
    """Any other word: stops, and says which targets there are."""
    input:
        unknown_target,
    output:
        r"{target,[A-Za-z]\w*}",


rule gallery:
    """Copy this scale's pictures, verdicts, costs and constants to gallery/ and bring the README up to date."""
    input:
        pictures=PLAN.pictures(PLAN.figures),
        verdicts=PLAN.verdict_files(PLAN.figures),
    log:
        f"results/{PLAN.scale}/logs/gallery.log",
    conda:
        "../../environment.yml"
    params:
        scale=PLAN.scale,
        figures=" ".join(PLAN.figures),
    shell:
        "python scripts/gallery.py --scale {params.scale} --figures {params.figures} 2> {log}"


rule peaks:
    """Write what this scale's jobs took, as far as they have run, to workflow/peaks.csv: what jobs ask a cluster for."""
    log:
        f"results/{PLAN.scale}/logs/peaks.log",
    conda:
        "../../environment.yml"
    params:
        scale=PLAN.scale,
        shards=PLAN.shards,
        figures=" ".join(PLAN.figures),
        results=f"results/{PLAN.scale}",
        peaks=PEAKS,
    shell:
        "python scripts/peaks.py --scale {params.scale} --shards {params.shards:q} --figures {params.figures}"
        " --results {params.results:q} --peaks {params.peaks:q} 2> {log}"
