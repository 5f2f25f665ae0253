# The figures of the theory papers on in-context learning; `snakemake --list` explains every target.
configfile: "workflow/config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/targets.smk"
include: "workflow/rules/jobs.smk"
include: "workflow/rules/figures.smk"
