"""The plan of the workflow, the identity of its jobs and the provenance of results."""
