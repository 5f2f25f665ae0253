"""The config of the workflow: what workflow/config.yaml, the command line and a job may say,
checked in one place.
"""

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from icl import registry
from icl.core import plain_yaml
from icl.core.config import LARGEST as LARGEST_INTEGER
from icl.core.config import SCALES, ConstantError, canonical, digest
from icl.core.folders import near, require
from icl.core.plain_yaml import number
from icl.core.sweep import Overrides, checked

FIRST_SEED = 5000
"""The first seed of the figures by default, as in workflow/config.yaml. Seeds below 100 were used
in development, and 100 to 199 in searches for constants.
"""
LARGEST = {"shards": 10_000, "first_seed": 1_000_000, "seeds": 100_000}
"""The largest value of each number in a config; the least is 0."""
PROFILES = ("profiles/default", "profiles/slurm", "none")
FOR_TARGETS = ("against", "only")
"""Keys of the workflow's config that no result depends on; both are texts."""


@dataclass(frozen=True)
class Config:
    """What a plan follows from; fields as in workflow/config.yaml."""

    scale: str
    shards: int = 0
    constants: Mapping[str, Mapping[str, Any]] | None = None
    variant: str = ""
    first_seed: int = FIRST_SEED
    seeds: int = 0

    def __post_init__(self) -> None:
        """Raise ConstantError for a value that names no folder of results: no path or option may
        come from a config.
        """
        if self.scale not in SCALES:
            like = str(self.scale).lower()
            allowed = ", ".join(SCALES) + (f"; try {like}" if like in SCALES else "")
            raise ConstantError(f"scale = {self.scale!r}: must be one of {allowed}")
        # Snakemake would read digits, True and nan as something else than text.
        word = r"(?!(?i:true|false|inf|infinity|nan)$)([A-Za-z][\w-]{0,40})?"
        if not isinstance(self.variant, str) or not re.fullmatch(word, self.variant, re.ASCII):
            raise ConstantError(
                f"variant = {self.variant!r}: must be at most 41 letters, digits, _ and -, "
                f"of which a letter is first, and no word such as true or nan"
            )
        for name, most in LARGEST.items():
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= most:
                raise ConstantError(
                    f"{name} = {value!r}: must be a whole number from 0 to {most:,}"
                )

    @classmethod
    def of(cls, config: object) -> Self:
        """Return the checked config.

        Raises ConstantError for an unknown key, scale or constant, a bad name, and a value of
        another type or out of range.
        """
        keys = [field.name for field in fields(cls)]
        if not isinstance(config, Mapping):
            raise ConstantError(f"config: {config!r} has no keys")
        if missing := set(keys) - set(config):
            raise ConstantError(f"config: has no {', '.join(sorted(missing))}")
        known = [*keys, *FOR_TARGETS]
        for key, value in config.items():
            if key not in known:
                raise ConstantError(f"config: has no key {key!r}; try {near(str(key), known)}")
            if key in FOR_TARGETS and not isinstance(value, str):
                raise ConstantError(f"config {key}: {value!r} is no text")
        constants = {
            model: {
                name: _whole(number(_plain(value, f"config constants.{model}.{name}")))
                for name, value in part.items()
            }
            for model, part in checked(config["constants"]).items()
            if part
        }
        made = cls(**{name: config[name] for name in keys} | {"constants": constants})
        if made.variant and not constants:
            raise ConstantError(
                f"variant = {made.variant!r}: names a set of constants, but none is given"
            )
        for model, values in constants.items():
            _check_names(model, values)
        return made

    def plain(self) -> dict[str, Any]:
        """Return the config as plain data, the inverse of `of`."""
        names = [field.name for field in fields(self)]
        return {name: getattr(self, name) for name in names} | {"constants": self.changed}

    @property
    def changed(self) -> Overrides:
        return self.constants or {}

    @property
    def folder(self) -> str:
        """The folder below results/ and figures/: the scale and, each after an @, the variant's
        name or hash and unusual seeds.
        """
        parts = [self.scale]
        parts += [self.variant or digest(self.changed)[:8]] if self.changed else []
        parts += [f"from.{self.first_seed}"] if self.first_seed != FIRST_SEED else []
        parts += [f"seeds.{self.seeds}"] if self.seeds else []
        return "@".join(parts)

    @property
    def unusual(self) -> dict[str, Any]:
        """What differs from the default config, without the constants."""
        usual = {"scale": "laptop", "first_seed": FIRST_SEED, "seeds": 0, "variant": ""}
        return {name: getattr(self, name) for name in usual if getattr(self, name) != usual[name]}

    def command(self, target: str) -> str:
        """Return the full command that makes a target of this plan."""
        config = [f"{name}={value}" for name, value in self.unusual.items()]
        config += [f"constants={shlex.quote(canonical(self.changed))}"] if self.changed else []
        return f"snakemake {target}" + (f" --config {' '.join(config)}" if config else "")


def _plain(value: object, place: str) -> object:
    """Return a constant's value; raises ConstantError unless it is a number, text, truth value or a
    list of these.
    """
    for one in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(one, bool | int | float | str):
            raise ConstantError(f"{place}: {one!r} is no number, text, true or false")
    return value


def _whole(value: Any) -> Any:
    """Return 1.0 as 1, also in a list, so that equal constants have one folder."""
    if isinstance(value, tuple):
        return tuple(map(_whole, value))
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_INTEGER
    return int(value) if is_whole else value


def _check_names(model: str, values: Collection[str]) -> None:
    """Raise ConstantError for a misspelt constant of a model, with similar names."""
    known = registry.models()[model].constants if model in registry.models() else frozenset()
    for name in sorted(set(values) - known):
        if like := difflib.get_close_matches(name, sorted(known)):
            advice = f"did you mean {', '.join(like)}?"
            raise ConstantError(f"constant {model}.{name}: no such constant; {advice}")


def check_typed(words: Iterable[str], entries: Iterable[str], files: Iterable[str | Path]) -> None:
    """Raise ConstantError for what Snakemake would read otherwise than it is written: a repeated
    key, an ambiguous number, a second --config, which replaces the first, or an unknown profile.

    words : of the command line; entries : key=value of its last --config; files : of its
        --configfile, and others
    """
    words = list(words)
    if len([word for word in words if re.match(r"--config(=|$)|-\w*C", word)]) > 1:
        problem = "is given twice, and Snakemake reads only the last one; join them"
        raise ConstantError(f"--config: {problem}")
    for word, after in zip(words, [*words[1:], ""], strict=False):
        option, _, value = word.partition("=")
        name = value or after
        if option == "--workflow-profile" and name not in PROFILES and not Path(name).exists():
            require("profile", name, PROFILES)
    for file in map(Path, files):
        plain_yaml.load(file.read_text(encoding="utf-8"), str(file))
    given = [entry.partition("=")[::2] for entry in entries]
    for key, value in given:
        if [name for name, _ in given].count(key) > 1:
            raise ConstantError(f"--config {key}={value}: the key {key!r} is repeated")
        if key not in ("variant", *FOR_TARGETS):  # texts
            plain_yaml.load(value, f"--config {key}={value}")
