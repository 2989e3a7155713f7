"""The one reader of JSON files: each key once, no value that JSON has not, bounded depth, and a strict model.

Its parser is pydantic's: at most 200 values lie inside one another, and texts are Unicode. So neither `Infinity` nor
half of a character nor a file of brackets gets further than here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from slurmfab.base.errors import BrokenFile

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import TypeAdapter, ValidationError

Place = tuple[str | int, ...]
Model = TypeVar("Model")

UNKNOWN = "this key is unknown"
PLAIN = {
    "unexpected_keyword_argument": UNKNOWN,
    "extra_forbidden": UNKNOWN,
    "string_pattern_mismatch": "the value is malformed",
}
"""Words for mistakes that pydantic words for programmers, by the type of the mistake."""

PLACE_LENGTH = 100  # the most characters of a key's name in a message

_AT = re.compile(r"(?:Invalid JSON: )?(.*) at line (\d+) column \d+")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def parse(data: bytes, where: str | Path) -> Any:
    """The values of a JSON file, where no model tells all that may be in it; BrokenFile if it is not JSON."""
    from pydantic_core import from_json  # slow to import, and not every command reads JSON

    try:
        from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise _not_json(str(error), where) from error
    return _with_single_keys(data, where)


def checked(data: bytes, where: str | Path, model: TypeAdapter[Model]) -> Model:
    """The content of a JSON file, after its model has found nothing wrong with it; see `checked_and_plain`."""
    return checked_and_plain(data, where, model)[0]


def checked_and_plain(data: bytes, where: str | Path, model: TypeAdapter[Model]) -> tuple[Model, Any]:
    """The content of a JSON file as its model has it, and as plain values; BrokenFile if it is not as it says."""
    from pydantic import ValidationError

    try:
        value = model.validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise _not_json(first["msg"], where) from error
        raise BrokenFile(where, mistake(error), line_of(data, first["loc"])) from error
    return value, _with_single_keys(data, where)


def mistake(error: ValidationError) -> str:
    """The first mistake that a model found: where, and what is expected; without the value, which may be secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    reason = PLAIN.get(first["type"], first["msg"])
    return f"{place_name(first['loc'])}: {reason}" if first["loc"] else reason


def place_name(place: Sequence[str | int]) -> str:
    """A place among the values as messages show it: `hosts.n1.hostname`, shortened and without control characters."""
    text = ".".join(map(str, place))
    name = text if len(text) <= PLACE_LENGTH else f"{text[:PLACE_LENGTH]}..."
    return name if name.isprintable() else ascii(name)


def line_of(data: bytes, place: Sequence[str | int]) -> int:
    """The line, from 1, of a key or entry at a place (keys and numbers), or of the nearest one around it."""
    text = data.decode(errors="replace")
    best, found = 0, 0
    for keys, position in _keys(text):
        if len(keys) > best and keys == tuple(place[: len(keys)]):
            best, found = len(keys), position
            if best == len(place):
                break
    return text.count("\n", 0, found) + 1


def _not_json(message: str, where: str | Path) -> BrokenFile:
    """The error for a text that is not JSON, from the message of pydantic's parser."""
    match = _AT.fullmatch(message)
    reason, line = (match[1], int(match[2])) if match else (message, 0)
    return BrokenFile(where, f"it is not JSON ({reason})", line)


def _with_single_keys(data: bytes, where: str | Path) -> Any:
    """The values of a JSON file with single keys and finite numbers; BrokenFile for any other."""
    try:
        return json.loads(data, object_pairs_hook=_single, parse_constant=_no_number, parse_float=_finite)
    except KeyError:
        place, line = _repeated(data)
        raise BrokenFile(where, f"{place_name(place)}: this key is there twice", line) from None
    except (ValueError, RecursionError) as error:  # RecursionError: the caller itself is deep in the stack
        raise BrokenFile(where, f"it is not JSON ({error})") from error


def _single(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these keys and values. Raises KeyError if a key is there twice."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise KeyError
    return values


def _no_number(name: str) -> float:
    """Refuse Infinity and NaN, which Python's parser knows and JSON does not."""
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    """The number in a text. Raises ValueError if it is larger than all numbers that a computer has."""
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is out of range")
    return number


def _repeated(data: bytes) -> tuple[Place, int]:
    """The first place that is there twice in a JSON text, and its line."""
    text, seen = data.decode(errors="replace"), set[Place]()
    for place, position in _keys(text):
        if place in seen:
            return place, text.count("\n", 0, position) + 1
        seen.add(place)
    return (), 1


def _keys(text: str) -> Iterator[tuple[Place, int]]:
    """The keys of objects and the entries of lists in a JSON text, in its order, each with where it begins."""
    path: list[str | int] = []
    is_key = False
    for token in _TOKEN.finditer(text):
        first = token[0][0]
        if first == ",":
            is_key = not isinstance(path[-1], int)
            path[-1] = path[-1] + 1 if isinstance(path[-1], int) else ""
        elif first in "]}":
            path.pop()
            is_key = False
        elif first == ":":
            is_key = False
        elif is_key:
            path[-1] = str(json.loads(token[0]))
            yield tuple(path), token.start()
        elif path and isinstance(path[-1], int):
            yield tuple(path), token.start()
        if first in "[{":
            path.append(0 if first == "[" else "")
            is_key = first == "{"
