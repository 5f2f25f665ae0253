# The figures of the theory papers on in-context learning; `snakemake --list` explains every target.
configfile: "workflow/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/targets.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/check.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/figures.smk"
