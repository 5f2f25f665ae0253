# Targets of single figures: `figure12`, all runs and published numbers (`figure12_compared`), and aliases; and of
# papers: `li2024`.
# Each figure has its own drawing rule, because figures have different sets of pictures.
for name in PLAN.figures:

    rule:
        name:
            free_name(f"draw_{name}")
        input:
            PLAN.table_file(name),
            PLAN.published_files(name),
        output:
            pictures=[
                report(
                    update(picture),
                    caption="../report/figure.rst",
                    category=ledger.of_figure(name).title,
                    labels={"figure": name, "picture": Path(picture).stem},
                )
                for picture in PLAN.pictures(name)
            ],
            record=update(PLAN.record_file(name)),
        log:
            f"{RESULTS}/logs/draw/{name}.log",
        benchmark:
            f"{RESULTS}/benchmarks/draw/{name}.tsv"
        conda:
            "../../environment.yml"
        resources:
            mem_mb=lambda w, attempt: PLAN.request("mem_mb", attempt),
            runtime=lambda w, attempt: PLAN.request("runtime", attempt),
        params:
            figure=name,
            # Functions, because Snakemake expands wildcards in a text.
            fingerprint=lambda w, name=name: PLAN.drawing_fingerprint(name),
            measured=lambda w, name=name: PLAN.measurement_fingerprint(name),
        shell:
            'python -m icl job --config "$config" draw {params.figure} > {log:q} 2>&1'

    for target in PLAN.targets(name):

        rule:
            name:
                free_name(target)
            input:
                PLAN.chain(name),
            log:
                f"{RESULTS}/logs/show/{target}.log",
            localrule: True
            conda:
                "../../environment.yml"
            params:
                figure=name,
            shell:
                'python -m icl verdicts --config "$config" {params.figure} 2> >(tee {log:q} >&2)'

        workflow.get_rule(target).docstring = (
            ledger.target(name).summary
            if target == name
            else f"Another name for {name}."
        )


for paper in ledger.papers():

    rule:
        name:
            free_name(paper.paper)
        input:
            [path for name in paper.figures for path in PLAN.chain(name)],
        log:
            f"{RESULTS}/logs/show/{paper.paper}.log",
        localrule: True
        conda:
            "../../environment.yml"
        params:
            figures=sorted(paper.figures, key=PLAN.figures.index),
        shell:
            'python -m icl verdicts --config "$config" {params.figures} 2> >(tee {log:q} >&2)'

    workflow.get_rule(paper.paper).docstring = f"All figures of {paper.title}."
