"""Hosts that cannot be deployed to are found out from their facts, each with its reason."""

from __future__ import annotations

from typing import Any

import pytest
from support import cluster, facts_of, host_facts, prepared

from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.slurm.platform import SYSTEMS
from slurmfab.core.plan.preflight.hosts import CLOCK_SECONDS, back, renamed, unfit


def reason(**differing: Any) -> str:
    """Why n1 is unfit when it differs like this from healthy hosts."""
    reasons = unfit(cluster(), facts_of(cluster()) | {"n1": host_facts("n1", **differing)})
    assert set(reasons) <= {"n1"}
    return reasons.get("n1", "")


def test_healthy_hosts_are_fit() -> None:
    assert unfit(cluster(), facts_of(cluster())) == {}
    assert unfit(cluster(), facts_of(cluster(), prepared)) == {}


@pytest.mark.parametrize(
    ("differing", "words"),
    [
        (
            {"os_id": "fedora"},
            f"it runs fedora; slurmfab deploys to {SYSTEMS} (docs/supported.md).",
        ),
        ({"os_id": ""}, "it runs an unknown system"),
        ({"codename": "jammy"}, "too old"),
        ({"codename": "warty"}, "does not know which Slurm the release “warty” has"),
        ({"codename": "bookworm"}, "its distribution (bookworm) installs Slurm 22.05, and slurmctld on c1 is 24.11"),
        (
            {"packages": {"slurmd": "22.05.8-4"}},
            "its Slurm is 22.05.8, and slurmctld on c1 is 24.11, which talks to 23.02",
        ),
        ({"hardware": None}, "could not be read"),
        ({"clock_offset": CLOCK_SECONDS + 60.0}, "its clock is 300 s ahead of this machine's"),
        ({"clock_offset": -CLOCK_SECONDS - 60.0}, "its clock is 300 s behind this machine's"),
    ],
)
def test_an_unfit_host_is_named_with_its_reason(differing: dict[str, Any], words: str) -> None:
    assert words in reason(**differing)


@pytest.mark.parametrize(
    "differing",
    [
        {"os_id": "linuxmint", "os_like": "ubuntu debian"},
        {"clock_offset": float(CLOCK_SECONDS)},
        {"clock_offset": -float(CLOCK_SECONDS)},
        {"packages": {"slurmd": "1:24.11.5-4"}},
        {"packages": {"slurmd": "23.11.4-1.2ubuntu5"}},
    ],
)
def test_what_does_no_harm_is_let_be(differing: dict[str, Any]) -> None:
    assert reason(**differing) == ""


@pytest.mark.parametrize(
    ("given", "reached", "own", "words"),
    [
        ("", "10.0.0.2", ("fd83::2",), "reached by IPv4 (10.0.0.2), and says that it has no IPv4 address of its own"),
        ("", "fd83::2", ("10.0.0.2", "10.0.1.2"), "no IPv6 address of its own (10.0.0.2)"),
        ("fd83::2", "10.0.0.2", ("10.0.0.2",), "reached by IPv6 (fd83::2)"),
        ("", "10.0.0.2", ("fd83::2", "192.0.2.2"), ""),
        ("", "", ("fd83::2",), ""),
        ("", "10.0.0.2", (), ""),
        ("", "fe80::1%eth0", ("10.0.0.2",), ""),
        ("n1.example.org", "10.0.0.2", ("10.0.0.2",), ""),
    ],
    ids=["by-ipv4", "by-ipv6", "by-the-file", "behind-nat", "by-a-gateway", "untold", "on-one-link", "by-name"],
)
def test_a_host_without_an_address_of_the_family_it_is_reached_by_is_left_out_alone(
    given: str, reached: str, own: tuple[str, ...], words: str
) -> None:
    addresses = f"addresses: {{n1: '{given}'}}\n" if given else ""
    file = cluster(f"cluster: lab\n{addresses}controllers: [c1]\nnodes: [{{hosts: n1}}]\n")
    found = unfit(file, facts_of(file) | {"n1": host_facts("n1", reached=reached, addresses=own)})
    assert [*found] == (["n1"] if words else [])
    assert words in found.get("n1", "")


def test_a_host_that_is_no_compute_node_needs_no_hardware() -> None:
    assert unfit(cluster(), {"c1": host_facts("c1", hardware=None)}) == {}


def test_while_the_controller_does_not_answer_versions_are_not_compared() -> None:
    assert unfit(cluster(), {"n1": host_facts("n1", codename="bookworm")}) == {}


def test_a_host_with_another_hostname_than_the_locks_is_left_out_with_the_command_that_helps() -> None:
    known = Lock(hosts={"c1": HostLock(hostname="c1"), "n1": HostLock(hostname="n1"), "n2": HostLock()})
    facts = facts_of(cluster()) | {"n1": host_facts("n1", hostname="other"), "c1": host_facts("c1", hostname="C1")}
    reasons = renamed(cluster(), known, facts)
    assert list(reasons) == ["n1"]
    assert "its hostname is other, but slurm.conf knows it as n1" in reasons["n1"]
    assert "hostnamectl set-hostname n1" in reasons["n1"]


def test_the_hostname_of_a_login_host_is_in_no_file_of_slurms() -> None:
    named = cluster("cluster: x\ncontrollers: [c1]\nlogin: [l1]\nnodes: [{hosts: n1}]\n")
    known = Lock(hosts={"l1": HostLock(hostname="l1")})
    assert renamed(named, known, {"l1": host_facts("l1", hostname="other")}) == {}


def test_a_host_with_a_newer_slurm_than_the_controllers_gets_the_controllers_packages_back() -> None:
    ours = {"slurmd": "24.11.5-4", "slurm-client": "24.11.5-4", "munge": "1"}
    theirs = {"slurmctld": "24.11.5-2", "slurm-client": "24.11.5-2", "munge": "2"}
    node, controller = host_facts("n1", packages=ours), host_facts("c1", packages=theirs)
    told = back(node, controller)
    assert "slurm-client=24.11.5-2 slurmd=24.11.5-2 there, with the libraries" in told
    assert "munge=" not in told
    assert "deploy --hosts n1" in told
