"""What people are told of the addresses at which hosts trust each other, and where one host's word decides nothing."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, plan_input, prepared, prepared_input

from slurmfab.core.engine.notices import doubtful_addresses, newly_trusted
from slurmfab.core.plan.own_address import own_address, trusted_address
from slurmfab.core.plan.plan_input import PlanInput

BY_NAME = "cluster: x\naddresses: {n1: n1.example.org}\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
NETWORK = THREE_HOSTS + "ssh: {networks: 10.1.0.0/16}\n"


def of_n1(text: str, *addresses: str, reached: str = "") -> PlanInput:
    """A cluster in which n1 tells of these addresses, and the others of what the cluster file says."""
    wanted = cluster(text)
    facts = {host: prepared(host, addresses=(wanted.addresses.get(host, "10.0.0.1"),)) for host in wanted.hosts}
    return plan_input(wanted, {**facts, "n1": prepared("n1", addresses=addresses, reached=reached)})


@pytest.mark.parametrize(
    ("text", "addresses", "reached", "said"),
    [
        (THREE_HOSTS, ["10.0.0.2", "10.9.0.2"], "", ""),
        (THREE_HOSTS, ["10.0.0.2", "10.0.0.1"], "", "it has the address 10.0.0.1 of c1, where nobody trusts it"),
        (THREE_HOSTS, ["10.0.0.2", "::ffff:10.0.0.1"], "", "it has the address 10.0.0.1 of c1, where nobody trusts it"),
        (THREE_HOSTS, ["10.9.0.2"], "", "logins from it are accepted from 10.0.0.2 alone, which it does not have"),
        (THREE_HOSTS + "slurm_ssh: {also_from: 203.0.113.7}\n", ["10.9.0.2"], "", ""),
        (THREE_HOSTS + "slurm_ssh: none\n", ["10.9.0.2", "10.0.0.1"], "", ""),
        (THREE_HOSTS + "slurm_ssh: none\nuser_ssh: hostbased\n", ["10.9.0.2"], "", "logins from it are accepted from"),
        (NETWORK, ["10.1.0.2"], "", ""),
        (BY_NAME, ["10.9.0.2"], "", "no login from it is accepted on other hosts: only itself knows its address "
                                    "(it tells of 10.9.0.2); write the address under addresses, or its network"),
        (BY_NAME, ["10.9.0.2"], "10.9.0.2", ""),
        (BY_NAME, ["10.9.0.2"], "127.0.0.1", "no login from it is accepted on other hosts"),
    ],
)  # fmt: skip
def test_a_host_whose_logins_would_be_refused_is_told_with_what_to_name(
    text: str, addresses: list[str], reached: str, said: str
) -> None:
    wanted = of_n1(text, *addresses, reached=reached)
    texts = [text for host, text in doubtful_addresses(wanted, wanted.cluster.hosts) if host == "n1"]
    assert len(texts) == bool(said)
    assert said in "".join(texts)
    assert not any(host == "n1" for host, _ in doubtful_addresses(wanted, ["c1"]))


def test_an_address_in_a_named_network_that_two_hosts_tell_of_is_told_for_both() -> None:
    wanted = prepared_input(NETWORK, addresses=("10.1.0.9",))
    told = [
        host for host, text in doubtful_addresses(wanted, ["n1", "n2"]) if "do not trust its address 10.1.0.9" in text
    ]
    assert told == ["n1", "n2"]


def test_an_address_that_is_trusted_from_now_on_is_told_once() -> None:
    wanted = of_n1(NETWORK, "10.0.0.2", "10.1.0.2")
    said = "others trust its address 10.1.0.2, which it tells of: it lies in a network of ssh.networks"
    assert list(newly_trusted(wanted, {})) == [("n1", said)]
    assert list(newly_trusted(wanted, wanted.lock.hosts)) == []


def test_a_name_that_a_host_has_of_itself_is_told_once_when_all_hosts_get_it() -> None:
    wanted = prepared_input(NETWORK, hostname="ldap")
    found = [text for host, text in newly_trusted(wanted, {}) if host == "n1"]
    assert found == ["it calls itself ldap, so on all hosts that name leads to it from now on"]
    assert list(newly_trusted(wanted, wanted.lock.hosts)) == []


def test_a_daemon_listens_at_a_hosts_own_word_but_others_ask_it_by_what_they_trust() -> None:
    unknown = of_n1(BY_NAME, "10.0.0.1", "10.9.0.2")
    assert own_address(unknown, "n1") == "10.0.0.1"
    assert trusted_address(unknown, "n1") == "n1.example.org"
    reached = of_n1(BY_NAME, "10.0.0.1", "10.9.0.2", reached="10.9.0.2")
    assert own_address(reached, "n1") == trusted_address(reached, "n1") == "10.9.0.2"


def test_a_host_that_tells_of_anothers_address_is_not_taken_for_that_one() -> None:
    wanted = of_n1(THREE_HOSTS, "10.0.0.2", "10.0.0.1", "10.9.0.2")
    assert wanted.is_same_host("10.9.0.2", "n1")
    assert not wanted.is_same_host("10.0.0.1", "n1")
