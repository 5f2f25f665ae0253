"""Run a program with words from variables that make exports: `call.py VARIABLE COMMAND ...`.

The words are separated as a shell separates them, but no shell reads them, so nothing in them is
executed. After `snakemake`, SCALE, SET, FIRST_SEED, SEEDS and FIGURE join SNAKEMAKE_ARGS. It needs
only the standard library.
"""

import os
import re
import shlex
import sys


def words(variable: str) -> list[str]:
    """Return the words in a variable; exits if a quotation has no end."""
    text = os.environ.get(variable, "")
    try:
        return shlex.split(text)
    except ValueError as error:
        sys.exit(f"{variable}={text}: {error}")


def with_settings(given: list[str]) -> list[str]:
    """Return arguments of Snakemake with settings in the last --config, since it reads no other."""
    joined = re.compile(r"(?:--config=|-C)(.+)", re.DOTALL)
    parts = (["--config", m[1]] if (m := joined.fullmatch(word)) else [word] for word in given)
    given = [word for part in parts for word in part]
    named = {
        "scale": "SCALE",
        "constants": "SET",
        "first_seed": "FIRST_SEED",
        "seeds": "SEEDS",
        "only": "FIGURE",
    }
    values = {key: os.environ.get(variable) for key, variable in named.items()}
    settings = [f"{key}={value}" for key, value in values.items() if value]
    places = [place for place, word in enumerate(given, 1) if word in ("--config", "-C")]
    if places:
        at = places[-1]
        return [*given[:at], *settings, *given[at:]]
    return [*given, "--config", *settings] if settings else given


def main() -> None:
    variable, *command = sys.argv[1:]
    given = words(variable)
    if command[0].endswith("snakemake"):
        given = with_settings(given)
        for word, after in zip(given, [*given[1:], ""], strict=False):
            # Without a profile Snakemake asks for --cores, before it reads any file that could name
            # the mistake.
            name = word.partition("=")[2] or after
            is_profile = word.startswith("--workflow-profile") and name != "none"
            if is_profile and not os.path.exists(name):
                sys.exit(f"profile {name!r}: no such profile; see profiles/")
        if options := [word for word in command[1:] if word.startswith("-")]:
            sys.exit(f"{' '.join(options)}: is no target; SNAKEMAKE_ARGS takes options")
    os.execvp(command[0], [*command, *given])


if __name__ == "__main__":
    main()
