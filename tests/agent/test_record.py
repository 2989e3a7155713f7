"""Records, which are frozen dataclasses to everybody who asks, and cost hosts next to nothing."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from slurmfab.agent.record import Record


class Door(Record):
    kind: ClassVar[str] = "door"
    UNSHOWN = ("code",)
    name: str
    code: str = ""
    sizes: tuple[int, ...] = (2, 1)


class Gate(Door):
    code: str = "none"
    wings: int = 2


@dataclasses.dataclass(frozen=True)
class House:
    doors: tuple[Door, ...]


def test_a_record_when_made_has_the_values_that_it_was_given_and_the_default_ones_of_the_others() -> None:
    door = Door("front", code="1")
    assert (door.name, door.code, door.sizes) == ("front", "1", (2, 1))
    assert vars(door) == {"name": "front", "code": "1"}, "a host sends no default values"


def test_a_record_of_a_derived_class_when_made_has_the_fields_of_the_base_first() -> None:
    assert Gate.FIELDS == ("name", "code", "sizes", "wings")
    assert (Gate("g").code, Gate("g", "x", (), 1).wings) == ("none", 1)


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((), {"code": "1"}), (("a",), {"name": "b"}), (("a",), {"wood": "oak"}), (("a", "b", (), 4), {})],
    ids=["nothing", "missing", "twice", "unknown", "too-many"],
)
def test_a_record_when_given_what_are_not_its_fields_is_not_made(values: Any, named: Any) -> None:
    with pytest.raises(TypeError, match=f"Door has the fields name, code, sizes, .*{len(values)} without a name"):
        Door(*values, **named)


def test_records_when_compared_are_equal_by_class_and_values() -> None:
    assert Door("a") == Door("a", "")
    assert Door("a") != Door("b")
    assert Gate("a") != Door("a")
    assert len({Door("a"), Door("a"), Gate("a")}) == 2


def test_a_record_when_somebody_tries_to_change_it_stays_as_it_is() -> None:
    door = Door("a")
    with pytest.raises(AttributeError, match="Door never changes"):
        door.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Door never changes"):
        del door.name
    assert door.name == "a"


def test_a_record_when_printed_leaves_out_what_may_not_be_shown() -> None:
    assert repr(Door("a", "4711")) == "Door(name='a', sizes=(2, 1))"


def test_a_record_when_dataclasses_and_pydantic_look_at_it_is_a_dataclass() -> None:
    assert [(one.name, one.default) for one in dataclasses.fields(Gate)][1:] == [
        ("code", "none"), ("sizes", (2, 1)), ("wings", 2),
    ]  # fmt: skip
    assert dataclasses.replace(Door("a", "1"), name="b") == Door("b", "1")
    assert dataclasses.asdict(House((Door("a"),))) == {"doors": ({"name": "a", "code": "", "sizes": (2, 1)},)}
    assert TypeAdapter(House).validate_python({"doors": [{"name": "a", "sizes": [3]}]}) == House((Door("a", "", (3,)),))
