"""From tables to verdicts: claims, intervals over runs, published curves and distances to them."""
