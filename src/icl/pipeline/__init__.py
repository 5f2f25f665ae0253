"""The plan of the workflow, the identity of its jobs, and where results come from."""
