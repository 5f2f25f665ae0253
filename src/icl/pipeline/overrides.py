"""The user's constants in place of the defaults."""

from collections.abc import Iterable, Mapping
from typing import Any

from icl.core.config import ConstantError
from icl.core.sweep import Sweep

Overrides = Mapping[str, Mapping[str, Any]]
"""Name of a model -> constant -> value."""


def checked(constants: object) -> Overrides:
    """The constants as they are; raises ConstantError unless they have the form {model: {constant: value}}."""
    models = constants if isinstance(constants, dict) else {constants: {}}
    words = [word for key, part in models.items() for word in (key, *(part if isinstance(part, dict) else ()))]
    if any(":" in str(word) for word in words):
        raise ConstantError(f"constants {constants!r}: YAML needs a space after each colon")
    if not isinstance(constants, dict) or not all(isinstance(part, dict) for part in constants.values()):
        raise ConstantError(f"constants {constants!r}: not of the form {{model: {{constant: value}}}}")
    return constants


def applicable(sweep: Sweep, constants: Overrides) -> dict[str, Any]:
    """The user's constants for the sweep's model, without those that the sweep varies itself."""
    return {name: value for name, value in constants.get(sweep.system, {}).items() if not sweep.varied(name)}


def applied(sweeps: Iterable[Sweep], constants: Overrides, first_seed: int = 0) -> dict[str, Sweep]:
    """The sweeps by name, with the user's constants and seeds starting at `first_seed`.

    A constant that a sweep varies itself does not change.

    Raises ConstantError for an unknown constant or a value out of range.
    """
    pairs = [(sweep, applicable(sweep, constants)) for sweep in (one.from_seed(first_seed) for one in sweeps)]
    try:
        # Building the configs again is the slowest part, and most calls change no constants.
        return {sweep.name: sweep.override(values) if values else sweep for sweep, values in pairs}
    except ArithmeticError as error:
        raise ConstantError(f"constants {dict(constants)}: too large or too small to compute with ({error})") from error
