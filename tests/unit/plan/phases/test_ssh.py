"""SSH of the slurm user: whose key is accepted where, and from which addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.errors import ClusterFileError
from slurmfab.inventory.lock import HostLock
from slurmfab.plan.phases import ssh
from slurmfab.plan.phases.ssh import MOST_ADDRESSES
from slurmfab.plan.plan_input import PlanInput

BOTH = THREE_HOSTS + "slurm_ssh: both\n"
TWO_CONTROLLERS = (
    "cluster: x\ncontrollers: [c1, c2]\nlogin: [l1]\nnodes: [{hosts: n1}]\nstate_directory: /shared/state\n"
)


def planned(text: str = BOTH, **facts: object) -> PlanInput:
    named = cluster(text)
    return plan_input(named, facts_of(named, prepared, **facts))


def accepted(wanted: PlanInput, host: str) -> str:
    """The authorized_keys lines of a host."""
    return str(vars(ssh.trust(wanted, host)[0])["content"])


def with_addresses(wanted: PlanInput, *addresses: str) -> PlanInput:
    """The same, and n1 has these addresses of its own."""
    hosts = {**wanted.lock.hosts, "n1": replace(wanted.lock.hosts["n1"], addresses=addresses)}
    return replace(wanted, lock=replace(wanted.lock, hosts=hosts))


def test_a_key_is_accepted_from_its_hosts_address_in_the_cluster_file() -> None:
    assert accepted(planned(), "c1") == (
        'restrict,from="10.0.0.2" ssh-ed25519 key+of+n1 slurm@n1\n'
        'restrict,from="10.0.0.3" ssh-ed25519 key+of+n2 slurm@n2\n'
    )


def test_a_key_of_a_host_with_several_networks_is_accepted_from_all_its_addresses() -> None:
    wanted = with_addresses(planned(), "10.0.0.2", "192.168.7.2", "fd00::2")
    assert 'from="10.0.0.2,192.168.7.2,fd00::2" ssh-ed25519 key+of+n1' in accepted(wanted, "c1")


def test_a_key_of_a_host_with_a_name_for_an_address_is_accepted_from_its_own_addresses() -> None:
    named = (
        "cluster: x\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-2]'}]\naddresses: {n1: n1.example.org}\nslurm_ssh: both\n"
    )
    lines = accepted(with_addresses(planned(named), "10.0.0.2"), "c1").splitlines()
    assert lines[0] == 'restrict,from="10.0.0.2" ssh-ed25519 key+of+n1 slurm@n1'
    # An older slurmfab has stored the key, and the host has not answered since.
    assert lines[1] == "restrict ssh-ed25519 key+of+n2 slurm@n2"


def test_keys_of_hosts_behind_nat_are_accepted_from_the_addresses_that_the_cluster_file_adds() -> None:
    wanted = planned(THREE_HOSTS + "slurm_ssh: {logins: both, also_from: [198.51.100.0/24, 2001:db8::7]}\n")
    assert 'from="10.0.0.2,198.51.100.0/24,2001:db8::7" ssh-ed25519' in accepted(wanted, "c1")


def test_a_host_that_lies_about_its_addresses_adds_nothing_to_authorized_keys() -> None:
    lies = (
        "*", "0.0.0.0/0", "0.0.0.0", "::", "::1", "ff02::1", "fe80::1%eth0", "010.0.0.1", "10.1", "\0", "é",
        "127.0.0.1", "224.0.0.1", "239.1.1.1", "256.0.0.1", "10.0.0.9\n", "10.0.0.1٣", '10.0.0.9"', "10.0.0.9 ",
        'fe80::1%",command="/bin/sh', "10.0.0.9\nssh-ed25519 AAAA", "n2", "!10.0.0.2", "",
    )  # fmt: skip
    assert accepted(with_addresses(planned(), *lies), "c1") == accepted(planned(), "c1")


def test_a_host_that_claims_very_many_addresses_is_believed_some_of_them() -> None:
    wanted = with_addresses(planned(), *(f"10.1.{number // 256}.{number % 256}" for number in range(1, 5000)))
    assert accepted(wanted, "c1").splitlines()[0].count(",10.1.") == MOST_ADDRESSES


def test_without_the_key_slurm_logs_in_from_controllers_alone() -> None:
    wanted = planned(TWO_CONTROLLERS)
    assert {host: ssh.origins(wanted, host) for host in ("c1", "l1", "n1")} == {
        "c1": ("c2",), "l1": ("c1", "c2"), "n1": ("c1", "c2")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("logins", "expected"),
    [
        ("both", {"c1": "c2 l1 n1", "c2": "c1 l1 n1", "l1": "c1 c2", "n1": "c1 c2"}),
        ("from_controllers", {"c1": "c2", "c2": "c1", "l1": "c1 c2", "n1": "c1 c2"}),
        ("none", {"c1": "", "c2": "", "l1": "", "n1": ""}),
    ],
)
def test_logins_are_allowed_in_the_directions_that_the_cluster_file_wants(
    logins: str, expected: dict[str, str]
) -> None:
    wanted = planned(f"{TWO_CONTROLLERS}slurm_ssh: {logins}\n")
    for host, names in expected.items():
        assert ssh.origins(wanted, host) == tuple(names.split()), host
        keys = [line.split("slurm@")[1] for line in accepted(wanted, host).splitlines()]
        assert keys == names.split()


def test_without_logins_the_lines_are_removed_and_no_keys_are_made() -> None:
    wanted = planned(THREE_HOSTS + "slurm_ssh: none\n")
    block = ssh.trust(wanted, "n1")[0]
    assert (block.id, vars(block)["content"]) == ("block:/var/lib/slurm/home/.ssh/authorized_keys#slurm keys", "")
    assert ssh.keys(wanted, "n1") == ()
    assert [one.id for one in ssh.keys(planned(), "n1")] == ["ssh-key:slurm"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slurm_ssh: nodes", "slurm_ssh.logins: it must be 'from_controllers', 'both' or 'none'"),
        ("slurm_ssh: {also_from: n1}", '"n1" is neither an IP address nor a network such as 192.0.2.0/24'),
        ("slurm_ssh: {also_from: ['10.0.0.1/24']}", '"10.0.0.1/24" is neither an IP address nor a network'),
        ("slurm_ssh: {also_from: 0.0.0.0/0}", '"0.0.0.0/0" does not tell hosts from others'),
        ("slurm_ssh: {also_from: 'fe80::1%x\"'}", "tell hosts from others"),
        ("slurm_ssh: {from: 10.0.0.1}", "unknown key"),
    ],
)
def test_another_value_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{THREE_HOSTS}{text}\n")
    assert "cluster.yaml:5: slurm_ssh" in str(refused.value)
    assert said in str(refused.value)


def test_a_host_lock_of_an_older_version_has_no_addresses() -> None:
    assert HostLock().addresses == ()
