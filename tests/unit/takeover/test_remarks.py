"""What people are told of the hosts of an imported cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import host_facts

from slurmfab.commands.import_cluster.asked import NOTHING, Asked
from slurmfab.commands.import_cluster.found import FoundCluster, HostFiles
from slurmfab.commands.import_cluster.importing import remarks
from slurmfab.on_hosts.agent.slurm.found_files import ELSEWHERE, MISSING, PRIVATE

CONF = "ClusterName=alpha\nSlurmctldHost=ctl\nProlog=/etc/slurm/prolog.sh\nNodeName=n[1-2]\nPartitionName=p Nodes=ALL\n"


def asked(left: dict[str, dict[str, str]] | None = None, conf: str = CONF, **others: Any) -> Asked:
    """A cluster of ctl, n1 and n2, with nothing to tell but for what is given.

    Args:
        left: by host, path and reason of files that stay there.
        conf: the slurm.conf of all hosts.
        others: further fields.
    """
    names = ("ctl", "n1", "n2")
    files = {name: HostFiles((), slurm_conf=conf, left=(left or {}).get(name, {})) for name in names}
    facts = {name: host_facts(name) for name in names}
    facts["ctl"] = replace(facts["ctl"], slurm_conf=conf)
    running = {"ctl": ("slurmctld",), "n1": ("slurmd",), "n2": ("slurmd",)}
    whole = {"hidden": {}, "running": running, "strangers": {}, "unpinned": (), "trouble": ""}
    return Asked(cluster=FoundCluster("ctl", files, facts, {}), discovered={}, **{**whole, **others})


def test_a_cluster_without_oddities_then_needs_no_remark() -> None:
    assert list(remarks(asked())) == []


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (
            {"n1": {"/etc/slurm/prolog.sh": PRIVATE}, "n2": {"/etc/slurm/prolog.sh": PRIVATE}},
            ["n[1-2]: /etc/slurm/prol"],
        ),
        ({"n1": {"/etc/slurm/prolog.sh": MISSING}}, ["n1: /etc/slurm/prolog.sh: there is no such file."]),
        ({"ctl": {"/etc/slurm/prolog.sh": MISSING}}, []),
        ({"ctl": {"/etc/slurm/nodes.conf": MISSING}}, ["ctl: /etc/slurm/nodes.conf: there is no such file."]),
        ({"ctl": {"/usr/sbin/nhc": ELSEWHERE}}, []),
    ],
    ids=["private", "missing", "missing where nobody runs it", "missing include", "elsewhere"],
)
def test_a_file_that_stays_then_is_told_for_the_hosts_that_need_it(left: dict[str, Any], said: list[str]) -> None:
    found = list(remarks(asked(left)))
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"hidden": {"ctl": (("/etc/slurm/slurm.conf", "JobCompPass"),)}}, "JobCompPass is a password"),
        ({"strangers": {"n9": NOTHING}}, "fab add-node n9"),
        ({"strangers": {"login": "it has a slurm.conf of the controller ctl"}}, "add it to `login`"),
        ({"trouble": "Connection refused."}, "slurmdbd did not tell of accounts, users and QOS: Connection refused."),
        ({"running": dict.fromkeys(("ctl", "n1", "n2"), ("slurmd",))}, "slurmctld does not run there now"),
        ({"running": {"ctl": ("slurmctld",), "n1": ("slurmd",)}}, "n2: slurmd does not run there now. The first"),
        ({"running": {"ctl": ("slurmctld",)}}, "n[1-2]: slurmd does not run there now. That is every node that"),
        ({"conf": f"# Made by slurmfab\n{CONF}"}, "slurmfab made the slurm.conf of ctl"),
    ],
)
def test_what_is_odd_about_a_host_then_is_told_with_what_to_do(others: dict[str, Any], words: str) -> None:
    assert [words in one for one in remarks(asked(**others))] == [True]


def test_the_password_of_slurmdbd_then_is_not_told_because_it_stays_where_it_is() -> None:
    assert list(remarks(asked(hidden={"ctl": (("/etc/slurm/slurmdbd.conf", "StoragePass"),)}))) == []
