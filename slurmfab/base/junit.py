"""JUnit XML, for CI systems."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from slurmfab.base.terminal import harmless


class Case(NamedTuple):
    """A test case; it has passed unless it has failed or was skipped."""

    classname: str
    name: str
    seconds: float
    failure: str = ""  # why it failed
    skipped: str = ""  # why it was not run


def as_xml(name: str, cases: Iterable[Case], seconds: float) -> str:
    """A test suite as XML."""
    from xml.etree import ElementTree

    told = tuple(cases)
    failed, skipped = sum(bool(one.failure) for one in told), sum(bool(one.skipped) for one in told)
    about = {"name": name, "tests": len(told), "failures": failed, "skipped": skipped, "time": f"{seconds:.3f}"}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {key: str(value) for key, value in about.items()})
    for one in told:
        place = {"classname": one.classname, "name": one.name, "time": f"{one.seconds:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", place)
        for kind, message in (("failure", one.failure), ("skipped", one.skipped)):
            if message:
                ElementTree.SubElement(case, kind, message=harmless(message))
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return f"{text.decode()}\n"
