"""Values as JSON: what a class shows, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from reference.json_schemas import Maker
from slurmfab.base.json_output import Key, as_json, shows


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: tuple[Colour, ...]


@shows("name", Key("took", "seconds", digits=1), Key("first", "pair.left", text="of the pair"), "why_not", "size",
       Key("note", optional=True), Key("words", form=" ".join))  # fmt: skip
@dataclass(frozen=True)
class Shown:
    """A thing."""

    pair: Pair
    seconds: float | None  # how long it took
    words: tuple[str, ...]
    note: str | None = None  # if there is one
    name: str = "thing"
    why_not: None = None

    @property
    def size(self) -> int:
        """How large it is."""
        return 3


def test_a_dataclass_or_named_tuple_when_it_lists_no_keys_then_has_its_fields() -> None:
    assert as_json(Pair(1, (Colour.RED,))) == {"left": 1, "right": ["red"]}


def test_a_mapping_when_inside_a_list_then_its_values_are_json_too() -> None:
    assert as_json([MappingProxyType({"a": Pair(1, ())})]) == [{"a": {"left": 1, "right": []}}]


def test_a_class_that_lists_keys_has_these_in_this_order_and_leaves_an_optional_one_out_where_it_is_none() -> None:
    shown = as_json(Shown(Pair(1, ()), 2.345, ("a", "b")))
    assert list(shown.items()) == [
        ("name", "thing"), ("took", 2.3), ("first", 1), ("why_not", None), ("size", 3), ("words", "a b"),
    ]  # fmt: skip
    assert as_json(Shown(Pair(1, ()), None, (), "n"))["took"] is None
    assert as_json(Shown(Pair(1, ()), None, (), "n"))["note"] == "n"


def test_the_schema_of_a_class_has_the_types_and_texts_of_fields_and_properties() -> None:
    schema = Maker(is_closed=True).document(Shown)["$defs"]["Shown"]
    assert schema["required"] == ["name", "took", "first", "why_not", "size", "words"]
    assert schema["properties"]["took"] == {
        "description": "how long it took", "anyOf": [{"type": "number"}, {"type": "null"}],
    }  # fmt: skip
    assert schema["properties"]["first"] == {"description": "of the pair", "type": "integer"}
    assert schema["properties"]["size"] == {"description": "how large it is", "type": "integer"}
    assert schema["properties"]["note"] == {"description": "if there is one", "type": "string"}
