rule draw:
    """Draw a figure that has no published curve as numbers."""
    input:
        table="results/{scale}/tables/{figure}.parquet",
    output:
        pdf="figures/{scale}/{figure}.pdf",
        png=report(
            "figures/{scale}/{figure}.png",
            caption="../report/figure.rst",
            category=lambda wildcards: paper(wildcards.figure).title,
            labels={"figure": "{figure}", "kind": "regenerated"},
        ),
    log:
        "results/{scale}/logs/draw/{figure}.log",
    benchmark:
        "results/{scale}/benchmarks/draw/{figure}.tsv"
    wildcard_constraints:
        figure="|".join(HIDDEN) or "none",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: REQUESTS.memory_mb(Job("draw", w.figure), attempt),
        runtime=lambda w, attempt: REQUESTS.minutes(Job("draw", w.figure), attempt),
    params:
        note=lambda wildcards: PLAN.note(wildcards.figure),
        caption=lambda wildcards: caption(wildcards.figure),
        identity=lambda wildcards: PLAN.drawing_identity(wildcards.figure),
    shell:
        "python scripts/draw.py --figure {wildcards.figure} --note {params.note:q}"
        " --table {input.table} --pictures {output} > {log} 2>&1"


use rule draw as draw_with_overlay with:
    output:
        pdf="figures/{scale}/{figure}.pdf",
        png=report(
            "figures/{scale}/{figure}.png",
            caption="../report/figure.rst",
            category=lambda wildcards: paper(wildcards.figure).title,
            labels={"figure": "{figure}", "kind": "regenerated"},
        ),
        overlay_pdf="figures/{scale}/{figure}_overlay.pdf",
        overlay_png=report(
            "figures/{scale}/{figure}_overlay.png",
            caption="../report/figure.rst",
            category=lambda wildcards: paper(wildcards.figure).title,
            labels={"figure": "{figure}", "kind": "with the published curve"},
        ),
    wildcard_constraints:
        figure="|".join(REFERENCED) or "none",


rule animate:
    """Draw the animation of a figure."""
    input:
        table="results/{scale}/tables/{figure}.parquet",
    output:
        gif="figures/{scale}/{figure}.gif",
    log:
        "results/{scale}/logs/animate/{figure}.log",
    benchmark:
        "results/{scale}/benchmarks/animate/{figure}.tsv"
    wildcard_constraints:
        figure="|".join(ANIMATED) or "none",
    conda:
        "../../environment.yml"
    resources:
        mem_mb=lambda w, attempt: REQUESTS.memory_mb(Job("animate", w.figure), attempt),
        runtime=lambda w, attempt: REQUESTS.minutes(Job("animate", w.figure), attempt),
    params:
        note=lambda wildcards: PLAN.note(wildcards.figure),
        identity=lambda wildcards: PLAN.animation_identity(wildcards.figure),
    shell:
        "python scripts/animate.py --figure {wildcards.figure} --note {params.note:q}"
        " --table {input.table} --animation {output.gif} > {log} 2>&1"
