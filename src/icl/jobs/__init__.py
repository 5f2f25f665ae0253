"""The jobs of the workflow: each module has `run(plan, name)`, which reads, computes and writes.

They know the plan as a type only: what a result depends on is hashed from imports, and the plan's
own code, which every job would share, is not part of it.
"""
