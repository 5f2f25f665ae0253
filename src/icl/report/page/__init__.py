"""The reviewer's report: one HTML file that needs nothing else, and the same as Markdown."""
