"""Logins of users: which nodes are closed to those without a job, who needs none, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from support import THREE_HOSTS, cluster, plan_input, prepared_input

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.facts import Cgroup
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.core.plan.phases import logins
from slurmfab.core.plan.phases.packages import resources as packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.configuration import refuse_closed_nodes_without_control_groups
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.files.user_slices import UserSlices
from slurmfab.on_hosts.agent.people.node_logins import NodeLogins
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard

CLOSED = "node_logins: with_job\n"
UNPROVED = LoginGuard(proved=False)
WITH_SUDO = "users: [{name: ann, sudo: true}, {name: bob}]\n"


WITH_LOGIN = THREE_HOSTS.replace("controllers:", "login: [l1]\ncontrollers:")


def closing(more: str = CLOSED, text: str = THREE_HOSTS, **facts: object) -> PlanInput:
    """A deployed cluster whose file says this."""
    return prepared_input(text + more, **facts)


@pytest.mark.parametrize(
    ("more", "exempt"),
    [
        (CLOSED, ("root", "slurm")),
        (f"{CLOSED}ssh: {{user: admin, become: sudo}}\n", ("admin", "root", "slurm")),
        (f"{CLOSED}ssh: {{endpoints: {{n1: eve@10.0.0.2}}}}\n", ("eve", "root", "slurm")),
        (f"{CLOSED}{WITH_SUDO}", ("ann", "root", "slurm")),
    ],
)
def test_compute_nodes_are_closed_but_for_those_who_look_after_them(more: str, exempt: tuple[str, ...]) -> None:
    plan = closing(more)
    assert logins.node_logins(plan, "n1") == (UNPROVED, NodeLogins(exempt))
    assert logins.node_logins(plan, "c1") == ()
    assert [DEBIAN.pam in packages(plan, host)[0].names for host in ("c1", "n1")] == [False, True]  # type: ignore[attr-defined]


def test_a_node_with_another_hostname_has_its_nodename() -> None:
    plan = closing()
    facts = {**plan.facts, "n1": dataclasses.replace(plan.facts["n1"], hostname="cn01")}
    closed = logins.node_logins(plan_input(plan.cluster, facts), "n1")
    assert closed == (UNPROVED, NodeLogins(("root", "slurm"), "n1"))


@pytest.mark.parametrize(("owned", "planned"), [(("node-logins",), (UNPROVED, NodeLogins(()))), ((), ())])
def test_open_nodes_lose_the_lines_that_they_still_have(owned: tuple[str, ...], planned: tuple[Resource, ...]) -> None:
    assert logins.node_logins(closing("node_logins: all\n", owned=owned), "n1") == planned


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        ("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: c1}]\n", CLOSED, "every compute node has another role"),
        (THREE_HOSTS, f"{CLOSED}slurm_conf: {{PrologFlags: Alloc}}\n", "slurm_conf.PrologFlags: node_logins: with_job"),
        (THREE_HOSTS, f"{CLOSED}slurm_conf: {{ProctrackType: proctrack/linuxproc}}\n", "slurm_conf.ProctrackType"),
        (THREE_HOSTS, "node_logins: nobody\n", "node_logins"),
        (THREE_HOSTS, "login_limits: {tasks: 512}\n", "login_limits: there are no login hosts"),
        (THREE_HOSTS, "motd: true\n", "motd: there are no login hosts"),
        (THREE_HOSTS, "x11: true\nslurm_conf: {PrologFlags: Contain}\n", "slurm_conf.PrologFlags: x11: true needs X11"),
        (WITH_LOGIN, "login_limits: {}\n", "it limits nothing"),
        (WITH_LOGIN, "login_limits: {memory: lots}\n", "neither a percentage"),
        (WITH_LOGIN, "login_limits: {tasks: 1}\n", "it must be at least 64"),
        (WITH_LOGIN, 'motd: "\\e[2J"\n', "control characters"),
    ],
)
def test_what_would_let_nobody_in_is_refused_with_its_line(text: str, more: str, says: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(text + more)
    assert says in str(refused.value)


def test_nodes_without_control_groups_are_not_closed() -> None:
    refuse_closed_nodes_without_control_groups(closing("", cgroup=Cgroup("none")))
    with pytest.raises(InputError) as refused:
        refuse_closed_nodes_without_control_groups(closing(cgroup=Cgroup("none")))
    assert "needs control groups on every compute node" in str(refused.value)


def texts_by_path(plan: PlanInput, host: str) -> dict[str, str]:
    """The files that a host has for these keys."""
    found = logins.login_hosts(plan, host)
    assert all(isinstance(one, OwnedFiles) for one in found)
    return {file[0]: file[1] for one in found for file in one.files}  # type: ignore[attr-defined]


def test_users_of_login_hosts_have_limits_and_root_has_none() -> None:
    plan = closing("login_limits: {memory: 20%, cpus: 2}\n", WITH_LOGIN)
    found = {path: text.splitlines()[2:] for path, text in texts_by_path(plan, "l1").items()}
    assert found == {
        logins.OF_USERS: ["MemoryMax=20%", "CPUQuota=200%"],
        logins.OF_ROOT: ["MemoryMax=infinity", "CPUQuota="],
    }
    assert [logins.login_hosts(plan, host) for host in ("c1", "n1")] == [(), ()]


BOTH = THREE_HOSTS.replace("controllers:", "login: [c1, l1]\ncontrollers:")
"""Of the login hosts, one is the controller."""


@pytest.mark.parametrize(
    ("more", "beside", "elsewhere"),
    [
        ("", ["MemoryMax=25%", "TasksMax=1024"], []),
        ("login_limits: {cpus: 2}\n", ["CPUQuota=200%"], ["CPUQuota=200%"]),
    ],
)
def test_users_beside_slurmctld_have_limits_always_and_those_of_other_login_hosts_where_the_file_has_some(
    more: str, beside: list[str], elsewhere: list[str]
) -> None:
    plan = closing(f"{more}motd: true\n", BOTH)
    for host, wanted in (("c1", beside), ("l1", elsewhere)):
        texts = texts_by_path(plan, host)
        assert texts.get(logins.OF_USERS, "").splitlines()[2:] == wanted
        assert ("Without a job you can use here" in texts[logins.MESSAGE]) == bool(wanted)
    assert {"slurmctld", "libpam-systemd"} <= set(packages(plan, "c1")[0].names)  # type: ignore[attr-defined]


def test_former_limits_and_messages_are_taken_back() -> None:
    plan = closing("", WITH_LOGIN, owned=("login-limits", "motd"))
    assert logins.login_hosts(plan, "l1") == (UserSlices("login-limits", ()), OwnedFiles("motd", ()))


def test_the_message_has_partitions_limits_and_the_sites_words() -> None:
    more = (
        f"{CLOSED}login_limits: {{memory: 8G, tasks: 512}}\nmotd: 'Help: https://wiki.example/'\n"
        "partitions:\n  - {PartitionName: main, Nodes: ALL, Default: YES}\n"
        "  - {PartitionName: long, Nodes: n1, MaxTime: 7-00:00:00, MaxNodes: 1}\n"
        "  - {PartitionName: ours, Nodes: n1, Hidden: YES}\n"
    )
    assert texts_by_path(closing(more, WITH_LOGIN), "l1")[logins.MESSAGE].splitlines() == [
        "Cluster lab",
        "",
        "PARTITION  NODES  TIME LIMIT  MOST NODES",
        "main*      2      none        none",
        "long       1      7-00:00:00  1",
        "",
        "Jobs: sbatch, srun, salloc, squeue, scancel. Nodes: sinfo.",
        "Without a job you can use here: 8G of memory, 512 tasks.",
        "Compute nodes let you in by SSH while you have a job there.",
        "",
        "Help: https://wiki.example/",
    ]


def test_the_message_names_the_guide_where_there_is_one() -> None:
    message = texts_by_path(closing("motd: true\nuser_tools: true\n", WITH_LOGIN), "l1")[logins.MESSAGE]
    assert "sstatus. Guide: /usr/share/doc/lab-users/guide.md" in message


def test_x11_joins_the_flags_and_brings_xauth_to_both_sides() -> None:
    plan = closing("x11: true\n", WITH_LOGIN)
    assert plan.conf_wanted.settings["prologflags"] == "Alloc,Contain,X11"
    assert [logins.XAUTH in packages(plan, host)[0].names for host in ("c1", "l1", "n1")] == [True] * 3  # type: ignore[attr-defined]
