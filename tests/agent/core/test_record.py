"""Records, which behave as frozen dataclasses and are fast to define."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from slurmfab.on_hosts.agent.core.record import Record


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


def test_a_record_has_the_given_values_and_the_defaults_of_other_fields() -> None:
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
def test_a_record_with_missing_or_unknown_fields_is_refused(values: Any, named: Any) -> None:
    with pytest.raises(TypeError, match=f"Door has the fields name, code, sizes, .*{len(values)} without a name"):
        Door(*values, **named)


def test_records_when_compared_are_equal_by_class_and_values() -> None:
    assert Door("a") == Door("a", "")
    assert Door("a") != Door("b")
    assert Gate("a") != Door("a")
    assert len({Door("a"), Door("a"), Gate("a")}) == 2


def test_a_record_cannot_be_changed() -> None:
    door = Door("a")
    with pytest.raises(AttributeError, match="Door never changes"):
        door.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="Door never changes"):
        del door.name
    assert door.name == "a"


def test_a_printed_record_omits_secrets() -> None:
    assert repr(Door("a", "4711")) == "Door(name='a', sizes=(2, 1))"


def test_a_record_is_a_dataclass_for_dataclasses_and_pydantic() -> None:
    assert [(one.name, one.default) for one in dataclasses.fields(Gate)][1:] == [
        ("code", "none"), ("sizes", (2, 1)), ("wings", 2),
    ]  # fmt: skip
    assert dataclasses.replace(Door("a", "1"), name="b") == Door("b", "1")
    assert dataclasses.asdict(House((Door("a"),))) == {"doors": ({"name": "a", "code": "", "sizes": (2, 1)},)}
    assert TypeAdapter(House).validate_python({"doors": [{"name": "a", "sizes": [3]}]}) == House((Door("a", "", (3,)),))
