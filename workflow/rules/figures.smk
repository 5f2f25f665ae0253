# Targets of single figures: `figure12`, with the published curve (`figure12_overlay`), with all runs
# (`figure12_runs`), and aliases.
# Each figure has its own drawing rule, because figures have different sets of pictures.
for name in PLAN.figures:

    rule:
        name:
            f"draw_{name}"
        input:
            table=PLAN.table_file(name),
            published=PLAN.published_files(name),
        output:
            pictures=[
                report(
                    picture,
                    caption="../report/figure.rst",
                    category=ledger.of_figure(name).title,
                    labels={"figure": name, "picture": Path(picture).stem},
                )
                for picture in PLAN.pictures(name)
            ],
            pdf=PLAN.print_file(name),
            record=PLAN.record_file(name),
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
            module=PLAN.module(name),
            figure=name,
            scale=PLAN.scale,
            folder=PLAN.folder,
            # Functions, because Snakemake expands wildcards in a text.
            note=lambda w, name=name: PLAN.note(name),
            identity=lambda w, name=name: PLAN.drawing_identity(name),
            measured=lambda w, name=name: PLAN.measurement_identity(name),
        shell:
            "python scripts/draw.py --module {params.module} --figure {params.figure} --scale {params.scale} --folder {params.folder}"
            " --note {params.note:q} --identity {params.identity} --measured {params.measured} --table {input.table:q}"
            " --published {input.published:q} --pictures {output.pictures:q} {output.pdf:q}"
            " --record {output.record:q} > {log:q} 2>&1"

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
                config=lambda w: canonical(PLAN.plain()),
                figure=name,
            shell:
                "python scripts/show.py --config {params.config:q} --figures {params.figure} 2> >(tee {log:q} >&2)"

        workflow.get_rule(target).docstring = (
            ledger.target(name).summary
            if target == name
            else f"Another name for {name}."
        )
