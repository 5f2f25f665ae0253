"""YAML that has one meaning: repeated keys, and words that its versions read differently, are
refused by name.

All text that people write is read here: claims.yaml, published numbers, configs, `--set` and the
spaces of studies.
"""

import math
import re
from typing import Any

import yaml

from icl.core.config import ConstantError
from icl.core.problem import in_one_line

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Any = yaml.SafeLoader("")
_TAG = "tag:yaml.org,2002:"


class YamlError(ConstantError):
    """A text is no YAML, or could mean something else; the message names the line and the words."""


def number(value: Any) -> Any:
    """Return the number, truth value or list that a text spells, or the value itself; this is the
    only reading of numbers in text. Snakemake passes nested values of --config as text.
    """
    if isinstance(value, list | tuple):
        return tuple(map(number, value))
    word = value.lower() if isinstance(value, str) else ""
    if word in ("true", "false"):
        return word == "true"
    # Neither 1_0, 012, 0x1f and 1:30 nor digits of other scripts; Python converts no more than
    # 4,300 digits.
    if re.fullmatch(r"[+-]?(0|[1-9]\d{0,399})", word, re.ASCII):
        return int(word)
    if re.fullmatch(r"[+-]?(((0|[1-9]\d*)(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf|nan)", word, re.ASCII):
        return float(word)
    return value


def load(text: str, place: str = "the text") -> Any:
    """Return the data of one YAML document: mappings with keys as they are written, lists, texts,
    numbers, truth values and None. Dates are texts; `place` is named in errors.

    Raises YamlError for a repeated key; for a plain word that YAML 1.1 reads as something else than
    it seems, such as yes, 012, 1_0 or 1:30; and for tags, merged mappings, an alias within itself
    and several documents.
    """
    try:
        node = yaml.compose(text, Loader=_SafeLoader)
        return None if node is None else _value(node, {})
    except YamlError as error:
        raise YamlError(f"{place}: {error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(f"{place}: is no YAML ({in_one_line(error)})") from error


def _value(node: Any, known: dict[int, Any]) -> Any:
    """Return the data of a node; `known` has those of the nodes above, None for open ones."""
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if id(node) not in known:
        known[id(node)] = None
        known[id(node)] = _collection(node, known)
    if known[id(node)] is None:
        raise _refusal(node, "an alias repeats what it is part of")
    return known[id(node)]


def _collection(node: Any, known: dict[int, Any]) -> Any:
    if node.tag not in (_TAG + "seq", _TAG + "map"):
        raise _refusal(node, f"the tag {node.tag!r} is not read")
    if isinstance(node, yaml.SequenceNode):
        return [_value(one, known) for one in node.value]
    data: dict[str, Any] = {}
    for key, value in node.value:
        name = key.value
        if not isinstance(key, yaml.ScalarNode) or (not key.style and name == "<<"):
            raise _refusal(key, "a key is a text; mappings are not merged")
        if name in data:
            raise _refusal(key, f"the key {name!r} is repeated")
        data[name] = _value(value, known)
    return data


def _scalar(node: yaml.ScalarNode) -> Any:
    """Return the text, number, truth value or None that a scalar is; quoted ones are texts."""
    word = node.value
    # What YAML 1.1 reads; a tag that was written is another one.
    read = _RESOLVER.resolve(yaml.ScalarNode, word, (not node.style, bool(node.style)))
    if node.tag != read:
        raise _refusal(node, f"the tag {node.tag!r} is not read")
    if read == _TAG + "null":
        return None
    if (
        node.style
        or read == _TAG + "timestamp"
        or (read == _TAG + "str" and not re.search(r"\d", word))
    ):
        return word
    value = number(word)
    other = isinstance(value, str) and (read != _TAG + "str" or re.fullmatch(r"0o[0-7]+", word))
    if other or (isinstance(value, float) and math.isinf(value)):
        raise _refusal(
            node,
            f"{word!r} could mean another value; write a number, true or false, or quote the text",
        )
    return value


def _refusal(node: Any, problem: str) -> YamlError:
    return YamlError(f"line {node.start_mark.line + 1}: {problem}")
