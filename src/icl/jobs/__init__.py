"""The jobs of the workflow, one function each; `icl.pipeline.run` calls them with the inputs and files of a plan."""
