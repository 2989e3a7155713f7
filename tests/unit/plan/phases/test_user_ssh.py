"""Users' SSH from host to host: which files each host has, and whom they let in."""

from __future__ import annotations

from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.agent.files.sshd_files import SshdFiles
from slurmfab.plan.phases import user_ssh
from slurmfab.plan.plan_input import PlanInput


def plan(more: str = "user_ssh: hostbased\n", **facts: object) -> PlanInput:
    wanted = cluster(THREE_HOSTS + more)
    return plan_input(wanted, facts_of(wanted, prepared, **facts))


def files(wanted: PlanInput, host: str) -> dict[str, str]:
    (found,) = user_ssh.resources(wanted, host)
    assert isinstance(found, SshdFiles)
    return {file[0]: file[1] for file in found.files}


def test_nodes_believe_the_clusters_hosts_and_controllers_believe_none() -> None:
    wanted = plan()
    assert files(wanted, "c1").keys() == {user_ssh.KNOWN_HOSTS, user_ssh.CLIENT}
    of_node = files(wanted, "n1")
    assert of_node[user_ssh.EQUIV].split() == ["c1", "10.0.0.1", "n1", "10.0.0.2", "n2", "10.0.0.3"]
    assert "n2,10.0.0.3 ssh-ed25519 host+key+of+n2\n" in of_node[user_ssh.KNOWN_HOSTS]
    assert "Match User !root,!slurm,!munge,*\n    HostbasedAuthentication yes\n" in of_node[user_ssh.SERVER]


def test_each_host_has_the_keys_that_it_needs_and_none_of_a_host_without_users() -> None:
    wanted = cluster(THREE_HOSTS + "user_ssh: hostbased\ndatabase: d1\n")
    known = plan_input(wanted, facts_of(wanted, prepared))
    assert user_ssh.resources(known, "d1") == ()
    keys = {host: files(known, host)[user_ssh.KNOWN_HOSTS] for host in ("c1", "n1")}
    hosts = {host: [line.split(",")[0] for line in text.splitlines()[1:]] for host, text in keys.items()}
    assert hosts == {"c1": ["n1", "n2"], "n1": ["n1", "n2", "c1"]}
    assert "d1" not in files(known, "n1")[user_ssh.EQUIV].split()
    assert [line.split()[1] for line in files(known, "c1")[user_ssh.CLIENT].splitlines() if "Host " in line] == [
        "n1",
        "n2",
    ]


def test_without_the_key_the_files_are_taken_back() -> None:
    assert user_ssh.resources(plan("", owned=("user-ssh",)), "n1") == (SshdFiles("user-ssh", ()),)
    assert user_ssh.resources(plan(""), "n1") == ()
