"""What readers see: the command line, verdicts as text, the page for reviewers and the gallery."""
