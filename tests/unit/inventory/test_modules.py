"""The key modules of a cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory.modules import Modules


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("lmod", Modules(system="lmod")),
        ("environment-modules", Modules(system="environment-modules")),
        ("{system: lmod, path: /sw/a:/sw/b}", Modules(system="lmod", path=("/sw/a", "/sw/b"))),
        ("{system: lmod, path: [/sw/a, /sw/b]}", Modules(system="lmod", path=("/sw/a", "/sw/b"))),
        ("false", None),
    ],
)
def test_modules_are_a_word_or_a_mapping(said: str, found: Modules | None) -> None:
    assert cluster(f"{THREE_HOSTS}modules: {said}\n").modules == found


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("tcl", "modules.system: it must be"),
        ("true", "modules"),
        ("{path: [/sw]}", "modules.system: this key is missing"),
        ("{system: lmod, path: [sw]}", '"sw" is not an absolute path'),
        ("{system: lmod, path: [/sw, /sw]}", '"/sw" is listed twice'),
        ("{system: lmod, path: ['/sw/$(id)']}", "is not an absolute path"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(said: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{THREE_HOSTS}modules: {said}\n")
    assert words in str(refused.value)
    assert f"cluster.yaml:{THREE_HOSTS.count(chr(10)) + 1}" in str(refused.value)
