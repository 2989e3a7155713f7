"""A copy of the cluster file that is older than what the hosts have: nodes that it never had are not removed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from support import MUNGE_KEY, THREE_HOSTS, FakeHosts, cluster, facts_of, prepared, prepared_input, run_over

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine.converge import deploy, dry_run
from slurmfab.core.engine.run import Run
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.plan.pinned import pin
from slurmfab.hosts.session import Line

GROWN = THREE_HOSTS.replace("n[1-2]", "n[1-4]").replace("10.0.0.[2-3]", "10.0.0.[2-5]")
RUN = "20261122T120000.000000Z-add-node"
LAST = "ann@laptop since 2026-11-22 12:00:00 +0000, fab add-node"


@dataclasses.dataclass
class GrownHosts(FakeHosts):
    """Hosts to which a colleague has added nodes."""

    kept: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        return ({"kept": self.kept},) if request["op"] == "kept" else super().call(host, request, heard)


def hosts(**kept: Any) -> GrownHosts:
    """Hosts whose Slurm has n3 and n4."""
    text = dict(prepared_input(GROWN).files)["slurm.conf"]
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY, slurm_conf=text)
    return GrownHosts(facts, kept={"dropped": "", "files": [], "services": [], **kept})


def older(here: GrownHosts, lock: Lock | None = None, **options: Any) -> Run:
    """A run with the files from before the nodes were added."""
    return run_over(here, cluster(), lock=lock or pin(cluster(), Lock(), facts_of(cluster(), prepared)), **options)


@pytest.mark.parametrize(
    ("kept", "who"),
    [
        ({"last": LAST, "runs": [RUN]}, f" (the last run there: {LAST})"),
        ({"last": "", "runs": [RUN.replace("T12", "T11"), RUN]}, f" (the last run there: {RUN})"),
        ({"runs": []}, "newer copy of these files. Get that copy"),
        ({"last": "somebody\nNothing was changed.", "runs": [RUN]}, "newer copy of these files. Get that copy"),
        ({"runs": ["../../etc"]}, "newer copy of these files. Get that copy"),
    ],
)
@pytest.mark.parametrize("work", [deploy, dry_run])
def test_nodes_that_another_copy_added_are_not_removed(work: Callable[[Run], Any], kept: Any, who: str) -> None:
    here = hosts(**kept)
    with pytest.raises(InputError) as refused:
        work(older(here))
    said = str(refused.value)
    assert said.startswith("n[3-4]: in Slurm on c1, but neither cluster.yaml nor its lock has ever had them.")
    assert who in said
    assert "fab deploy --allow unknown-nodes. Nothing was changed." in said
    assert {request["op"] for _, request in here.requests} == {"facts"}


def test_nodes_that_another_copy_added_are_removed_if_that_is_allowed() -> None:
    here = hosts()
    here.wrong = {"c1": {"slurm-files:/etc/slurm"}}
    run = older(here, approvals=Approvals(allowed=frozenset({"unknown-nodes"})))
    here.facts["c1"] = dataclasses.replace(here.facts["c1"], services={})
    assert deploy(run).exit_code == 0


def test_nodes_that_went_from_the_cluster_file_are_in_the_lock_and_may_go() -> None:
    grown = cluster(GROWN)
    known = pin(grown, Lock(), facts_of(grown, prepared))
    assert deploy(older(hosts(), known)).exit_code == 0


def test_a_lock_that_was_never_deployed_says_nothing_about_nodes() -> None:
    assert deploy(older(hosts(), Lock())).exit_code == 0
