"""The diagrams of the documentation are those that docs/pictures/draw.py makes of their data, and pages show them."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

import slurmfab

DOCS = Path(slurmfab.__file__).parents[1] / "docs"
DRAWN = [*sorted(path.stem for path in DOCS.glob("pictures/*.yaml")), "layers"]


def program(path: str) -> ModuleType:
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, DOCS / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


draw, structure = program("pictures/draw.py"), program("structure.py")
MOST_ROOMS, MOST_ARROWS = 16, 50
"""So few that somebody who comes in sees all of them at once."""


@pytest.mark.parametrize("name", DRAWN)
def test_picture_when_drawn_from_its_data_then_is_the_file_that_pages_show(name: str) -> None:
    drawn = draw.svg(draw.pictures()[name])
    assert (DOCS / f"pictures/{name}.svg").read_text() == drawn, "run .venv/bin/python docs/pictures/draw.py"
    ET.fromstring(drawn)
    assert any(f"](pictures/{name}.svg)" in page.read_text() for page in DOCS.glob("*.md"))


def test_text_when_a_word_is_wider_than_its_box_then_is_refused() -> None:
    row = {name: draw.Box(lines=("unbreakable" * 3,)) for name in ("one", "two", "three", "four")}
    with pytest.raises(ValueError, match="wider than its box"):
        draw.svg(draw.Picture(about="a test", rows=(row,)))


def test_arrow_when_boxes_do_not_face_each_other_then_turns_below_the_upper_one() -> None:
    rows = ({"a": draw.Box(), "b": draw.Box()}, {"c": draw.Box(kind="gap"), "d": draw.Box()})
    boxes = draw.places(draw.Picture(about="a test", rows=rows))
    corners = draw.path(draw.Arrow(start="a", end="d"), boxes["a"], boxes["d"])
    assert [y for _, y in corners] == [boxes["a"].bottom, *[boxes["a"].bottom + draw.TURN] * 2, boxes["d"].y]


def test_the_package_has_so_few_rooms_and_arrows_that_all_are_seen_at_once() -> None:
    found = structure.arrows()
    assert len({name for pair in found for name in pair}) <= MOST_ROOMS
    assert len(found) <= MOST_ARROWS
    assert {pair for pair in found if pair[::-1] in found} == set()


def test_files_import_one_another_in_no_circle_not_even_for_types() -> None:
    TopologicalSorter(structure.imported()).prepare()  # CycleError names the files of a circle
