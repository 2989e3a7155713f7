"""Clusters whose hosts have Slurm of several series: what is legal, what is rendered for all, and what is told."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support import cluster, host_facts, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.schema_file import version_of
from slurmfab.core.plan.phases import configless, daemons
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.configuration import refuse_unknown_keys
from slurmfab.core.plan.preflight.hosts import unfit, unfit_newcomers

HOSTS = """\
cluster: lab
addresses: {c1: 10.0.0.1, d1: 10.0.0.8, l1: 10.0.0.7, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
login: [l1]
database: {host: d1}
nodes: [{hosts: "n[1-2]"}]
"""


def with_slurm(host: str, version: str, package: str = "slurmd", **differing: Any) -> HostFacts:
    """A deployed Debian 13 host with some version of Slurm's packages."""
    packages = dict.fromkeys(("slurm-client", "slurm-wlm-basic-plugins", package), f"{version}-1")
    return prepared(host, packages={"munge": "0.5.16-1", **packages}, **differing)


def facts(text: str = HOSTS, **versions: str) -> dict[str, HostFacts]:
    """Deployed hosts with these versions of Slurm; the others have 24.11.5."""
    package = {"c1": "slurmctld", "c2": "slurmctld", "d1": "slurmdbd", "l1": "slurm-client"}
    return {
        host: with_slurm(host, versions.get(host, "24.11.5"), package.get(host, "slurmd"))
        for host in cluster(text).hosts
    }


def made(extra: str = "", **versions: str) -> PlanInput:
    return plan_input(cluster(HOSTS + extra), facts(HOSTS, **versions))


# In the order of Slurm's upgrade guide: slurmdbd, slurmctld, slurmd, clients.
LEGAL = (
    {},
    {"d1": "26.05.5"},
    {"d1": "26.05.5", "c1": "26.05.5"},
    {"d1": "26.05.5", "c1": "26.05.5", "n1": "26.05.5"},
    {"d1": "26.05.5", "c1": "26.05.5", "n1": "26.05.5", "n2": "25.05.1"},
    {"d1": "26.05.5", "c1": "26.05.5", "n1": "26.05.5", "n2": "26.05.5"},
    dict.fromkeys(("c1", "d1", "l1", "n1", "n2"), "26.05.5"),
    {"c1": "24.11.7"},
    {"n1": "24.11.9"},
)


@pytest.mark.parametrize("versions", LEGAL)
def test_each_state_of_an_upgrade_in_slurms_order_is_legal(versions: dict[str, str]) -> None:
    assert unfit(cluster(HOSTS), facts(HOSTS, **versions)) == {}


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        (
            {"n1": "26.05.5"},
            {"n1": r"its Slurm is 26\.05\.5, and slurmctld on c1 is 24\.11\.5, which refuses .* neither run nor end\. "
             r".* apt-get install --allow-downgrades slurm-client=24\.11\.5-1 slurm-wlm-basic-plugins=24\.11\.5-1 "
             r"slurmd=24\.11\.5-1 there, .* deploy --hosts n1\. Or, .* upgrade --to 26\.05"},
        ),
        ({"l1": "25.05.1"}, {"l1": r"its Slurm is 25\.05\.1, .* slurm-client=24\.11\.5-1 slurm-wlm-basic-plugins="}),
        (
            {"c1": "26.05.5", "n1": "26.05.5", "l1": "26.05.5"},
            {"d1": r"slurmdbd on d1 is 24\.11\.5, and slurmctld on c1 is 26\.05\.5: .* upgrade --to 26\.05"},
        ),
        (
            {"d1": "26.05.5", "c1": "26.05.5", "n1": "24.05.2"},
            {"n1": r"its Slurm is 24\.05\.2, and slurmctld on c1 is 26\.05\.5, which talks to 24\.11, 25\.05, 25\.11 "
             r"and its own series alone\. Repair: .* upgrade --to 26\.05 --hosts n1"},
        ),
        (
            dict.fromkeys(("c1", "l1", "n1", "n2"), "23.02.7") | {"d1": "25.05.1"},
            {"d1": r"slurmdbd on d1 is 25\.05\.1, which talks to 23\.11, 24\.05, 24\.11 and its own series alone"},
        ),
    ],
)  # fmt: skip
def test_what_is_out_of_order_or_out_of_the_window_is_named_with_its_repair(
    versions: dict[str, str], words: dict[str, str]
) -> None:
    found = unfit(cluster(HOSTS), facts(HOSTS, **versions))
    assert found.keys() == words.keys()
    for host, pattern in words.items():
        assert re.search(pattern, found[host]), found[host]


def test_controllers_of_two_series_are_named() -> None:
    two = HOSTS.replace("[c1]", "[c1, c2]").replace("{c1:", "{c2: 10.0.0.9, c1:") + "state_directory: /shared/state\n"
    found = unfit(cluster(two), facts(two, c1="26.05.5", d1="26.05.5"))
    assert list(found) == ["c2"]
    assert "could not read the state that the primary writes" in found["c2"]


def test_a_new_host_whose_distribution_has_another_slurm_is_told_the_way() -> None:
    found = unfit_newcomers(cluster(HOSTS), {"n3": host_facts("n3", codename="sid")}, "24.11.5")
    assert "its distribution (sid) installs Slurm 26.05" in found["n3"]
    assert 'slurm: {version: "24.11.*", source: …}' in found["n3"]
    # Older, but within the window; and the version that the cluster file wants.
    assert unfit_newcomers(cluster(HOSTS), {"n3": host_facts("n3")}, "26.05.5") == {}
    chosen = cluster(HOSTS + 'slurm: {version: "24.11.*"}\n')
    assert unfit_newcomers(chosen, {"n3": host_facts("n3", codename="sid")}, "24.11.5") == {}
    # The file wants a newer one already: the cluster has to be upgraded before.
    early = unfit_newcomers(cluster(HOSTS + 'slurm: {version: "26.05.*"}\n'), {"n3": host_facts("n3")}, "24.11.5")
    assert early["n3"].startswith("the cluster file (slurm: {version: …}) gives it Slurm 26.05, and slurmctld on c1 is")
    assert early["n3"].endswith("Repair: first, fab upgrade --to 26.05.")


@pytest.mark.parametrize(
    ("versions", "oldest"),
    [
        ({}, "24.11"),
        ({"d1": "26.05.5"}, "24.11"),
        ({"d1": "26.05.5", "c1": "26.05.5"}, "24.11"),
        (dict.fromkeys(("c1", "d1", "l1", "n1"), "26.05.5") | {"n2": "25.11.1"}, "25.11"),
        (dict.fromkeys(("c1", "d1", "l1", "n1", "n2"), "26.05.5"), "26.05"),
        # A host that slurmctld does not talk to does not count.
        (dict.fromkeys(("c1", "d1", "l1", "n1"), "26.05.5") | {"n2": "23.11.4"}, "26.05"),
    ],
)
def test_files_are_made_for_the_oldest_slurm_that_reads_them(versions: dict[str, str], oldest: str) -> None:
    assert str(made(**versions).oldest_slurm) == oldest


def test_keys_that_came_later_wait_until_all_hosts_know_them() -> None:
    extra = "private_tmp: true\nmonitoring: {openmetrics: true}\n"
    newer = dict.fromkeys(("c1", "d1", "l1", "n1"), "26.05.5")
    mixed, whole = (made(extra, **versions).rendered["slurm.conf"] for versions in (newer, newer | {"n2": "26.05.5"}))
    assert "JobContainerType=job_container/tmpfs" in mixed
    assert not {"NamespaceType", "MetricsType"} & {line.partition("=")[0] for line in mixed.splitlines()}
    assert "NamespaceType=namespace/tmpfs" in whole
    assert "MetricsType=metrics/openmetrics" in whole


def test_pid_files_are_those_of_each_daemons_own_unit() -> None:
    old = {"n1": "22.05.8", "n2": "22.05.8", "l1": "22.05.8"}
    conf = made(**old, c1="23.11.4", d1="23.11.4").rendered["slurm.conf"]
    assert "SlurmctldPidFile=/run/slurmctld/slurmctld.pid" in conf
    assert "SlurmdPidFile=/run/slurmd.pid" in conf


def test_nodes_that_an_older_slurmd_cannot_take_by_reconfigure_come_by_restarts() -> None:
    assert not daemons.is_reconfigured(made(c1="24.11.5", d1="24.11.5", n1="23.11.4"))
    older = made(c1="22.05.8", d1="22.05.8", n1="22.05.8")
    assert configless.started(older, "n1") != configless.started(made(n1="24.11.5"), "n1")


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("MetricsType: metrics/openmetrics", "Slurm 24.11 does not know this key (added in 25.11)"),
        ("AccountingStorageLoc: x", "Slurm 26.05 no longer knows this key (removed in 25.11)"),
    ],
)
def test_a_key_that_one_of_the_versions_does_not_know_is_refused(key: str, complaint: str) -> None:
    with pytest.raises(InputError) as refused:
        refuse_unknown_keys(made(f"slurm_conf: {{{key}}}\n", c1="26.05.5", d1="26.05.5", l1="26.05.5", n1="26.05.5"))
    assert complaint in str(refused.value)
    assert "or bring n2 (Slurm 24.11) to a newer Slurm first: fab upgrade" in str(refused.value)


def test_the_lock_remembers_the_versions_of_hosts_that_do_not_answer() -> None:
    known, before = cluster(HOSTS), facts()
    lock = pin(known, Lock(), before)
    assert {one.slurm for one in lock.hosts.values()} == {""}
    now = facts(c1="26.05.5", d1="26.05.5")
    mixed = pin(known, lock, {host: now[host] for host in ("c1", "d1")})
    assert {host: one.slurm for host, one in mixed.hosts.items()} == {
        "c1": "", "d1": "", "l1": "24.11.5", "n1": "24.11.5", "n2": "24.11.5"
    }  # fmt: skip
    assert mixed.slurm_versions == ("26.05.5", "24.11.5")
    assert str(version_of(mixed)) == "24.11"
    # A run about a few hosts renders the same files as one about all.
    assert str(PlanInput(known, mixed, {"c1": now["c1"]}).oldest_slurm) == "24.11"
    whole = {host: with_slurm(host, "26.05.5") for host in known.hosts}
    assert {one.slurm for one in pin(known, mixed, whole).hosts.values()} == {""}
