"""Rotation of the munge key: staged everywhere or nowhere, switched at once while slurmctld is stopped, and proved."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from fake_slurm import FakeSlurm, job_line
from support import MUNGE_KEY, cluster, facts_of, lost_words, prepared, run_over

from slurmfab.base.errors import AnotherRun, DeployFailed, InputError, SlurmfabError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.facts import ClusterMark, SlurmUse
from slurmfab.commands.munge import key_rotation
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import Line

STAGED, SWITCH = "staged-munge-key:/etc/munge/munge.key", "munge-key-switch:/etc/munge/munge.key"
PAUSE = "slurmctld-pause:slurmctld"
HOSTS = ("c1", "n1", "n2")


@dataclass
class Munged(FakeSlurm):
    """Hosts with munged, which accepts credentials made with its own key.

    Args:
        keys: by host.
        busy: hosts on which another run is at work.
    """

    keys: dict[str, str] = field(default_factory=lambda: dict.fromkeys(HOSTS, "old"))
    busy: set[str] = field(default_factory=set)

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if host in self.busy and request["op"] == "apply":
            raise AnotherRun(host, "bob@desk since nine, fab deploy")
        if request["op"] == "slurm" and host in self.facts:
            return super().call(host, request, heard)
        if request["op"] != "munge" or host not in self.facts:
            return super().call(host, request, heard)
        decoded = [
            "Success (0)" if credential.endswith(f":{self.keys[host]}") else "Invalid credential (15)"
            for credential in request["decode"]
        ]
        made = f"MUNGE:{host}:{self.keys[host]}" if request["make"] else ""
        return ({"munge": {"made": made, "decoded": decoded, "trouble": ""}},)

    def kinds(self) -> list[tuple[str, str]]:
        """What hosts were to converge, in order: host, and kind with what tells its two directions apart."""
        return [
            (host, wanted["kind"] + {"": " none", False: " over"}.get(wanted.get("content", wanted.get("paused")), ""))
            for host, request in self.requests
            if request["op"] == "apply"
            for wanted in request["resources"]
        ]


def munged(**more: Any) -> Munged:
    """Deployed hosts without another run."""
    facts = facts_of(cluster(), prepared, munge_key=MUNGE_KEY, services={"slurmctld": "active"})
    hosts = Munged(facts, nodes=dict.fromkeys(("n1", "n2"), ("IDLE", "", "")), **more)
    hosts.wrong = {host: {STAGED, SWITCH} for host in HOSTS}
    hosts.wrong["c1"].add(PAUSE)

    def changed(host: str, name: str) -> None:
        if name == SWITCH:
            hosts.keys[host] = "new"
        if name in (PAUSE, STAGED):
            hosts.wrong[host].add(name)

    hosts.when_changed = changed
    return hosts


def rotated(hosts: Munged) -> Run:
    """A rotation over these hosts."""
    run = run_over(hosts, cluster(), command=key_rotation.COMMAND)
    key_rotation.rotate(run)
    return run


def test_a_key_is_staged_everywhere_before_slurmctld_stops_and_switched_everywhere_before_it_starts() -> None:
    hosts = munged()
    run = rotated(hosts)
    kinds = hosts.kinds()
    assert [kind for _, kind in kinds] == [
        *["staged-munge-key"] * 3, "slurmctld-pause", *["munge-key-switch"] * 3, "slurmctld-pause over"
    ]  # fmt: skip
    assert {host for host, kind in kinds if kind == "munge-key-switch"} == set(HOSTS)
    assert run.report().exit_code == 0
    assert {step.host: len(step.outcomes) for step in run.steps if step.phase == "proof"} == dict.fromkeys(HOSTS, 3)


def test_every_host_is_locked_before_anything_is_staged() -> None:
    hosts = munged(busy={"n2"})
    with pytest.raises(SlurmfabError, match=r"n2: no new munge key can be written there\. The munge key was not"):
        rotated(hosts)
    assert hosts.kinds() == []


def test_another_run_on_the_controller_stops_the_rotation() -> None:
    hosts = munged(busy={"c1"})
    with pytest.raises(SlurmfabError, match="another run is changing this cluster: bob@desk"):
        rotated(hosts)
    assert hosts.kinds() == []


def test_an_unreachable_host_is_excluded_and_named_with_its_jobs() -> None:
    hosts = munged(jobs=[job_line(12, "n2")])
    del hosts.facts["n2"]
    run = rotated(hosts)
    assert run.report().exit_code == 3
    words = lost_words(run.failed_hosts)["n2"]
    assert "It holds the old munge key. When it is back: fab deploy gives it the new one." in words
    assert "scancel jobs that have ended: 12 (ann)." in words
    assert hosts.keys == {"c1": "new", "n1": "new", "n2": "old"}


def test_without_the_controller_nothing_starts() -> None:
    hosts = munged()
    del hosts.facts["c1"]
    with pytest.raises(DeployFailed):
        rotated(hosts)
    assert hosts.kinds() == []


def test_a_host_that_is_new_and_of_another_cluster_keeps_its_key_and_if_most_are_so_do_all() -> None:
    hosts = munged()
    mark = ClusterMark("/etc/slurm/slurm.conf", "alpha", ("u1(10.9.0.1)",))
    for host in ("n1", "n2"):
        hosts.facts[host] = dataclasses.replace(hosts.facts[host], slurm_use=SlurmUse((mark,), ("slurmd",)))
        if host == "n1":
            assert "it belongs to the cluster alpha" in lost_words(rotated(hosts).failed_hosts)["n1"]
            assert {host for host, *_ in hosts.kinds()} == {"c1", "n2"}
            hosts = dataclasses.replace(hosts, requests=[])
    with pytest.raises(InputError, match=r"n\[1-2\]: it belongs to the cluster alpha"):
        rotated(hosts)
    assert hosts.kinds() == []


@pytest.mark.parametrize(
    ("host", "lacking", "words"),
    [
        ("n1", {"packages": {}}, "n1: munge is not installed there yet. First: fab deploy."),
        ("c1", {"munge_key": ""}, "c1: there is no munge key yet. First: fab deploy."),
    ],
)
def test_hosts_without_munge_or_key_stop_the_rotation(host: str, lacking: dict[str, Any], words: str) -> None:
    hosts = munged()
    hosts.facts[host] = prepared(host, **{"munge_key": MUNGE_KEY, **lacking})
    with pytest.raises(SlurmfabError) as caught:
        rotated(hosts)
    assert words in str(caught.value)
    assert hosts.kinds() == []


def test_a_key_that_cannot_be_staged_on_one_host_is_removed_everywhere() -> None:
    hosts = munged(failing={"n2": {STAGED}})
    with pytest.raises(SlurmfabError, match="The munge key was not changed on any host"):
        rotated(hosts)
    kinds = hosts.kinds()
    assert {kind for _, kind in kinds} == {"staged-munge-key", "staged-munge-key none"}
    assert {host for host, kind in kinds if kind.endswith("none")} == {"c1", "n1"}


def test_a_slurmctld_that_cannot_be_stopped_keeps_the_old_key_everywhere_and_runs() -> None:
    hosts = munged(failing={"c1": {PAUSE}})
    with pytest.raises(SlurmfabError):
        rotated(hosts)
    assert "munge-key-switch" not in {kind for _, kind in hosts.kinds()}
    assert {host for host, kind in hosts.kinds() if kind == "staged-munge-key none"} >= {"n1", "n2"}


def test_a_host_that_fails_in_the_switch_is_named_and_the_others_are_proved() -> None:
    hosts = munged(failing={"n2": {SWITCH}})
    run = rotated(hosts)
    assert run.report().exit_code == 1
    assert "it cannot be done. It holds the old munge key or the new one." in lost_words(run.failed_hosts)["n2"]
    assert {step.host for step in run.steps if step.phase == "proof"} == {"c1", "n1"}
    assert ("c1", "slurmctld-pause over") in hosts.kinds()


def test_if_the_controller_fails_in_the_switch_the_message_names_the_others_key() -> None:
    hosts = munged(failing={"c1": {SWITCH}})
    with pytest.raises(SlurmfabError, match="Other hosts have it already"):
        rotated(hosts)


def test_a_slurmctld_that_does_not_run_is_neither_stopped_nor_started() -> None:
    hosts = munged(ping="Slurmctld(primary) at c1 is DOWN\n")
    hosts.facts = facts_of(cluster(), prepared, munge_key=MUNGE_KEY)
    run = rotated(hosts)
    assert "slurmctld-pause" not in {kind for _, kind in hosts.kinds()}
    assert run.report().exit_code == 0


def test_the_key_is_new_in_every_run_and_in_no_report() -> None:
    contents = []
    for _ in range(2):
        hosts = munged()
        run = rotated(hosts)
        contents += {
            wanted["content"]
            for _, request in hosts.requests
            for wanted in request.get("resources", ())
            if wanted.get("content")
        }
        told = json.dumps(as_json(run.report())) + repr((run.steps, run.failed_hosts, run.job_impact))
        assert contents[-1][:12] not in told
        assert "MUNGE:" not in told
    assert len(set(contents)) == len(contents) == 2
    assert {len(base64.b64decode(content)) for content in contents} == {128}


@pytest.mark.parametrize(
    ("decoded", "back", "failed"),
    [
        (("Success (0)", "Invalid credential (15)"), "Success (0)", []),
        (("Success (0)",), "Success (0)", []),
        (("Invalid credential (15)", "Invalid credential (15)"), "Success (0)", ["munge:there"]),
        (("Success (0)", "Invalid credential (15)"), "Invalid credential (15)", ["munge:back"]),
        (("Success (0)", "Success (0)"), "Success (0)", ["munge:old-key"]),
    ],
)
def test_a_host_is_proved_by_credentials_in_both_directions_and_by_an_old_credential(
    decoded: tuple[str, ...], back: str, failed: list[str]
) -> None:
    outcomes = key_rotation.credential_outcomes("c1", key_rotation.MungeAnswer("MUNGE:x", decoded), back)
    assert [one.id for one in outcomes if one.status == "failed"] == failed


def test_a_host_that_makes_no_credential_fails_with_its_reason() -> None:
    answer = key_rotation.MungeAnswer("", ("Success (0)",), "munge: Error: no socket")
    outcomes = key_rotation.credential_outcomes("c1", answer, "unmunge printed nothing")
    assert ["no socket" in one.message for one in outcomes if one.status == "failed"] == [True]
