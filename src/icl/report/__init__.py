"""The output for readers: the command line, verdicts as text, the report for reviewers and the
gallery.
"""
