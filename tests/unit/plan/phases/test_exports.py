"""Exports when hosts have no part in a run: what they may have mounted stays, and the server's package with it."""

from __future__ import annotations

from dataclasses import replace

from support import cluster, facts_of, plan_input, prepared

from slurmfab.cluster.slurm.software import NFS_SERVER
from slurmfab.core.plan.phases import exports, packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.mounts.exports import ExportFiles
from slurmfab.on_hosts.agent.services.service import Service

HEAD = """\
cluster: lab
addresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
"""
EXPORTS = "exports: [{path: /srv/home, host: c1, mount: /home}]\n"


def given(text: str = HEAD, silent: tuple[str, ...] = ()) -> PlanInput:
    """What a plan is made from after exports were deployed, when some hosts do not answer."""
    known = facts_of(cluster(text), prepared)
    known["c1"] = prepared("c1", owned=("exports", "exports-loaded"), added_packages=(NFS_SERVER,))
    return plan_input(cluster(text), {name: fact for name, fact in known.items() if name not in silent}, known)


def former(wanted: PlanInput) -> ExportFiles:
    files = exports.gone(wanted, "c1")[0]
    assert isinstance(files, ExportFiles)
    return files


def installs(wanted: PlanInput) -> bool:
    return NFS_SERVER in packages.wanted(wanted, "c1")


def test_former_exports_go_when_all_hosts_are_through() -> None:
    wanted = given()
    assert exports.resources(wanted, "c1") == ()
    assert (former(wanted).exports, former(wanted).drops, former(wanted).away) == ((), True, ())
    assert not installs(wanted)
    assert [one.id for one in packages.former(wanted, "c1")] == [f"packages-former:{NFS_SERVER}"]


def test_a_host_that_is_silent_or_fails_or_is_not_in_the_run_keeps_its_exports_and_their_server() -> None:
    for wanted in (given(silent=("n2",)), replace(given(), outside=frozenset({"n2"}))):
        assert former(wanted).away == (("10.0.0.3", "n2"),)
        assert installs(wanted)
        assert packages.former(wanted, "c1") == ()


def test_a_server_without_clients_needs_no_daemon() -> None:
    alone = given(HEAD + "exports: [{path: /srv/home, host: c1, mount: /home, to: controller}]\n")
    assert not any(isinstance(one, Service) for one in exports.resources(alone, "c1"))
    assert not installs(alone)
    assert any(isinstance(one, Service) for one in exports.resources(given(HEAD + EXPORTS), "c1"))


def test_settings_of_a_server_that_was_there_before_stay_its_own() -> None:
    wanted = given(HEAD + EXPORTS)
    assert "vers3=n" in former(wanted).settings
    facts = {**wanted.facts, "c1": replace(wanted.facts["c1"], packages={NFS_SERVER: "1:2.8"}, added_packages=())}
    assert former(replace(wanted, facts=facts)).settings == ""
