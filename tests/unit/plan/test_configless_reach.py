"""What slurmctld can carry to every slurmd, and what somebody has to do on the nodes."""

from __future__ import annotations

import dataclasses

import pytest
from support import cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.impact.slurm_diff import DEVICES, NODE_LINE, PARTITION_LINE, SETTING, TEXT, Difference
from slurmfab.core.plan.phases.configless import needs_of_nodes, obstacles
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.configuration import refuse_uneven_files

OLD, NEW = SlurmVersion(22, 5), SlurmVersion(24, 11)
TEXT_OF = """\
cluster: lab
addresses: {c1: 10.0.0.1, l1: 10.0.0.9, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
login: [l1]
nodes: [{hosts: "n[1-2]"}]
"""
CONFIGLESS = TEXT_OF + "configless: true\n"


def setting(name: str, actual: str = "1", wanted: str = "2", file: str = "slurm.conf") -> Difference:
    return Difference(file, SETTING, name, actual=actual, wanted=wanted)


def of_node(key: str) -> Difference:
    return Difference("slurm.conf", NODE_LINE, "n1", key, "1", "2", ("n1",))


@pytest.mark.parametrize(
    ("difference", "by_old", "by_new"),
    [
        pytest.param(setting("KillWait"), True, True, id="value"),
        pytest.param(setting("MaxJobCount"), True, True, id="restart of slurmctld alone"),
        pytest.param(setting("GresTypes"), False, True, id="restart of all in old versions"),
        pytest.param(setting("SlurmdPort"), False, False, id="port"),
        pytest.param(setting("SlurmdSpoolDir"), False, False, id="drained nodes"),
        pytest.param(setting("Prolog"), False, False, id="program on nodes"),
        pytest.param(setting("HealthCheckInterval"), False, False, id="what a program on nodes knows"),
        pytest.param(setting("ConstrainSwapSpace", file="cgroup.conf"), False, True, id="control groups"),
        pytest.param(setting("BasePath", file="job_container.conf"), False, False, id="directory on nodes"),
        pytest.param(Difference("slurm.conf", TEXT, "comments or order"), True, True, id="comment"),
        pytest.param(Difference("slurm.conf", PARTITION_LINE, "new", wanted="there"), True, True, id="partition"),
        pytest.param(of_node("Weight"), False, True, id="weight of a node"),
        pytest.param(of_node("RealMemory"), False, False, id="hardware of a node"),
        pytest.param(Difference("slurm.conf", NODE_LINE, "n3", wanted="there", nodes=("n3",)), False, False, id="node"),
        pytest.param(Difference("gres.conf", DEVICES, "n1", wanted="gpu", nodes=("n1",)), False, False, id="devices"),
    ],
)
def test_slurmctld_carries_what_no_node_has_another_part_in(difference: Difference, by_old: bool, by_new: bool) -> None:
    assert (not [*needs_of_nodes([difference], OLD)], not [*needs_of_nodes([difference], NEW)]) == (by_old, by_new)


def changed(text: str, before: str) -> PlanInput:
    """A situation in which the controller still has the files of an earlier cluster file."""
    files = dict(prepared_input(before).files)
    said = {"slurm_conf": files["slurm.conf"], "cgroup_conf": files["cgroup.conf"]}
    new = cluster(text)
    facts = facts_of(new, prepared)
    return plan_input(new, {**facts, "c1": dataclasses.replace(facts["c1"], **said)}, facts)


VALUE = "slurm_conf: {KillWait: 41}\n"


@pytest.mark.parametrize(
    ("before", "after", "hosts", "found"),
    [
        pytest.param(CONFIGLESS, CONFIGLESS + VALUE, ["c1", "l1"], (), id="all that have files"),
        pytest.param(
            CONFIGLESS,
            CONFIGLESS + VALUE,
            ["c1"],
            ("Slurm's files on l1 change too, so --hosts has to name l1 as well",),
            id="without the login host",
        ),
        pytest.param(
            TEXT_OF,
            CONFIGLESS,
            ["c1", "l1"],
            ("the nodes do not fetch their files from slurmctld yet",),
            id="the turn itself",
        ),
        pytest.param(
            TEXT_OF, TEXT_OF + VALUE, ["c1"], ("slurm.conf has to be the same on all hosts",), id="own files everywhere"
        ),
    ],
)
def test_a_run_about_some_hosts_changes_the_files_where_slurmctld_sees_to_the_others(
    before: str, after: str, hosts: list[str], found: tuple[str, ...]
) -> None:
    wanted = changed(after, before)
    assert obstacles(wanted, hosts) == found
    if found:
        with pytest.raises(InputError, match=r"First, without --hosts or --retry-failed: fab deploy"):
            refuse_uneven_files(wanted, hosts)
    else:
        refuse_uneven_files(wanted, hosts)
