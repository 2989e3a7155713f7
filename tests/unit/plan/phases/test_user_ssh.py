"""Users' SSH from host to host: which files each host has, and whom they let in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.core.plan.phases import user_ssh
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.hostbased_logins import REFUSED_HERE, HostbasedLogins
from slurmfab.on_hosts.agent.files.sshd_files import SshdFiles

CONFIGS = Path(__file__).parents[4] / "configs"


def plan(more: str = "user_ssh: hostbased\n", **facts: object) -> PlanInput:
    return prepared_input(THREE_HOSTS + more, **facts)


def files(wanted: PlanInput, host: str) -> dict[str, str]:
    (found,) = user_ssh.resources(wanted, host)
    assert isinstance(found, HostbasedLogins)
    return {file[0]: file[1] for file in found.files}


def test_nodes_believe_the_clusters_hosts_and_controllers_believe_none() -> None:
    wanted = plan()
    assert files(wanted, "c1").keys() == {user_ssh.KNOWN_HOSTS, user_ssh.CLIENT}
    of_node = files(wanted, "n1")
    assert of_node[user_ssh.EQUIV].split() == ["c1", "10.0.0.1", "n1", "10.0.0.2", "n2", "10.0.0.3"]
    assert "n2,10.0.0.3 ssh-ed25519 host+key+of+n2\n" in of_node[user_ssh.KNOWN_HOSTS]


MANY_ROLES = """
cluster: lab
addresses: {c1: 10.0.0.1, c2: 10.0.0.2, l1: 10.0.0.3, "n[1-2]": "10.0.0.[4-5]"}
controllers: [c1, c2]
state_directory: /shared/state
login: [l1]
nodes: [{hosts: [c2, "n[1-2]"]}]
user_ssh: hostbased
"""


def test_hosts_with_jobs_are_believed_by_compute_nodes_alone() -> None:
    wanted = cluster(MANY_ROLES)
    known = prepared_input(wanted)
    believed = {host: files(known, host).get(user_ssh.EQUIV, "").split()[::2] for host in wanted.hosts}
    everyone = ["c1", "c2", "l1", "n1", "n2"]
    assert believed == {"c1": [], "c2": ["c1", "l1"], "l1": ["c1", "l1"], "n1": everyone, "n2": everyone}
    vouches = {
        host: [line.split()[1] for line in files(known, host)[user_ssh.CLIENT].splitlines() if line.startswith("Host ")]
        for host in wanted.hosts
    }
    all_targets, nodes = ["c2", "l1", "n1", "n2"], ["n1", "n2"]
    assert vouches == {"c1": all_targets, "c2": nodes, "l1": all_targets, "n1": nodes, "n2": nodes}


def test_a_controller_whose_hosts_all_compute_believes_none() -> None:
    known = prepared_input("cluster: x\ncontrollers: [c1]\nnodes: [{hosts: [c1, n1]}]\nuser_ssh: hostbased\n")
    assert not {user_ssh.EQUIV, user_ssh.SERVER} & files(known, "c1").keys()
    assert files(known, "n1")[user_ssh.EQUIV].split() == ["c1", "n1"]


@pytest.mark.parametrize("example", ["example-logins.yaml", "example-around-slurm.yaml"])
def test_sshd_refuses_who_is_powerful_before_it_accepts_in_the_shipped_examples(example: str) -> None:
    wanted = cluster((CONFIGS / example).read_text())
    text = user_ssh.accepts(prepared_input(wanted))
    blocks = re.findall(r"^Match (\w+) (\S+)\n    HostbasedAuthentication (\w+)$", text, re.MULTILINE)
    assert [(kind, word) for kind, _, word in blocks] == [("Group", "no"), ("User", "no"), ("User", "yes")]
    assert {"sudo", "wheel", "admin", "docker", "lxd", "disk", "root"} <= {*blocks[0][1].split(",")}
    assert blocks[1][1] == "admin,bob,munge,root,slurm"
    assert text.index(REFUSED_HERE) < text.index("Match User *")


def test_what_a_host_tells_of_its_addresses_is_in_nobodys_trust_files() -> None:
    text = plan(addresses=("10.0.0.1", "192.0.2.66", "fd00::66"))
    assert not any(lie in file for host in ("c1", "n1") for file in files(text, host).values()
                   for lie in ("192.0.2.66", "fd00::66"))  # fmt: skip
    assert files(text, "n2")[user_ssh.EQUIV].split().count("10.0.0.1") == 1


def test_each_host_has_the_keys_that_it_needs_and_none_of_a_host_without_users() -> None:
    known = prepared_input(THREE_HOSTS + "user_ssh: hostbased\ndatabase: d1\n")
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
