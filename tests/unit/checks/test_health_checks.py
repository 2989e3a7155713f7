"""What the checks of a node's own health check find on a stand-in node."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruled_shells import RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import node_state, test_health
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.places_of_checks import places_of
from slurmfab.commands.checks.shell import CommandResult

WATCHED = cluster(THREE_HOSTS + "health: {interval: 300}\n")
NOW = 1_700_000_000


def looked(last: int, since: int) -> None:
    shell = RuledShell({"date": f"{NOW}\n{last}\n{since}\n"})
    test_health.test_health_is_looked_at(CheckedHost("n1", shell), WATCHED)


@pytest.mark.parametrize("last", [NOW - 10, NOW - 640])
def test_a_node_that_was_looked_at_within_two_intervals_passes(last: int) -> None:
    looked(last, NOW - 100_000)


@pytest.mark.parametrize(
    ("last", "words"),
    [(NOW - 6000, "the last health check ran 100 minutes ago"), (0, "no health check ran since the host's start")],
)
def test_a_node_that_nobody_looks_at_fails_with_where_to_look(last: int, words: str) -> None:
    with pytest.raises(AssertionError, match=words) as failed:
        looked(last, NOW - 100_000)
    assert "one is due every 300 s. See: grep health_check /var/log/slurmd/slurmd.log" in str(failed.value)


def test_a_node_whose_first_look_is_still_to_come_is_left_out() -> None:
    with pytest.raises(DoesNotApply):
        looked(0, NOW - 60)


def found(answer: str | CommandResult) -> None:
    test_health.test_node_is_well(CheckedHost("n1", RuledShell({"health-check look": answer})))


def test_a_node_with_which_nothing_is_wrong_passes() -> None:
    found('{"causes": {}}\n')


def test_a_node_with_which_something_is_wrong_fails_with_all_causes() -> None:
    with pytest.raises(AssertionError, match=r"no inodes left; the clock is 42 s off\. Repair: fix it"):
        found('{"causes": {"inodes /tmp": "the clock is 42 s off", "a": "/tmp has no inodes left"}}\n')


def test_a_health_check_that_does_not_run_fails_with_its_last_words() -> None:
    with pytest.raises(AssertionError, match=r"the health check fails: no such file\. Repair: fab deploy --hosts n1"):
        found(CommandResult(127, b"", b"no such file\n"))


@pytest.mark.parametrize(("known", "nodes"), [(WATCHED, ("n1", "n2")), (cluster(), ())])
def test_nodes_are_asked_where_the_cluster_file_has_them_watched(known: Cluster, nodes: tuple[str, ...]) -> None:
    places = places_of(Inventory(known, Lock(), Path("cluster.yaml")), ("c1", "n1", "n2"))
    assert places["watched"] == nodes


def test_a_node_that_its_health_check_has_drained_is_told_what_ends_that() -> None:
    record = {"State": "IDLE+DRAIN", "Reason": "slurmfab: health: /tmp is full [root@2026-11-21T18:00:13]"}
    said = node_state.complaint("n1", record, "fab deploy")
    assert "Its own health check has drained it. Repair: fix the problem; the node returns to service by itself" in said
