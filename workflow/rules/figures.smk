# One target per figure (`snakemake figure12`), and one for its picture under the published curve.
for name in PLAN.figures:

    rule:
        name:
            name
        input:
            pictures=PLAN.pictures([name]),
            verdicts=PLAN.verdict_files([name]),
        log:
            f"results/{PLAN.scale}/logs/show/{name}.log",
        localrule: True
        conda:
            "../../environment.yml"
        shell:
            "python scripts/show.py --pictures {input.pictures} --verdicts {input.verdicts} 2> {log}"

    workflow.get_rule(name).docstring = summary(name)


for name in REFERENCED:

    rule:
        name:
            f"{name}_overlay"
        input:
            pictures=PLAN.pictures([name])[1:],
            verdicts=PLAN.verdict_files([name]),
        log:
            f"results/{PLAN.scale}/logs/show/{name}_overlay.log",
        localrule: True
        conda:
            "../../environment.yml"
        shell:
            "python scripts/show.py --pictures {input.pictures} --verdicts {input.verdicts} 2> {log}"

    workflow.get_rule(f"{name}_overlay").docstring = (
        f"{name} under the published curve."
    )


for name, figure in PLAN.aliases.items():

    rule:
        name:
            name
        input:
            pictures=PLAN.pictures([figure]),
            verdicts=PLAN.verdict_files([figure]),
        log:
            f"results/{PLAN.scale}/logs/show/{name}.log",
        localrule: True
        conda:
            "../../environment.yml"
        shell:
            "python scripts/show.py --pictures {input.pictures} --verdicts {input.verdicts} 2> {log}"

    workflow.get_rule(name).docstring = f"Another name for {figure}."
