"""For each check, somebody makes its sentence false on a real host: the check fails there, with words that say why."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from falsified import Falsified
from lab_cluster import DeployedLab, eventually
from scenes import SCENES
from sentences import ROWS
from stock import Stock
from suites import SUITES

from slurmfab.commands.checks.runner import CHECKS, ORDER

Clusters = Callable[[str, str], DeployedLab]


@pytest.fixture(scope="module")
def clusters(stock: Stock) -> Iterator[Clusters]:
    """The clusters of a scene and a suite; one at a time, and made on first use."""
    up: dict[tuple[str, str], tuple[DeployedLab, Iterator[DeployedLab]]] = {}

    def close() -> None:
        for _, opened in up.values():
            next(opened, None)
        up.clear()

    def cluster(scene: str, suite: str) -> DeployedLab:
        if (scene, suite) not in up:
            close()
            opened = deployed(stock, scene, suite)
            up[scene, suite] = next(opened), opened
        return up[scene, suite][0]

    yield cluster
    close()


def deployed(stock: Stock, scene: str, suite: str) -> Iterator[DeployedLab]:
    """A cluster on which the rows of a scene are played, with two idle nodes at least, or with its one."""
    made = SCENES[scene]
    with stock.copy(suite, **made.wanted) as hosts:  # type: ignore[arg-type]
        hosts.inventory_path.write_text(made.prepare(hosts, suite))
        hosts.deploy()
        nodes = str(min(2, len(hosts.lab.hosts) - 1))
        hosts.until("ctl", "sinfo -h -N -t idle -o %N | sort -u | wc -l", nodes, patience=120)
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
    its = (one for one in found if (f"{one['group']}.{one['check']}", one["host"]) == (row.check, row.on))
    return next(its, {"outcome": "left out", "cause": ""})


def play(hosts: DeployedLab, row: Falsified) -> None:
    """Make the sentence false, and true again."""
    told: dict[str, Any] = {}

    def becomes(*outcomes: str, says: str = "") -> None:
        """Wait until the check ends so: Slurm, or Prometheus, may not have noticed yet."""

        def ends() -> bool:
            told.update(result(hosts, row))
            return bool(told["outcome"] in outcomes and says in told["cause"])

        eventually(ends, lambda: f"the check ends with {' or '.join(outcomes)}: {told}", 90)

    # Rows restart daemons more often than systemd lets anybody do it.
    hosts.on(row.place, "systemctl reset-failed")
    try:
        hosts.on(row.place, row.how)
        becomes("failed", says=row.says)
    finally:
        hosts.on(row.place, row.back)
    becomes("passed", row.over)


CASES = [
    (row, suite) for suite in SUITES for row in sorted(ROWS, key=lambda row: row.scene) if suite in row.among(SUITES)
]


@pytest.mark.lab
@pytest.mark.parametrize(("sentence", "suite"), CASES, ids=[f"{row.check}-{suite}" for row, suite in CASES])
def test_a_sentence_that_is_made_false_is_a_check_that_fails(
    clusters: Clusters, sentence: Falsified, suite: str
) -> None:
    play(clusters(sentence.scene, suite), sentence)


def checks() -> list[str]:
    """Group and name of each check."""
    trees = {group: ast.parse((CHECKS / f"test_{group}.py").read_text()) for group in ORDER}
    return [
        f"{group}.{one.name.removeprefix('test_')}"
        for group, tree in trees.items()
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    ]


def test_every_check_has_a_row_that_makes_its_sentence_false() -> None:
    assert sorted({".".join(row.check.split(".")[:2]) for row in ROWS}) == sorted(checks())


def test_a_sentence_is_made_false_once() -> None:
    names = [row.check for row in ROWS]
    assert [name for name in names if names.count(name) > 1] == []
