"""`python -m icl` and the command `icl`: see icl.report.command_line."""

import sys

from icl.pipeline import environment, kernels


def main() -> None:
    """Run one command in the known environment and in the clone."""
    environment.settle()
    if not {"--help", "--version"} & set(sys.argv):
        environment.enter()
    kernels.choose()
    from icl.report import command_line

    command_line.main()


if __name__ == "__main__":
    main()
