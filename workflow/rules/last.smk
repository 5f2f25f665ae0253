# Snakemake's own message for an unknown target names neither the figures nor the other targets.
try:
    check_targets(
        workflow.dag_settings.targets or (), [rule.name for rule in workflow.rules]
    )
except ConstantError as error:
    raise WorkflowError(str(error)) from error
