"""The hosts that a slurm.conf names: each once, with the address by which others reach it."""

from __future__ import annotations

import pytest

from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.import_cluster.asked import host_name
from slurmfab.commands.import_cluster.members import Member, controllers_of, members

NODES = "NodeName=n[1-2] NodeAddr=10.0.0.[11-12]\nNodeName=n3\n"
DATABASE = "AccountingStorageType=accounting_storage/slurmdbd\n"


@pytest.mark.parametrize(
    ("text", "controllers"),
    [
        ("SlurmctldHost=ctl", (("ctl", ""),)),
        (
            "SlurmctldHost=Ctl(10.0.0.1)\nSlurmctldHost=back.example.org",
            (("ctl", "10.0.0.1"), ("back.example.org", "")),
        ),
        ("ControlMachine=old\nControlAddr=10.0.0.9\nBackupController=b", (("old", "10.0.0.9"), ("b", ""))),
        ("ClusterName=x", ()),
        ("SlurmctldHost=localhost", (("head", ""),)),
        (
            "SlurmctldHost=ctl(127.0.1.1)\nSlurmctldHost=localhost.localdomain(10.0.0.1)",
            (("ctl", ""), ("head", "10.0.0.1")),
        ),
    ],
)
def test_controllers_when_named_in_any_way_then_the_primary_comes_first(
    text: str, controllers: tuple[tuple[str, str], ...]
) -> None:
    assert controllers_of(parse(text), "head") == controllers


def test_compute_nodes_when_lines_fold_them_then_each_has_its_own_address() -> None:
    found = members(parse(f"SlurmctldHost=ctl(10.0.0.1)\n{NODES}"), "head")
    assert found.controller == "ctl"
    assert found.hosts == {
        "ctl": Member("ctl", "ctl", "10.0.0.1"),
        "n1": Member("n1", "n1", "10.0.0.11"),
        "n2": Member("n2", "n2", "10.0.0.12"),
        "n3": Member("n3", "n3", "n3"),
    }


@pytest.mark.parametrize(
    ("controller", "node"),
    [
        ("n1", "NodeName=n1"),
        ("n1.example.org", "NodeName=n1"),
        ("head", "NodeName=n1 NodeHostName=head"),
        ("head(10.0.0.1)", "NodeName=n1 NodeAddr=10.0.0.1"),
    ],
)
def test_a_controller_that_computes_then_is_one_host_by_its_node_name(controller: str, node: str) -> None:
    found = members(parse(f"SlurmctldHost={controller}\n{node}\n"), "head")
    assert (found.controllers, list(found.hosts)) == (("n1",), ["n1"])


@pytest.mark.parametrize(
    ("line", "database"),
    [
        ("", ""),
        (DATABASE, "ctl"),
        (f"{DATABASE}AccountingStorageHost=localhost", "ctl"),
        (f"{DATABASE}AccountingStorageHost=10.0.0.1", "ctl"),
        (f"{DATABASE}AccountingStorageHost=N2", "n2"),
        (f"{DATABASE}AccountingStorageHost=db.example.org", "db"),
        ("AccountingStorageType=accounting_storage/none\nAccountingStorageHost=db", ""),
    ],
)
def test_the_host_of_slurmdbd_then_is_a_member_under_one_name(line: str, database: str) -> None:
    found = members(parse(f"SlurmctldHost=ctl(10.0.0.1)\n{NODES}{line}\n"), "head")
    assert found.database == database
    assert list(found.hosts) == [
        "ctl",
        *(["db"] if database == "db" else []),
        *(["n2"] if database == "n2" else []),
    ] + [name for name in ("n1", "n2", "n3") if name != database]


@pytest.mark.parametrize(("state", "is_asked"), [("cloud", False), ("UNKNOWN", True), ("DOWN", True)])
def test_a_node_that_may_not_exist_yet_then_is_not_asked(state: str, is_asked: bool) -> None:
    found = members(parse(f"SlurmctldHost=ctl\nNodeName=n1 State={state}\n"), "head")
    assert found.hosts["n1"].is_asked == is_asked


@pytest.mark.parametrize(
    ("member", "taken", "name"),
    [
        ("db", ("ctl",), "db"),
        ("10.0.0.9", ("ctl",), "dbhost"),
        ("fd83::9", ("ctl",), "dbhost"),
        ("10.0.0.9", ("dbhost",), "10.0.0.9"),
    ],
)
def test_a_host_that_slurm_conf_names_by_its_address_has_its_own_name(
    member: str, taken: tuple[str, ...], name: str
) -> None:
    assert host_name(member, "dbhost", taken) == name


@pytest.mark.parametrize(
    ("named", "member"),
    [
        ("db.example.org", Member("db", "db", "db.example.org")),
        ("N2", Member("n2", "n2", "10.0.0.12")),
        ("192.0.2.7", Member("192.0.2.7", "192.0.2.7", "192.0.2.7")),
    ],
)
def test_the_host_of_slurmdbd_is_reached_as_slurm_conf_names_it(named: str, member: Member) -> None:
    found = members(parse(f"SlurmctldHost=ctl\n{NODES}{DATABASE}AccountingStorageHost={named}\n"), "head")
    assert found.hosts[found.database] == member
