"""`python -m icl`: see icl.report.command_line."""

from icl.report.command_line import main

if __name__ == "__main__":
    main()
