# Targets of single figures: `figure12`, its picture under the published curve (`figure12_overlay`), and other names.
TARGETS = [
    *((name, name, PLAN.pictures([name]), summary(name)) for name in PLAN.figures),
    *(
        (
            f"{name}_overlay",
            name,
            [f"figures/{PLAN.scale}/{name}_overlay.png"],
            f"{name} under the published curve.",
        )
        for name in REFERENCED
    ),
    *(
        (alias, name, PLAN.pictures([name]), f"Another name for {name}.")
        for alias, name in PLAN.aliases.items()
    ),
]

for target, figure, pictures, words in TARGETS:

    rule:
        name:
            target
        input:
            pictures=pictures,
            verdicts=PLAN.verdict_files([figure]),
        log:
            f"results/{PLAN.scale}/logs/show/{target}.log",
        localrule: True
        conda:
            "../../environment.yml"
        shell:
            "python scripts/show.py --pictures {input.pictures} --verdicts {input.verdicts} 2> {log}"

    workflow.get_rule(target).docstring = words
