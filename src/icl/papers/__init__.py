"""One folder per paper: its prompts, its models, its figures, its claims and its published curves."""
