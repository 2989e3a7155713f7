"""The controller's copy of the lock: what a run sends, and what is taken of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paramiko
import pytest
from ssh_keys import ED25519, OTHER
from support import FakeHosts, cluster, facts_of, prepared, run_over

from slurmfab.base.errors import AgentFailed, HostFailed, HostKeyChanged, HostKeyUnknown, InputError
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.shared_files import FilesRead
from slurmfab.core.engine import lock_copy, lost_lock, requests
from slurmfab.core.engine.lost_lock import ComparedKey
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.pinned import pin
from slurmfab.hosts.known_hosts import fingerprint
from slurmfab.hosts.session import Line

LOCK = pin(cluster(), locks.Lock(), facts_of(cluster(), prepared))
RUN = "20261121T112423.829348Z-deploy"


def as_kept(lock: locks.Lock = LOCK, **other: str) -> dict[str, str]:
    return {"cluster": cluster().name, "run": RUN, "by": "ann@laptop", "text": locks.text_of(lock), **other}


@dataclass
class Controller(FakeHosts):
    """A controller with a copy."""

    copy: Mapping[str, str] | None = None
    key: tuple[str, str] | None = None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        return ({"lock_copy": self.copy},) if request["op"] == "lock-copy" else super().call(host, request, heard)

    def host_key(self, host: str) -> tuple[str, str] | None:  # noqa: ARG002
        return self.key


def asked(copy: Mapping[str, str], key: tuple[str, str] | None = None) -> locks.Lock:
    known = Inventory(cluster(), locks.Lock(), Path("cluster.yaml"))
    return lost_lock.asked(known, Controller({}, copy=copy, key=key)).lock


def test_a_copy_when_it_is_taken_then_has_all_but_whom_and_what_archives_are_trusted_by() -> None:
    trusting = replace(LOCK, signers=(f"ssh-ed25519 {ED25519}",), bundles={"b": "0" * 64})
    assert asked(as_kept(trusting)) == LOCK


@pytest.mark.parametrize(
    ("copy", "told"),
    [
        ({}, "it has no copy of the lock"),
        (as_kept(cluster="other"), "the lock of the cluster other"),
        (as_kept(text="{"), "its copy is no lock"),
        (as_kept(text="7"), "its copy is no lock"),
    ],
)
def test_a_copy_when_it_is_not_this_clusters_lock_then_is_refused(copy: dict[str, str], told: str) -> None:
    with pytest.raises((HostFailed, AgentFailed), match=told):
        asked(copy)


def test_a_copy_when_it_pins_another_key_for_the_controller_than_it_shows_then_is_refused() -> None:
    own = replace(LOCK.hosts["c1"], host_keys={"ssh-ed25519": ED25519})
    lock = locks.with_host(LOCK, "c1", own)
    assert asked(as_kept(lock), ("ssh-ed25519", ED25519)) == lock
    with pytest.raises(HostFailed, match="another SSH host key"):
        asked(as_kept(lock), ("ssh-ed25519", OTHER))


def surveyed(copy: Mapping[str, str], lock: locks.Lock | None = None) -> None:
    """Ask the hosts of a cluster for their facts.

    Args:
        copy: what the controller has.
        lock: what is beside the cluster file; nothing if left out.
    """
    run = run_over(Controller(facts_of(cluster()), copy=copy), cluster(), lock=lock)
    run.note_files(FilesRead(b"", locks.text_of(lock).encode() if lock else None))
    assert set(requests.gather(run, run.hosts)) == set(cluster().hosts)


@pytest.mark.parametrize(
    ("copy", "lock"),
    [({}, None), (as_kept(cluster="other"), None), (as_kept(), LOCK)],
    ids=["no-copy", "of-another-cluster", "with-a-lock-here"],
)
def test_a_controller_without_what_is_missing_then_is_surveyed(copy: dict[str, str], lock: locks.Lock | None) -> None:
    surveyed(copy, lock)


def test_a_controller_with_the_lock_that_is_missing_here_then_is_not_deployed_to_anew() -> None:
    with pytest.raises(
        InputError, match=r"c1 has a copy, since .*by ann@laptop\. To put that back: fab restore-lock --"
    ):
        surveyed(as_kept())


class ShownKey(paramiko.PKey):
    """A key as a host shows it."""

    def get_name(self) -> str:
        return "ssh-ed25519"

    def get_base64(self) -> str:
        return ED25519


@pytest.mark.parametrize(
    ("pinned", "compared", "error"),
    [
        ({}, fingerprint(ED25519), None),
        ({}, fingerprint(OTHER), HostKeyUnknown),
        ({}, "", HostKeyUnknown),
        ({"ssh-ed25519": (ED25519,)}, "", None),
        ({"ssh-ed25519": (OTHER,)}, fingerprint(ED25519), HostKeyChanged),
        ({"ssh-rsa": (OTHER,)}, fingerprint(ED25519), HostKeyUnknown),
    ],
)
def test_a_host_key_is_believed_if_it_is_known_or_was_compared_and_no_other_is_known(
    pinned: dict[str, tuple[str, ...]], compared: str, error: type[Exception] | None
) -> None:
    policy = ComparedKey("c1", pinned, compared)
    if error is None:
        policy.missing_host_key(paramiko.SSHClient(), "c1", ShownKey())
        return
    with pytest.raises(error):
        policy.missing_host_key(paramiko.SSHClient(), "c1", ShownKey())


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_run_that_may_have_changed_something_then_sends_the_lock_as_it_left_it_to_the_controller(
    is_reached: bool,
) -> None:
    hosts, said = FakeHosts(facts_of(cluster()) if is_reached else {}), io.StringIO()
    run = run_over(hosts, cluster(), lock=LOCK, progress=Progress(said))
    run.note_files(FilesRead(b"", locks.text_of(LOCK).encode()))
    run.claim.mark_taken()
    lock_copy.keep(run)
    ((host, request),) = hosts.requests
    (sent,) = request["resources"]
    assert (host, sent["kind"], sent["text"]) == ("c1", "lock-copy", locks.text_of(LOCK))
    assert ("c1: it did not keep a copy of the lock" in said.getvalue()) != is_reached


def fetched(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, **options: Any) -> tuple[Any, list[Any]]:
    """What comes of a fetch, and how the controller was connected to."""
    made: list[Any] = []

    class Closing(Controller):
        def close(self) -> None:
            made.append("closed")

    def connect(routes: Any, policies: Any, asker: Any, password: str) -> Controller:
        made.extend([*routes, policies["c1"].compared, bool(asker), password])
        return Closing({}, copy=as_kept())

    def fail(*_: Any) -> None:
        raise error  # type: ignore[misc]

    monkeypatch.setattr(lost_lock, "SshTransport", connect)
    monkeypatch.setattr(lost_lock.session, "trusted_keys", lambda *_: {})
    if error:
        monkeypatch.setattr(lost_lock, "asked", fail)
    known = Inventory(cluster(), locks.Lock(), Path("cluster.yaml"))
    try:
        return lost_lock.fetched(known, Output(**options), "SHA256:x"), made
    except HostFailed as failed:
        return failed, made


def test_the_controllers_copy_is_fetched_by_a_key_that_somebody_has_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    copy, made = fetched(monkeypatch)
    assert copy.lock == LOCK
    assert made == ["c1", "n1", "n2", "SHA256:x", False, "", "closed"]


def test_the_sudo_password_is_asked_for_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Output, "asker", lambda _: lambda: "secret")
    assert fetched(monkeypatch, ask_password=True)[1][-3:] == [True, "secret", "closed"]
    assert fetched(monkeypatch)[1][-3:] == [True, "", "closed"]


def test_an_unknown_key_of_the_controller_is_told_with_the_way_to_compare_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = HostKeyUnknown("c1", "ecdsa-sha2-nistp256", "AAAA", "SHA256:y")
    failed, made = fetched(monkeypatch, error)
    assert "its SSH host key is unknown here: ecdsa-sha2-nistp256 SHA256:y." in str(failed)
    assert "ssh_host_ecdsa_key.pub" in str(failed)
    assert "fab restore-lock --from-controller --fingerprint SHA256:y. Nothing was written." in str(failed)
    assert made[-1] == "closed"
