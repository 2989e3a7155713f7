"""For each check, somebody makes its sentence false on a real host: the check fails there, with words that say why."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from falsified import Falsified
from lab_cluster import DeployedLab, eventually
from sentences import BEFORE, KEYS, NODES, ROWS, WITHOUT
from stock import Stock
from suites import SUITES

from slurmfab.commands.checks.runner import CHECKS, ORDER

Clusters = Callable[[str], DeployedLab]


@pytest.fixture(scope="module")
def clusters(stock: Stock) -> Iterator[Clusters]:
    """The cluster of a suite, with much of what can be checked in its file; one at a time, and made on first use."""
    up: dict[str, tuple[DeployedLab, Iterator[DeployedLab]]] = {}

    def close() -> None:
        for _, opened in up.values():
            next(opened, None)
        up.clear()

    def cluster(suite: str) -> DeployedLab:
        if suite not in up:
            close()
            opened = deployed(stock, suite)
            up[suite] = next(opened), opened
        return up[suite][0]

    yield cluster
    close()


def deployed(stock: Stock, suite: str) -> Iterator[DeployedLab]:
    """A cluster of a controller, two compute nodes and a login host, on which every check passes."""
    with stock.copy(suite, database=True, nodes=NODES, gpus=("n1:3",)) as hosts:
        text = hosts.inventory_path.read_text().replace("hosts: n[1-3]", "hosts: n[1-2]")
        hosts.inventory_path.write_text(text + KEYS)
        for host in ("ctl", "n1", "n2", "n3"):
            hosts.on(host, BEFORE)
        hosts.deploy()
        hosts.until("ctl", "sinfo -h -o '%D %t'", "2 idle", patience=120)
        yield hosts


def results(hosts: DeployedLab, *words: str) -> list[dict[str, Any]]:
    """The results of the checks whose names contain one of these words."""
    done = hosts.slurmfab("check-cluster", "--json", "-", "--only", ",".join(words))
    assert done.stdout.startswith("{"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    found: list[dict[str, Any]] = json.loads(done.stdout)["checks"]
    return found


def result(hosts: DeployedLab, row: Falsified) -> dict[str, Any]:
    """What the row's check says of its host."""
    found = results(hosts, row.name, *row.needs)
    return next(one for one in found if (f"{one['group']}.{one['check']}", one["host"]) == (row.check, row.on))


def play(hosts: DeployedLab, row: Falsified) -> None:
    """Make the sentence false, and true again."""
    try:
        hosts.on(row.place, row.how)
        # Where an earlier row restarted a daemon, Slurm may not have noticed yet.
        eventually(lambda: result(hosts, row)["outcome"] != "not run", lambda: f"runs: {result(hosts, row)}", 90)
        told = result(hosts, row)
    finally:
        hosts.on(row.place, row.back)
    assert told["outcome"] == "failed", f"the check does not fail: {told}"
    assert row.says in told["cause"], told
    eventually(lambda: result(hosts, row)["outcome"] == "passed", lambda: f"passes again: {result(hosts, row)}", 90)


CASES = [(row, suite) for suite in SUITES for row in ROWS]


@pytest.mark.lab
@pytest.mark.parametrize(("sentence", "suite"), CASES, ids=[f"{row.check}-{suite}" for row, suite in CASES])
def test_a_sentence_that_is_made_false_is_a_check_that_fails(
    clusters: Clusters, sentence: Falsified, suite: str
) -> None:
    play(clusters(suite), sentence)


def checks() -> list[str]:
    """Group and name of each check."""
    trees = {group: ast.parse((CHECKS / f"test_{group}.py").read_text()) for group in ORDER}
    return [
        f"{group}.{one.name.removeprefix('test_')}"
        for group, tree in trees.items()
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    ]


def test_every_check_has_a_row_that_makes_its_sentence_false_or_the_reason_why_not() -> None:
    played = {".".join(row.check.split(".")[:2]) for row in ROWS}
    assert played & set(WITHOUT) == set()
    assert sorted(played | set(WITHOUT)) == sorted(checks())


def test_a_sentence_is_made_false_once() -> None:
    names = [row.check for row in ROWS]
    assert [name for name in names if names.count(name) > 1] == []
