"""One folder per paper, with its prompts, models, figures, claims and published curves."""
