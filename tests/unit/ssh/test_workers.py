"""Processes that hold the connections to many hosts: real processes, and stand-ins for hosts that speak SSH."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Pipe
from pathlib import Path

import pytest
from planted_files import planted

from benchmarks.scenarios import far_hosts
from slurmfab.base.errors import (
    ClusterFileError,
    ConnectionLost,
    HostKeyChanged,
    HostKeyUnknown,
    SudoPasswordNeeded,
    Unreachable,
)
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import ask_facts
from slurmfab.hosts import over_ssh as deciding
from slurmfab.hosts import worker
from slurmfab.hosts.fan_out import give_up_turn, on_each
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.over_ssh import over_ssh
from slurmfab.hosts.route import Route, to_hosts
from slurmfab.hosts.sudo_password import NEEDED, SudoPassword
from slurmfab.hosts.transport import Ends, SshTransport
from slurmfab.hosts.workers import DONE, FAILED, LINE, TAKEN, TURN, Reply, Share, SharedTransport, shares

ANOTHER = "AAAAC3NzaC1lZDI1NTE5AAAAI" + 43 * "A"  # a public key that no host has


def way(name: str, *relays: Route) -> Route:
    """A route that leads nowhere."""
    return Route(host=name, address="192.0.2.1", port=22, user="root", relays=relays)


@pytest.mark.parametrize(
    ("hosts", "cores", "kind"), [(255, 8, SshTransport), (256, 1, SshTransport), (256, 8, SharedTransport)]
)
def test_hosts_when_they_are_many_and_there_are_cores_then_have_several_processes(
    hosts: int, cores: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    routes = {f"n{number}": way(f"n{number}") for number in range(hosts)}
    made = over_ssh(routes, {host: PinnedKey(host, {}) for host in routes})
    assert type(made) is kind
    made.close()


def test_hosts_when_they_are_shared_out_then_those_behind_a_relay_are_with_it() -> None:
    relay, other = way("r1"), way("r2")
    routes = {"r1": relay, "r2": other, **{f"n{number}": way(f"n{number}", relay, other) for number in range(5)}}
    routes |= {f"m{number}": way(f"m{number}") for number in range(5)}
    parts = list(shares(routes, 2))
    assert sorted(host for part in parts for host in part) == sorted(routes)
    assert {"r1", "n0", "n4"} <= set(next(part for part in parts if "r1" in part))
    assert {len(part) for part in parts} == {6}


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("n1", "it is off."),
        HostKeyUnknown("n1", "ssh-ed25519", "AAAA", "SHA256:x", has_authority=True),
        HostKeyChanged("n1", "another key."),
        SudoPasswordNeeded("n1", "a password."),
        ClusterFileError(("a.yaml:1: x: wrong",)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_when_it_comes_from_another_process_then_is_the_same(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedTransport]:
    """A transport by two processes to hosts; n3 shows another key than the pinned one."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setattr(far_hosts, "PORT", free.getsockname()[1])
    monkeypatch.setattr(deciding, "HOSTS_EACH", 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with far_hosts.running(tmp_path) as process:
        known = loading.load(far_hosts.Far(far_hosts.cluster_file(tmp_path, 6, 0), process).file)
        policies = {host: PinnedKey(host, session.trusted_keys(known, host)) for host in known.cluster.hosts}
        policies["n3"] = PinnedKey(
            "n3", {"ssh-ed25519": "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
        )
        made = over_ssh(to_hosts(known.cluster), policies)
        assert isinstance(made, SharedTransport)
        try:
            yield made
        finally:
            made.close()


def processes(shared: SharedTransport) -> list[int]:
    """The process of each worker that has started."""
    return sorted({worker.process.pid for worker in shared.worker_of.values() if worker.process})


def test_hosts_when_asked_over_processes_then_each_answers_and_its_errors_are_its_own(shared: SharedTransport) -> None:
    assert processes(shared) == [], "none starts before it is needed"
    answers = dict(on_each(shared.worker_of, lambda host: ask_facts(shared, host, with_secrets=False)))
    assert len(processes(shared)) == 2
    assert isinstance(answers.pop("n3"), HostKeyChanged)
    assert {host: facts.hostname for host, facts in answers.items()} == {host: host for host in answers}
    assert {"ctl", "n1"} <= set(answers)
    shown = shared.host_key("n1")
    assert (shown or [""])[0] == "ssh-ed25519"
    assert shared.ends("n1").reached.startswith("127.")


def test_hosts_when_the_transport_closes_then_their_processes_have_ended(shared: SharedTransport) -> None:
    ask_facts(shared, "n1", with_secrets=False)
    (pid,) = processes(shared)
    shared.close()
    assert not Path(f"/proc/{pid}").exists()


def test_a_host_when_its_process_is_killed_then_that_is_said_and_the_others_go_on(shared: SharedTransport) -> None:
    ask_facts(shared, "n1", with_secrets=False)
    (pid,) = processes(shared)
    others = [host for host, worker in shared.worker_of.items() if worker is not shared.worker_of["n1"]]
    os.kill(pid, signal.SIGKILL)
    for _ in range(3):  # also when its end was noticed before
        with pytest.raises(ConnectionLost, match="the process that held its connection has ended"):
            ask_facts(shared, "n1", with_secrets=False)
    assert ask_facts(shared, next(host for host in others if host != "n3"), with_secrets=False).hostname


def test_processes_when_the_main_one_is_killed_then_end_with_it(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        routes = {f"n{number}": way(f"n{number}") for number in range(2)}
        made = SharedTransport(routes, {}, SudoPassword(None), print, 1)
        made.worker_of["n1"].start()
        (tmp_path / "pid").write_text(str(processes(made)[0]))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    pid, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Played:
    """A transport in a worker, whose hosts send large data and may be off."""

    def __init__(self, *_: object, **__: object) -> None:
        self.sudo = SudoPassword(None)
        self.parts: list[int] = []

    def call(self, host: str, request: object, heard: Callable[[object], None]) -> tuple[object, ...]:
        if self.sudo.known != "right":
            raise SudoPasswordNeeded(host, NEEDED)
        give_up_turn()
        for part in range(3):
            self.parts.append(part)
            heard({"piece": part})
        return (request,)

    def host_key(self, _: str) -> None:
        return None

    def ends(self, _: str) -> Ends:
        return Ends()

    def close(self) -> None:
        """There is nothing to close."""


def test_a_worker_when_it_reads_large_data_then_waits_for_each_part_and_asks_for_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "SshTransport", Played)
    ours, theirs = Pipe()
    server = worker.Server(theirs, Share({}, {}, 2))
    server.take(1, "call", ("n1", "facts"), "")
    number, kind, error = ours.recv()
    assert (number, kind, type(error)) == (1, FAILED, SudoPasswordNeeded)
    server.take(2, "call", ("n1", "facts"), "right")
    assert ours.recv() == (2, TURN, None)
    for part in range(3):
        assert ours.recv() == (2, LINE, {"piece": part})
        assert not ours.poll(0.05), "the next part waits until this one was taken"
        server.take(2, TAKEN, (), "")
    assert ours.recv() == (2, DONE, Reply(1, False, None, Ends()))


def test_a_process_when_it_starts_among_files_with_the_names_of_modules_then_loads_none_of_them(
    shared: SharedTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = planted(tmp_path / "work")
    monkeypatch.chdir(there.directory)
    for name, value in there.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", ".")
    assert ask_facts(shared, "n1", with_secrets=False).hostname == "n1"
    assert there.was_run == []
