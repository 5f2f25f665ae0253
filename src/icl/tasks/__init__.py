"""Where prompts come from. One file per task family, numpy only."""
