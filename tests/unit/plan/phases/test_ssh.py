"""SSH of the slurm user: whose key is accepted where, and from which addresses."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.cluster.inventory.trusted_addresses import MOST_ADDRESSES
from slurmfab.core.plan.phases import ssh
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput

BOTH = THREE_HOSTS + "slurm_ssh: both\n"
TWO_CONTROLLERS = (
    "cluster: x\ncontrollers: [c1, c2]\nlogin: [l1]\nnodes: [{hosts: n1}]\nstate_directory: /shared/state\n"
)


def planned(text: str = BOTH, **facts: object) -> PlanInput:
    return prepared_input(text, **facts)


def accepted(wanted: PlanInput, host: str) -> str:
    """The authorized_keys lines of a host."""
    return str(vars(ssh.trust(wanted, host)[0])["content"])


def told(text: str, **addresses: str | tuple[str, ...]) -> PlanInput:
    """A cluster whose hosts tell of further addresses, and were reached at 172.16.0.1, 172.16.0.2 and so on."""
    named = cluster(text)
    facts = {}
    for number, host in enumerate(named.hosts, 1):
        own = (f"10.0.0.{number}", *words(addresses.get(host, ())))
        facts[host] = prepared(host, addresses=own, reached=f"172.16.0.{number}", way=("10.1.0.250",))
    return plan_input(named, facts)


def words(value: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value.split()) if isinstance(value, str) else value


def origins_of(wanted: PlanInput, host: str = "n1") -> str:
    """The addresses from which the controller accepts the key of a host; empty if it does not at all."""
    found = re.search(f'from="(.*)" .*slurm@{host}$', accepted(wanted, "c1"), re.MULTILINE)
    return found[1] if found else ""


NETWORK = BOTH + "ssh: {networks: 10.1.0.0/16}\n"
BY_NAME = (
    "cluster: x\ncontrollers: [c1]\nnodes: [{hosts: 'n[1-2]'}]\naddresses: {n1: n1.example.org}\nslurm_ssh: both\n"
)


def test_a_key_is_accepted_from_its_hosts_address_in_the_cluster_file() -> None:
    assert accepted(planned(), "c1") == (
        'restrict,from="10.0.0.2" ssh-ed25519 key+of+n1 slurm@n1\n'
        'restrict,from="10.0.0.3" ssh-ed25519 key+of+n2 slurm@n2\n'
    )


def test_what_a_host_tells_of_its_addresses_counts_for_nothing_without_a_network() -> None:
    assert origins_of(told(BOTH, n1="10.0.0.1 10.1.0.2 198.51.100.7 fd00::2")) == "10.0.0.2"


@pytest.mark.parametrize(
    ("text", "addresses", "expected"),
    [
        (NETWORK, {"n1": "10.1.0.2 10.2.0.2"}, "10.0.0.2,10.1.0.2"),
        (NETWORK, {"n1": "10.1.0.250"}, "10.0.0.2"),
        (NETWORK, {"n1": "10.1.0.9", "n2": "10.1.0.9"}, "10.0.0.2"),
        (BOTH + "ssh: {networks: 10.0.0.0/8}\n", {"n1": "10.0.0.1 10.0.0.3 10.0.0.77"}, "10.0.0.2,10.0.0.77"),
        (BOTH + "ssh: {networks: 'fd00::/8'}\n", {"n1": "FD00:0::0:2 fd00::2 ::ffff:10.0.0.1"},
         "10.0.0.2,fd00::2"),
        (BOTH + "ssh: {networks: 10.1.0.0/16, gateway: 'jump@10.1.0.8:2222'}\n", {"n1": "10.1.0.8"}, "10.0.0.2"),
        (BOTH + "ssh: {networks: 10.1.0.0/16, endpoints: {n2: '10.1.0.3:22'}}\n", {"n1": "10.1.0.3"},
         "10.0.0.2"),
        (BY_NAME, {"n1": "10.1.0.2"}, "172.16.0.2"),
        (BY_NAME + "ssh: {networks: 172.16.0.0/12}\n", {"n1": "172.16.0.1 172.16.9.9"}, "172.16.0.2,172.16.9.9"),
    ],
    ids=["in the network", "the deployer's", "two claim it", "of other members", "spellings", "the jump host's",
         "another's endpoint", "reached by name", "where others were reached"],
)  # fmt: skip
def test_further_addresses_of_a_host_are_trusted_in_named_networks_if_they_are_nobody_elses(
    text: str, addresses: dict[str, str], expected: str
) -> None:
    assert origins_of(told(text, **addresses)) == expected


def test_an_address_that_a_host_has_had_first_stays_its_own_when_another_one_claims_it() -> None:
    before = told(NETWORK, n1="10.1.0.2")
    facts = {**before.facts, "n2": replace(before.facts["n2"], addresses=("10.0.0.3", "10.1.0.2"))}
    lock = pin(before.cluster, before.lock, facts)
    assert (lock.hosts["n1"].trusted, lock.hosts["n2"].trusted) == (("10.1.0.2",), ())
    del facts["n1"]
    silent = pin(before.cluster, lock, facts)
    assert (silent.hosts["n1"].trusted, silent.hosts["n2"].trusted) == (("10.1.0.2",), ())
    assert pin(cluster(THREE_HOSTS), lock, facts).hosts["n1"].trusted == ()


def test_an_address_at_which_several_hosts_are_reached_is_a_relays_and_none_of_theirs() -> None:
    facts = facts_of(cluster(BY_NAME), prepared, reached="203.0.113.9", addresses=("10.1.0.2",))
    wanted = plan_input(cluster(BY_NAME), facts)
    assert accepted(wanted, "c1").splitlines() == [
        "# no address of n1 is known that it can be trusted at", "# no address of n2 is known that it can be trusted at"
    ]  # fmt: skip


def test_an_address_is_kept_for_a_host_that_is_silent() -> None:
    before = told(BY_NAME)
    assert pin(before.cluster, before.lock, {}).hosts["n1"].reached == "172.16.0.2"


def test_keys_of_hosts_behind_nat_are_accepted_from_the_addresses_that_the_cluster_file_adds() -> None:
    wanted = planned(THREE_HOSTS + "slurm_ssh: {logins: both, also_from: [198.51.100.0/24, 2001:db8::7]}\n")
    assert 'from="10.0.0.2,198.51.100.0/24,2001:db8::7" ssh-ed25519' in accepted(wanted, "c1")


def test_a_host_that_lies_about_its_addresses_adds_nothing_to_authorized_keys() -> None:
    lies = (
        "*", "0.0.0.0/0", "0.0.0.0", "::", "::1", "ff02::1", "fe80::1%eth0", "010.0.0.1", "10.1", "\0", "é",
        "127.0.0.1", "224.0.0.1", "239.1.1.1", "256.0.0.1", "10.0.0.9\n", "10.0.0.1٣", '10.0.0.9"', "10.0.0.9 ",
        'fe80::1%",command="/bin/sh', "10.0.0.9\nssh-ed25519 AAAA", "n2", "!10.0.0.2", "",
    )  # fmt: skip
    everywhere = BOTH + "ssh: {networks: [0.0.0.0/1, 128.0.0.0/1, '::/1', '8000::/1']}\n"
    assert origins_of(told(everywhere, n1=lies)) == "10.0.0.2"


def test_a_host_that_claims_very_many_addresses_is_believed_some_of_them() -> None:
    many = tuple(f"10.1.{number // 256}.{number % 256}" for number in range(1, 5000))
    assert origins_of(told(NETWORK, n1=many)).count(",10.1.") == MOST_ADDRESSES


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
    wanted = told(f"{TWO_CONTROLLERS}slurm_ssh: {logins}\n")
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
    assert (HostLock().addresses, HostLock().reached, HostLock().trusted) == ((), "", ())
