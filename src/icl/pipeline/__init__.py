"""The plan of the workflow, the fingerprint of its jobs and the provenance of results."""
