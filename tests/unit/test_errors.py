"""The tree of errors is the one that its docstring draws."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import slurmfab
from slurmfab.base import errors
from slurmfab.base.errors import ClusterFileError, HostError, HostKeyUnknown, InputError, SlurmfabError

MODULES = [
    found.name
    for found in pkgutil.walk_packages(slurmfab.__path__, "slurmfab.")
    if ".checks.test_" not in found.name and "__main__" not in found.name
]


def drawn() -> dict[str, str]:
    """The parent of each error, as the docstring draws them."""
    branch: list[str] = []
    parents: dict[str, str] = {}
    for indentation, name in re.findall(r"^    ((?:[|+ -]{4})*)([A-Z]\w+) ", errors.__doc__ or "", re.MULTILINE):
        depth = len(indentation) // 4
        branch = [*branch[:depth], name]
        parents[name] = branch[depth - 1] if depth else "Exception"
    return parents


def subclasses(root: type[SlurmfabError]) -> set[type[SlurmfabError]]:
    return {root, *(below for child in root.__subclasses__() for below in subclasses(child))}


def test_the_tree_in_the_docstring_is_that_of_all_errors_in_the_package() -> None:
    for module in MODULES:
        importlib.import_module(module)
    found = {
        one.__name__: parent.__name__
        for one in subclasses(SlurmfabError)
        for parent in one.__bases__
        if parent.__module__ != "invoke.exceptions"
        if one.__module__.startswith("slurmfab")
    }
    assert found == drawn()


def test_wrong_input_has_exit_code_2_and_everything_else_1() -> None:
    codes = {one.__name__: one.exit_code for one in subclasses(SlurmfabError)}
    assert {name for name, code in codes.items() if code == 2} == {one.__name__ for one in subclasses(InputError)}
    assert set(codes.values()) == {1, 2}


def test_an_error_about_a_host_begins_with_its_name() -> None:
    error = HostError("n1", "it is off.")
    assert (str(error), error.host, error.reason) == ("n1: it is off.", "n1", "it is off.")


def test_all_complaints_about_a_cluster_file_are_told_a_line_each() -> None:
    assert str(ClusterFileError(("a.yaml:1: x", "a.yaml:2: y"))) == "a.yaml:1: x\na.yaml:2: y"


def test_an_unknown_host_key_tells_type_and_fingerprint() -> None:
    error = HostKeyUnknown("n1", "ssh-ed25519", "AAAA", "SHA256:abc")
    assert "ssh-ed25519 SHA256:abc" in str(error)


@pytest.mark.parametrize("one", sorted(subclasses(SlurmfabError), key=str))
def test_every_error_says_in_its_docstring_what_it_is(one: type[SlurmfabError]) -> None:
    assert (one.__doc__ or "").splitlines()[0].endswith((".", ";"))
