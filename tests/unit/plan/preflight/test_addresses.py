"""Addresses by which the hosts of a cluster could not connect to each other are refused, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from support import cluster, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.accounting import Database
from slurmfab.core.plan.phases.accounts import private_conf
from slurmfab.core.plan.phases.database import slurmdbd_conf
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.addresses import refuse_lost, refuse_unreachable

V4, V6, BOTH = ("10.0.0.2",), ("fd83::2",), ("10.0.0.2", "fd83::2")
"""Addresses that a host has of its own."""


def of(addresses: str, own: Mapping[str, tuple[str, ...]], rest: str = "", slurm: str = "24.11.5") -> PlanInput:
    """What a plan is made from.

    Args:
        addresses: of the cluster file.
        own: by host, its own addresses.
        rest: further lines of the cluster file.
        slurm: the installed version.
    """
    file = f"cluster: lab\naddresses: {{{addresses}}}\ncontrollers: [c1]\nnodes: [{{hosts: 'n[1-2]'}}]\n{rest}"
    return plan_input(cluster(file), {host: prepared(host, slurm, addresses=own[host]) for host in own})


@pytest.mark.parametrize(
    ("addresses", "own"),
    [
        ("c1: 10.0.0.1, n1: 10.0.0.2, n2: 10.0.0.3", {"c1": V4, "n1": V4, "n2": BOTH}),
        ("c1: fd83::1, n1: fd83::2, n2: fd83::3", {"c1": BOTH, "n1": V6, "n2": V6}),
        ("c1: 10.0.0.1, n1: fd83::2, n2: 10.0.0.3", {"c1": BOTH, "n1": BOTH, "n2": BOTH}),
        ("n1: 10.0.0.2", {"c1": BOTH, "n1": V4, "n2": BOTH}),
        ("c1: 10.0.0.1, n1: fd83::2", {"c1": (), "n1": (), "n2": ()}),
        ("c1: 192.0.2.1, n1: fd83::2, n2: fd83::3", {"c1": BOTH, "n1": BOTH, "n2": BOTH}),
    ],
    ids=["ipv4", "ipv6", "all-have-both", "names", "unknown", "behind-nat"],
)
def test_hosts_that_have_an_address_of_the_family_of_each_other_are_accepted(
    addresses: str, own: Mapping[str, tuple[str, ...]]
) -> None:
    refuse_unreachable(of(addresses, own))


@pytest.mark.parametrize(
    ("addresses", "own", "words"),
    [
        ("c1: c1.example.org, n1: 10.0.0.2, n2: fd83::2", {"c1": BOTH, "n1": V4, "n2": V6}, "n1: reached by IPv4"),
        ("c1: 10.0.0.1, n1: fd83::2, n2: fd83::3", {"c1": BOTH, "n1": V6, "n2": V6}, "n[1-2]: no IPv4 address"),
        ("", {"c1": BOTH, "n1": V4, "n2": V6}, "n1: reached by IPv4 (n1); n2: no IPv4 address of its own (fd83::2)"),
    ],
    ids=["one-each", "controller-by-ipv4", "names"],
)
def test_hosts_of_two_families_are_refused_because_job_steps_between_them_fail(
    addresses: str, own: Mapping[str, tuple[str, ...]], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        refuse_unreachable(of(addresses, own))
    assert words in str(refused.value)
    assert "Give all hosts addresses of one family" in str(refused.value)


@pytest.mark.parametrize("version", ["22.05.8", "24.11.5"])
@pytest.mark.parametrize("address", ["10.0.0.1", "fd83::1"])
def test_configless_nodes_with_a_controller_on_ipv6_need_a_version_that_fetches_over_it(
    version: str, address: str
) -> None:
    found = of(f"c1: {address}", {"c1": BOTH, "n1": BOTH, "n2": BOTH}, "configless: true\n", version)
    if (version, address) == ("22.05.8", "fd83::1"):
        with pytest.raises(
            InputError, match=r"slurmd of Slurm 22.05 cannot fetch its files over IPv6 \(it can from 24"
        ):
            refuse_unreachable(found)
    else:
        refuse_unreachable(found)


@pytest.mark.parametrize(
    ("addresses", "own", "wanted"),
    [
        ("n1: fd83::2", {"c1": BOTH, "n1": BOTH, "n2": BOTH}, "EnableIPv6"),
        ("n1: n1.example.org", {"c1": V6, "n1": V6, "n2": V6}, "EnableIPv6"),
        ("n1: n1.example.org", {"c1": BOTH, "n1": BOTH, "n2": BOTH}, ""),
        ("n1: 10.0.0.2", {"c1": V6, "n1": BOTH, "n2": BOTH}, "EnableIPv6"),
    ],
    ids=["address", "names-of-hosts-without-ipv4", "names-of-hosts-with-both", "one-name-among-them"],
)
def test_slurm_uses_ipv6_if_a_host_is_reached_by_it(
    addresses: str, own: Mapping[str, tuple[str, ...]], wanted: str
) -> None:
    assert of(addresses, own).conf_wanted.settings.get("communicationparameters", "") == wanted


def test_options_of_the_user_stay_beside_the_one_for_ipv6() -> None:
    options = "slurm_conf: {CommunicationParameters: 'NoCtldInAddrAny,enableipv6'}\n"
    found = of("n1: fd83::2", {"c1": BOTH, "n1": BOTH, "n2": BOTH}, options)
    assert found.conf_wanted.settings["communicationparameters"] == "EnableIPv6,NoCtldInAddrAny"


@pytest.mark.parametrize(
    ("own", "wanted"),
    [(V6, ["CommunicationParameters=EnableIPv6"]), (BOTH, []), (V4, [])],
    ids=["ipv6", "both", "ipv4"],
)
def test_sacctmgr_finds_slurmdbd_on_a_host_without_ipv4_too(own: tuple[str, ...], wanted: list[str]) -> None:
    """Before there is a slurm.conf, it is asked at `localhost`, which Slurm resolves with the host's families alone."""
    made = of("", {"c1": own, "n1": own, "n2": own}, "database: c1\n")
    assert [line for line in private_conf(made).splitlines() if "IPv6" in line] == wanted


@pytest.mark.parametrize("address", ["10.0.0.1", "fd83::1"])
def test_slurmdbd_uses_ipv6_where_slurm_does(address: str) -> None:
    made = of(f"c1: {address}", {"c1": BOTH, "n1": BOTH, "n2": BOTH}, "database: c1\n")
    assert made.conf_wanted.settings["accountingstoragehost"] == address
    text = slurmdbd_conf(made, Database(host="c1"), "localhost", 0)
    assert ("CommunicationParameters=EnableIPv6" in text) is (":" in address)


@pytest.mark.parametrize(
    ("before", "is_difference"),
    [("10.0.0.2", True), ("fd83:0::2", False), ("FD83::2", False), ("fd83::2", False), ("fd83::9", True)],
)
def test_a_controllers_ipv6_address_is_the_same_in_any_spelling_and_another_than_its_ipv4_address(
    before: str, is_difference: bool
) -> None:
    own = {"c1": BOTH, "n1": BOTH, "n2": BOTH}
    found = of("c1: fd83::2", own)
    conf = dict(found.files)["slurm.conf"].replace("(fd83::2)", f"({before})")
    facts = dict(found.facts) | {"c1": replace(found.facts["c1"], slurm_conf=conf)}
    names = [one.name for one in replace(found, facts=facts).differences]
    assert ("SlurmctldHost" in names) is is_difference


def moved(address: str) -> PlanInput:
    """What a plan is made from whose cluster file gives n1 an address, where slurm.conf has 10.0.0.2."""
    before = of("c1: 10.0.0.1, n1: 10.0.0.2, n2: 10.0.0.3", {"c1": V4, "n1": V4, "n2": V4})
    facts = dict(before.facts)
    files = {name.replace(".", "_"): before.rendered[name] for name in ("slurm.conf", "cgroup.conf")}
    facts["c1"] = replace(facts["c1"], **files)  # type: ignore[arg-type]
    del facts["n1"]
    after = of(f"c1: 10.0.0.1, n1: {address}, n2: 10.0.0.3", {"c1": V4, "n1": (*V4, "10.0.9.2"), "n2": V4})
    return replace(after, facts=facts)


def test_a_new_address_at_which_a_node_is_silent_is_refused_before_the_others_lose_the_node() -> None:
    with pytest.raises(InputError) as refusal:
        refuse_lost(moved("10.0.9.2"), ["n1"])
    assert str(refusal.value).startswith(
        "n1: it does not answer at 10.0.9.2, which the cluster file now gives as its address. The other hosts reach it "
        "at 10.0.0.2"
    )
    assert str(refusal.value).endswith("\nNothing was changed on any host.")


@pytest.mark.parametrize(("address", "silent"), [("10.0.9.2", ["n2"]), ("10.0.0.2", ["n1"])], ids=["answers", "same"])
def test_a_silent_node_with_its_address_and_one_that_answers_at_its_new_one_are_no_mistakes(
    address: str, silent: list[str]
) -> None:
    refuse_lost(moved(address), silent)


def test_a_second_address_of_a_node_is_a_difference_of_its_address() -> None:
    assert [str(one) for one in moved("10.0.9.2").differences] == ["node n1: NodeAddr: 10.0.0.2 -> 10.0.9.2"]
    assert moved("10.0.0.2").differences == ()
