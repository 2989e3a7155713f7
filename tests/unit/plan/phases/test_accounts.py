"""Accounts, users and limits of a cluster file, as slurmdbd's host gets them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.core.plan.phases import accounts
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.database.registration import ClusterId

TREE = """\
database: c1
qos: [{name: normal}, {name: long, MaxWall: "7-0"}]
accounts:
  - {name: lasers, parent: physics, coordinators: [ann]}
  - {name: chemistry}
  - {name: physics, Fairshare: 30, QOS: long, description: d, organization: o}
users:
  - {name: ann, uid: 2001, accounts: [lasers, physics], MaxJobs: 7, AdminLevel: Operator}
  - {name: bob, uid: 2002}
"""


def wanted(more: str = TREE) -> PlanInput:
    return prepared_input(THREE_HOSTS + more)


def test_accounts_come_below_their_parents_and_in_the_order_of_the_file() -> None:
    tree = accounts.tree(wanted())
    assert [(name, parent) for name, parent, *_ in tree["accounts"]] == [
        ("chemistry", "root"), ("physics", "root"), ("lasers", "physics"),
    ]  # fmt: skip
    assert [coordinators for name, *_, coordinators, _ in tree["accounts"] if name == "lasers"] == [("ann",)]
    assert tree["complete"] == ("qos", "accounts")


@pytest.mark.parametrize(
    ("more", "name", "qos"),
    [
        ("", "physics", "long"),
        ("", "chemistry", None),
        ("  - {name: root}\n", "root", "normal"),
        ("  - {name: root, QOS: long}\n", "root", "long"),
    ],
)
def test_root_alone_gets_a_list_of_qos_that_all_inherit(more: str, name: str, qos: str | None) -> None:
    tree = accounts.tree(wanted(TREE.replace("users:\n", f"{more}users:\n")))
    settings = next(dict(settings) for one, *_, settings in tree["accounts"] if one == name)
    lists = [value for key, value in settings.items() if key.lower() in ("qos", "qoslevel")]
    assert lists == ([qos] if qos else [])
    assert [parent for one, parent, *_ in tree["accounts"] if one == "root"] == ([""] if name == "root" else [])


def test_users_with_accounts_and_the_slurm_user_have_associations() -> None:
    people = {name: (level, places) for name, level, places in accounts.tree(wanted())["users"]}
    assert [*people] == ["slurm", "ann"]
    assert people["slurm"] == ("", (("root", ()),))
    assert people["ann"][0] != ""
    assert [account for account, _ in people["ann"][1]] == ["lasers", "physics"]
    assert all(dict(settings)["MaxJobs"] == "7" for _, settings in people["ann"][1])
    assert accounts.tree(wanted("database: c1\n"))["users"] == ()


def test_what_waits_for_slurmctld_is_there_on_slurmdbds_host_alone() -> None:
    there = wanted()
    assert len(accounts.resources(there, "c1")) == len(accounts.rest(there, "c1")) == 1
    assert accounts.resources(there, "n1") == accounts.rest(there, "n1") == ()
    assert accounts.rest(wanted("database: c1\n"), "c1") == ()


@pytest.mark.parametrize(
    ("database", "known", "before", "ids"),
    [
        ("c1", 2469, "", [ClusterId("lab", 2469, "localhost", 0, "slurm", "slurm_acct_db")]),
        (
            "{host: c1, external: 'db:3307', keep_password: true}",
            7,
            "",
            [ClusterId("lab", 7, "db", 3307, "slurm", "slurm_acct_db")],
        ),
        ("c1", 0, "", []),
        ("c1", 2469, "ClusterName=former\n", []),
    ],
    ids=[
        "as the state has it",
        "on a server elsewhere",
        "Slurm before 24.11",
        "a cluster with a new name gets a new one",
    ],
)
def test_the_database_gets_the_cluster_id_of_slurmctlds_state(
    database: str, known: int, before: str, ids: list[ClusterId]
) -> None:
    there = wanted(f"database: {database}\n")
    controller = replace(there.controller_facts, cluster_id=known, slurm_conf=before)
    there = replace(there, facts={**there.facts, there.cluster.controller: controller})
    assert [one for one in accounts.resources(there, "c1") if isinstance(one, ClusterId)] == ids


@pytest.mark.parametrize(
    ("addresses", "port", "lines"),
    [
        ((), 0, set()),
        (("10.0.0.1", "fd83::1"), 0, set()),
        (("fd83::1",), 0, {"CommunicationParameters=EnableIPv6"}),
        ((), 7031, {"AccountingStoragePort=7031"}),
    ],
)
def test_sacctmgrs_own_slurm_conf_names_slurmdbd_on_its_host(
    addresses: tuple[str, ...], port: int, lines: set[str]
) -> None:
    text = accounts.private_conf_text("lab", "c1", addresses, port)
    assert {"ClusterName=lab", "SlurmctldHost=c1", "SlurmUser=slurm", "AccountingStorageHost=localhost"} <= {
        *text.splitlines()
    }
    own = {line for line in text.splitlines() if line.startswith(("Communication", "AccountingStoragePort"))}
    assert own == lines
