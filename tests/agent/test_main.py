"""The request loop, with requests as the deployer sends them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_agent import Agent, snapshot

from slurmfab.hosts.payload import BOOT, payload
from slurmfab.on_hosts.agent.core import lifeline
from slurmfab.on_hosts.agent.core.host_lock import INTERRUPTED
from slurmfab.on_hosts.agent.core.language import SITE_SETTINGS
from slurmfab.on_hosts.agent.core.lifeline import Answers, KeepAlive, Lifeline
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.main import Refused, Refusing, forget

ROOTS = pytest.mark.needs_root("the agent tells facts to root alone")

SECRET = "correct horse battery staple"


def file(path: str, content: str = "text\n", **more: Any) -> dict[str, Any]:
    """A file resource as JSON values."""
    return {"kind": "file", "path": path, "content": content, **more}


@ROOTS
def test_facts_when_asked_for_are_one_line(agent: Agent) -> None:
    (line,) = agent.ask({"op": "facts", "users": ["root"], "packages": []})
    assert line["facts"]["accounts"]["root"]["uid"] == 0


def test_resources_when_applied_twice_change_once(agent: Agent, root: Path) -> None:
    first = agent.apply(root, file("/etc/a"), file("/etc/b"))
    before = snapshot(root / "etc")
    second = agent.apply(root, file("/etc/a"), file("/etc/b"))
    assert [one["status"] for one in first] == ["changed", "changed"]
    assert [one["status"] for one in second] == ["ok", "ok"]
    assert snapshot(root / "etc") == before


def test_a_dry_run_when_everything_differs_writes_nothing(agent: Agent, root: Path) -> None:
    before = snapshot(root)
    outcomes = agent.apply(
        root,
        file("/etc/a"),
        {"kind": "directory", "path": "/var/spool/x"},
        {"kind": "block", "path": "/etc/hosts", "block": "hosts", "content": "127.0.0.1 x\n"},
        {"kind": "absent", "path": "/etc/group"},
        {"kind": "ssh-key", "user": "slurm", "home": "/var/lib/slurm"},
        {"kind": "munge-key"},
        {"kind": "group", "group": "new", "gid": 4711},
        {"kind": "slurm-files", "directory": "/etc/slurm", "files": [["slurm.conf", "ClusterName=x\n"]]},
        dry_run=True,
    )
    assert {one["status"] for one in outcomes} == {"would change"}
    assert snapshot(root) == before


def test_later_resources_when_one_fails_are_skipped_and_name_it(agent: Agent, root: Path) -> None:
    outcomes = agent.apply(root, file("/missing/a"), file("/etc/b"))
    assert [one["status"] for one in outcomes] == ["failed", "skipped"]
    assert "/missing" in outcomes[0]["message"]
    assert "file:/missing/a" in outcomes[1]["message"]
    assert not (root / "etc/b").exists()


def test_a_dry_run_when_a_resource_fails_goes_on(agent: Agent, root: Path) -> None:
    (root / "etc/link").symlink_to("passwd")
    outcomes = agent.apply(root, file("/etc/link"), file("/etc/b"), dry_run=True)
    assert [one["status"] for one in outcomes] == ["failed", "would change"]


@ROOTS
@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"op": "nonsense"}, "nonsense"),
        ({"op": "apply", "dry_run": True, "resources": [{"kind": "flag"}]}, "there is no resource of kind flag"),
        ({"op": "apply", "dry_run": True, "resources": [{"kind": "file", "size": 1}]}, "size"),
        ([], "TypeError"),
    ],
)
def test_the_loop_when_a_request_crashes_reports_it_and_continues(agent: Agent, request_: object, words: str) -> None:
    (line,) = agent.ask(request_)
    assert words in line["error"]
    assert "slurmfab/on_hosts/agent/main.py" in line["traceback"]
    assert "facts" in agent.ask({"op": "facts"})[0]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device", "/x"), ResourceFailed("no room")])
def test_a_failure_that_is_expected_is_refused_with_advice(error: Exception) -> None:
    with pytest.raises(Refused, match=r"^(No space left on device \(/x\); free some space on it|no room)$"), Refusing():
        raise error


def test_a_failure_that_is_not_expected_stays_as_it_is() -> None:
    with pytest.raises(KeyError), Refusing():
        raise KeyError


def test_a_traceback_when_code_came_from_memory_shows_its_lines(agent: Agent) -> None:
    (line,) = agent.ask({"op": "nonsense"})
    assert 'OPERATIONS[request["op"]]' in line["traceback"]


@pytest.mark.parametrize(
    "resource",
    [
        file("/etc/key", SECRET, secret=True),
        file("/missing/key", SECRET, secret=True),
        file("/etc/key", SECRET, secret=True, owner="nobody-here"),
        file("/etc/key", SECRET, secret=True, encoding="base64"),
        file("/etc/key", SECRET, secret=True, mode=SECRET),
        file("/etc/key", SECRET, secret=True, nonsense=SECRET),
        {"kind": SECRET, "secret": True},
    ],
)
def test_a_secret_when_its_file_changes_fails_or_crashes_is_in_no_answer(
    agent: Agent, root: Path, resource: dict[str, Any]
) -> None:
    (root / "etc/key").write_text("before")
    lines = agent.apply(root, resource, dry_run=True) + agent.apply(root, resource)
    assert SECRET not in json.dumps(lines)
    assert lines


def test_the_agent_ends_when_the_deployer_disconnects(agent: Agent) -> None:
    agent.ask({"op": "facts"})
    agent.stdin.close()
    assert agent.process.wait(10) == 0


PROGRAMS_PAGE_FAULTS = 8
"""The field after the name in /proc/PID/stat that counts page faults of programs that have ended (proc(5), cminflt)."""


def test_the_agent_when_the_deployer_disconnects_finishes_the_present_resource_and_starts_no_other(
    agent: Agent, root: Path
) -> None:
    # The first resource looks for a file again and again, by a program, until the test makes it.
    wait = {"kind": "left-file", "directory": "/etc", "file": "go", "seconds": 30}
    request = {"op": "apply", "dry_run": True, "root": str(root), "resources": [wait, file("/etc/b")]}
    agent.send(request)
    process, deadline = Path(f"/proc/{agent.process.pid}"), time.monotonic() + 10
    while (process / "stat").read_text().rpartition(")")[2].split()[PROGRAMS_PAGE_FAULTS] == "0":
        assert time.monotonic() < deadline, "the agent has run no program"
    before = len(list((process / "task").iterdir()))
    agent.stdin.close()
    # The thread that listens ends once it has seen the end of stdin, and not before that may the resource go on.
    while len(list((process / "task").iterdir())) == before:
        assert time.monotonic() < deadline, "the agent has not seen the end of its input"
    (root / "etc/go").touch()
    lines = [json.loads(line) for line in agent.stdout.read().splitlines()]
    assert agent.process.wait(10) == 0
    assert [line["outcome"]["id"] for line in lines if "outcome" in line] == ["left-file:/etc/go"]


def test_sigterm_ends_an_idle_agent_with_exit_code_0(agent: Agent) -> None:
    agent.ask({"op": "facts"})
    agent.process.send_signal(signal.SIGHUP)
    agent.ask({"op": "facts"})
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(10) == 0


def test_a_second_run_is_refused_with_the_name_of_the_first(
    agent: Agent, start_agent: Callable[[], Agent], root: Path
) -> None:
    agent.apply(root, file("/etc/a"))
    other = start_agent()
    (line,) = other.apply(root, file("/etc/a"))
    assert (line["error"], line["holder"]) == ("another run is in progress here: a test", "a test")
    assert other.apply(root, file("/etc/a"), dry_run=True)[0]["status"] == "ok"
    agent.process.kill()
    agent.process.wait()
    assert other.apply(root, file("/etc/a"))[0]["status"] == "ok"


def test_a_request_for_the_lock_alone_answers_when_another_run_released_it(
    agent: Agent, start_agent: Callable[[], Agent], root: Path
) -> None:
    assert agent.apply(root) == [{"lock": {"idle": None}}]
    agent.stdin.close()
    assert agent.process.wait(10) == 0
    lock = root / "run/slurmfab.lock"
    os.utime(lock, (lock.stat().st_atime, lock.stat().st_mtime - 1000))
    (line,) = start_agent().apply(root)
    assert 1000 <= line["lock"]["idle"] < 1100


def test_an_agent_that_ends_leaves_the_time_of_its_end_in_the_lock(agent: Agent, root: Path) -> None:
    agent.apply(root, file("/etc/a"))
    lock = root / "run/slurmfab.lock"
    begun = lock.stat().st_mtime
    os.utime(lock, (begun - 1000, begun - 1000))
    agent.stdin.close()
    assert agent.process.wait(60) == 0
    assert lock.stat().st_mtime >= begun


@ROOTS
def test_an_empty_frame_is_a_heartbeat_and_gets_no_answer(agent: Agent) -> None:
    agent.stdin.write(b"0\n0\n")
    (line,) = agent.ask({"op": "facts"})
    assert "facts" in line


class Clock:
    """Time that passes only while somebody sleeps; at the end of that the deployer may send a heartbeat."""

    def __init__(self, beats: Iterator[Callable[[], None]]) -> None:
        self.now = 1000.0
        self.beats = beats

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        next(self.beats, lambda: None)()


def test_a_deployer_without_heartbeats_counts_as_disconnected_and_one_with_heartbeats_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, write = os.pipe()
    left: list[float] = []
    with os.fdopen(read, "rb") as reader, os.fdopen(write, "wb", buffering=0) as deployer:

        def beat() -> None:
            deployer.write(b"0\n")
            deadline = time.monotonic() + 30
            while deployer_heard.heard != clock.now:
                assert time.monotonic() < deadline, "the heartbeat is not noticed"

        clock = Clock(iter([beat, beat]))
        monkeypatch.setattr(lifeline, "time", clock)
        deployer_heard = Lifeline(reader, lambda: left.append(clock.now), 60)
        listens = threading.Thread(target=deployer_heard.listen)
        listens.start()
        deployer_heard.watch()
        assert left == [1000 + 3 * 60]
        deployer.close()
        listens.join()


def test_an_agent_whose_deployer_sends_no_heartbeats_releases_the_lock_and_ends(root: Path) -> None:
    silent = BOOT.replace(
        'm["run"](s)', '__import__("slurmfab.on_hosts.agent.main").on_hosts.agent.main.serve(i,sys.stdout.buffer,0.5)'
    )
    silent = silent.replace("os._exit(", 'sys.meta_path.insert(0,m["Sources"](s));os._exit(')
    process = subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", silent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    request = {"op": "apply", "dry_run": False, "root": str(root), "who": "a test", "resources": []}
    body = json.dumps(request).encode()
    process.stdin.write(b"%d\n%s%d\n%s" % (len(payload()), payload(), len(body), body))
    process.stdin.flush()
    assert process.wait(10) == 0
    assert (root / "run/slurmfab.lock").read_text() == "a test" + INTERRUPTED
    with (root / "run/slurmfab.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_an_agent_at_a_long_request_sends_signs_of_life_that_name_the_work_and_its_age() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "wb") as stream, os.fdopen(read, "rb") as reader:
        answers = Answers(stream)
        answers.begin("apply")
        with KeepAlive(answers, 0.01):
            first = json.loads(reader.readline())
            answers.begin("packages:munge")
            while (sign := json.loads(reader.readline()))["at"] == "apply":
                assert sign["alive"]
            older = next(line for line in map(json.loads, reader) if line["seconds"] > sign["seconds"])
    assert (first["alive"], first["at"]) == (True, "apply")
    assert (sign["at"], older["at"]) == ("packages:munge", "packages:munge")


def test_an_old_python_when_it_gets_the_payload_is_named() -> None:
    old = BOOT.replace("import json,os,sys,zlib;", "import json,os,sys,zlib;sys.version_info=(3,6);")
    sent = b"%d\n%s" % (len(payload()), payload())
    done = subprocess.run([sys.executable, "-I", "-B", "-c", old], input=sent, capture_output=True, check=False)
    lines = done.stdout.decode().splitlines()
    assert json.loads(lines[1])["error"] == "this host's python3 is 3.6, and slurmfab needs 3.9 or later"
    assert done.returncode == 3


def test_an_agent_forgets_the_variables_of_slurm_that_a_login_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_CONF", "SBATCH_ACCOUNT", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "/opt/x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    forget(SITE_SETTINGS)
    assert not [name for name in os.environ if name.startswith(SITE_SETTINGS)]
    assert os.environ["HTTPS_PROXY"] == "http://proxy"


def test_an_agent_when_it_begins_with_umask_0_in_a_directory_of_others_then_it_works_with_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.umask(0)
    agent = Agent()
    os.umask(before)
    try:
        agent.ask({"op": "lock-copy", "root": str(tmp_path)})
        status = Path(f"/proc/{agent.process.pid}/status").read_text()
        assert "Umask:\t0022" in status
        assert Path(f"/proc/{agent.process.pid}/cwd").readlink() == Path("/")
    finally:
        agent.end()
