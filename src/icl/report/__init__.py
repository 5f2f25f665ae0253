"""The output for readers: command line, verdicts as text, report for reviewers and gallery."""
