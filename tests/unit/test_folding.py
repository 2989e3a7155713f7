"""Equal texts of many hosts: one text with a hostlist, and no fact lost."""

from __future__ import annotations

import pytest

from slurmfab.base.folding import fold_lines, fold_texts


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        pytest.param([("n1", "off."), ("n3", "off."), ("n2", "off.")], ["n[1-3]: off."], id="equal texts"),
        pytest.param([("n1", "off."), ("n2", "full."), ("n3", "off.")], ["n[1,3]: off.", "n2: full."], id="others"),
        pytest.param([("n1", "off."), ("n1", "off."), ("n1", "full.")], ["n1: off.", "n1: full."], id="said twice"),
        pytest.param(
            [("n1", "the name n1 does not resolve."), ("n2", "the name n2 does not resolve.")],
            ["n[1-2]: the name n[1-2] does not resolve."],
            id="own names",
        ),
        pytest.param(
            [("n1", "ctl is off."), ("ctl", "ctl is off.")], ["ctl,n1: ctl is off."], id="one text names a host of all"
        ),
        pytest.param(
            [("n1", "n10 is full."), ("n2", "n20 is full.")],
            ["n1: n10 is full.", "n2: n20 is full."],
            id="names of others that begin alike",
        ),
        pytest.param(
            [("n1", "10.0.0.1 port 22, by 10.0.0.9."), ("n2", "10.0.1.2 port 22, by 10.0.0.9.")],
            ["n[1-2]: 10.0.0.1,10.0.1.2 port 22, by 10.0.0.9."],
            id="addresses",
        ),
        pytest.param(
            [("n1", "no answer from fe80::1."), ("n2", "no answer from fe80::2.")],
            ["n[1-2]: no answer from fe80::[1-2]."],
            id="IPv6",
        ),
        pytest.param(
            [("n1", "since 09:00:01, 3.14.15.926."), ("n2", "since 09:00:02, 3.14.15.926.")],
            ["n1: since 09:00:01, 3.14.15.926.", "n2: since 09:00:02, 3.14.15.926."],
            id="times and versions are no addresses",
        ),
        pytest.param(
            [("10.0.0.1", "10.0.0.1 is off."), ("10.0.0.2", "10.0.0.2 is off.")],
            ["10.0.0.[1-2]: 10.0.0.[1-2] is off."],
            id="hosts by address",
        ),
    ],
)
def test_texts_are_folded_over_hosts_where_nothing_else_differs(said: list[tuple[str, str]], lines: list[str]) -> None:
    assert fold_lines(said) == lines


def test_hosts_stay_apart_where_that_is_wanted() -> None:
    said = [("n1", ("off.", "start n1")), ("n2", ("off.", "start n2"))]
    assert [(one.hostlist, one.texts) for one in fold_texts(said, apart=True)] == said
    assert [(one.hostlist, one.texts) for one in fold_texts(said)] == [("n[1-2]", ("off.", "start n[1-2]"))]
