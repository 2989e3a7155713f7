"""The tokens of a text in YAML, and what stands between them: for programs that keep the rest as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, where PyYAML has it


class Token(NamedTuple):
    """A token."""

    before: str  # what stands between it and the former one: spaces, line breaks and comments
    text: str  # its own text
    value: str = ""  # of a scalar; empty for any other token
    is_scalar: bool = False  # whether it is one
    is_key: bool = False  # whether it is a key of a mapping
    is_block: bool = False  # whether it is a scalar of several lines, behind `|` or `>`


def tokens(text: str) -> Iterator[Token]:
    """Yield all tokens of a text, and an empty one with what stands behind the last; ValueError if it is no YAML."""
    try:
        found = list(yaml.scan(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        raise ValueError("it is not YAML") from error
    begin, is_key = 0, False
    for one in found:
        before, own = text[begin : one.start_mark.index], text[one.start_mark.index : one.end_mark.index]
        if isinstance(one, yaml.ScalarToken):
            yield Token(before, own, one.value, is_scalar=True, is_key=is_key, is_block=one.style in ("|", ">"))
        else:
            yield Token(before, own)
        is_key, begin = isinstance(one, yaml.KeyToken), one.end_mark.index
    yield Token(text[begin:], "")
