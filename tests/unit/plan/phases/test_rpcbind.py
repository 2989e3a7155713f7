"""When rpcbind, which the packages of NFS bring along, is kept from listening."""

from __future__ import annotations

from typing import Any

import pytest
from support import cluster, facts_of, plan_input, prepared

from slurmfab.core.plan.phases import packages, rpcbind
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles

HEAD = """\
cluster: lab
addresses: {c1: 10.0.0.1, n1: 10.0.0.2}
controllers: [c1]
nodes: [{hosts: n1}]
"""
OLD = {"slurmd": "24.11.5-1", "rpcbind": "1.2.7-1"}
"""The packages of a host that had rpcbind before, or got it in an earlier deployment."""


def planned(text: str, **facts: Any) -> PlanInput:
    known = facts_of(cluster(HEAD + text), prepared)
    known["n1"] = prepared("n1", **facts)
    return plan_input(cluster(HEAD + text), known)


@pytest.mark.parametrize(
    ("text", "facts", "is_kept_shut"),
    [
        ("mounts: [{path: /home, source: 'nas:/home', type: nfs4}]", {}, True),
        ("mounts: [{path: /home, source: 'nas:/home', type: nfs, options: 'hard,vers=4.2'}]", {}, True),
        ("mounts: [{path: /home, source: 'nas:/home', type: nfs, options: nfsvers=4}]", {}, True),
        ("exports: [{path: /srv/home, host: c1, mount: /home}]", {}, True),
        ("exports: [{path: /srv/home, host: n1}]", {}, True),
        ("mounts: [{path: /home, source: 'nas:/home', type: nfs4}]", {"packages": OLD}, False),
        (
            "mounts: [{path: /home, source: 'nas:/home', type: nfs4}]",
            {"packages": OLD, "added_packages": ("nfs-common", "rpcbind")},
            True,
        ),
        ("mounts: [{path: /home, source: 'nas:/home', type: nfs}]", {}, False),
        ("mounts: [{path: /home, source: 'nas:/home', type: nfs, options: vers=3}]", {}, False),
        (
            "mounts: [{path: /home, source: 'nas:/home', type: nfs4}, {path: /old, source: 'nas:/old', type: nfs}]",
            {},
            False,
        ),
        ("mounts: [{path: /home, source: 'nas:/home', type: glusterfs}]", {}, False),
    ],
)
def test_rpcbind_when_slurmfab_brought_it_and_all_is_of_version_4_is_kept_from_starting(
    text: str, facts: dict[str, Any], is_kept_shut: bool
) -> None:
    found = rpcbind.resources(planned(text, **facts), "n1")
    assert bool(found) == is_kept_shut
    assert ("rpcbind" in packages.wanted(planned(text, **facts), "n1")) == ("nfs" in text or "exports" in text)


def test_rpcbind_when_the_key_is_gone_starts_as_it_did() -> None:
    found = rpcbind.resources(planned("", owned=("rpcbind",)), "n1")
    assert found[0] == OwnedFiles("rpcbind", ())
    assert [one.kind for one in found] == ["owned-files", "units-loaded"]
    assert rpcbind.resources(planned(""), "n1") == ()
