"""What the daemons do for a change, as a plan says it and as its phases have it."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.cluster.facts import HostFacts
from slurmfab.core.plan.phases import daemons
from slurmfab.core.plan.phases.daemons import renewal
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.client.commands import SHOW_SLURMD
from slurmfab.on_hosts.agent.services.service import Service

HOSTS = ("c1", "n1", "n2")


def changed(slurm: str, old: str, new: str, *, file: str = "slurm_conf", said: str = "") -> PlanInput:
    """A cluster whose files differ from those on its controller by this; `said` is more in its cluster file."""
    wanted = cluster(THREE_HOSTS + said)
    facts: dict[str, HostFacts] = facts_of(wanted, prepared, slurm=slurm)
    files = {name.replace(".", "_"): text for name, text in plan_input(wanted, facts).files}
    assert old in files[file]
    files[file] = files[file].replace(old, new)
    running = {"services": {"slurmctld": "active"}}
    return plan_input(wanted, facts | {"c1": prepared("c1", slurm=slurm, **files, **running)})


@pytest.mark.parametrize(
    ("slurm", "old", "new", "words"),
    [
        ("24.11.5", "KillWait=30", "KillWait=60", "scontrol reconfigure renews slurmctld on c1 and slurmd on n[1-2]."),
        ("22.05.8", "KillWait=30", "KillWait=60", "slurmctld on c1 and slurmd on n[1-2] restart."),
        (
            "24.11.5",
            "SlurmdPort=6818",
            "SlurmdPort=7000",
            "slurmctld on c1 stops, slurmd on n[1-2] restarts, and slurmctld starts again.",
        ),
        ("22.05.8", "SlurmdPort=6818", "SlurmdPort=7000", "slurmctld on c1 and slurmd on n[1-2] restart."),
        (
            "22.05.8",
            "NodeName=n[1-2] NodeAddr=10.0.0.[2-3]",
            "NodeName=n1 NodeAddr=10.0.0.2",
            "slurmctld on c1 stops, slurmd on n[1-2] restarts, and slurmctld starts again.",
        ),
    ],
)
def test_a_change_on_each_version_is_taken_in_like_this(slurm: str, old: str, new: str, words: str) -> None:
    assert renewal(changed(slurm, old, new), HOSTS) == words


def test_a_change_of_cgroup_conf_alone_restarts_slurmd_alone() -> None:
    wanted = changed("24.11.5", "ConstrainCores=yes", "ConstrainCores=no", file="cgroup_conf")
    assert renewal(wanted, HOSTS) == "slurmd on n[1-2] restarts."


def test_hosts_that_are_left_out_are_not_named() -> None:
    assert renewal(changed("24.11.5", "KillWait=30", "KillWait=60"), ("c1", "n2")).endswith("and slurmd on n2.")


@pytest.mark.parametrize(
    ("old", "new", "hosts", "words"),
    [
        ("KillWait=30", "KillWait=60", ("c1",), "scontrol reconfigure renews slurmctld on c1 and slurmd on n[1-2]."),
        ("KillWait=30", "KillWait=60", HOSTS, "scontrol reconfigure renews slurmctld on c1 and slurmd on n[1-2]."),
        (
            "SlurmdPort=6818", "SlurmdPort=7000", HOSTS,
            "slurmctld on c1 stops and starts with the new files, and slurmd on n[1-2] restarts and fetches them.",
        ),
    ],
)  # fmt: skip
def test_nodes_that_fetch_files_are_renewed_whether_they_are_named_or_not(
    old: str, new: str, hosts: tuple[str, ...], words: str
) -> None:
    assert renewal(changed("24.11.5", old, new, said="configless: true\n"), hosts) == words


def test_without_a_change_of_slurms_files_no_daemon_is_named() -> None:
    assert renewal(changed("24.11.5", "KillWait=30", "KillWait=30"), HOSTS) == ""


def test_slurmd_of_a_node_ends_early_where_it_does_not_come_up() -> None:
    wanted = changed("24.11.5", "KillWait=30", "KillWait=30")
    (own,) = [one for one in daemons.slurmd(wanted, "n1") if isinstance(one, Service)]
    assert (own.unit, own.stops_early, own.answers) == ("slurmd", True, SHOW_SLURMD)
