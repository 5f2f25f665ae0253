"""`python -m icl`: see icl.report.command_line."""

from icl.pipeline import kernels

if __name__ == "__main__":
    kernels.choose()
    from icl.report.command_line import main

    main()
