"""Mounts on a host: what is there, what is refused while somebody uses it, and what systemd is asked to do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import as_sent, failure

from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.mounts import in_use, mount_units
from slurmfab.on_hosts.agent.mounts.mount_point import MountPoint
from slurmfab.on_hosts.agent.mounts.released_mounts import ReleasedMounts

FOLDER = "/etc/systemd/system"
UNIT = f"{FOLDER}/home.mount"
TEXT = "[Unit]\n[Mount]\nWhat=gl:/homes\nWhere=/home\nType=glusterfs\nOptions=_netdev\n\n[Install]\n"
LAZY = TEXT.replace("\n[Install]\n", "")
HOME = MountPoint("/home", "home.mount", "gl:/homes", "glusterfs", 60.0)
ROOT_LINE = "20 1 0:18 / / rw - ext4 /dev/sda1 rw\n"
HOME_LINE = "30 20 0:44 / /home rw shared:1 - fuse.glusterfs gl:homes rw\n"


class Host(Context):
    """A scratch root with a systemd that mounts what it is told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.scratch = root
        self.enabled: set[str] = set()
        self.fails = ""
        self.asked: list[str] = []
        self.required_by = ""
        self.known = "12\n"
        self.mount(ROOT_LINE)

    def mount(self, table: str) -> None:
        place = self.scratch / "proc/self"
        place.mkdir(parents=True, exist_ok=True)
        (place / "mountinfo").write_text(table)

    def process(self, pid: int, command: str, cwd: str, parent: int = 1) -> None:
        place = self.scratch / f"proc/{pid}"
        place.mkdir()
        (place / "cmdline").write_text(command)
        (place / "comm").write_text(f"{command.split(':', maxsplit=1)[0]}\n")
        (place / "stat").write_text(f"{pid} ({command}) S {parent} 0 0")
        uid = 0 if command.startswith("slurmstepd") else 2000
        (place / "status").write_text(f"Name: x\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (place / "exe").symlink_to("/usr/sbin/slurmstepd" if uid == 0 else "/usr/bin/bash")
        (place / "cwd").symlink_to(cwd)

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        words = list(argv)
        self.asked.append(" ".join(words))
        text, code = "", 0
        if words[:2] == ["systemctl", "show"] and "RequiredBy" in words[2]:
            text = f"RequiredBy={self.required_by}\n"
        elif words[:2] == ["systemctl", "show"]:
            text = "\n\n".join(self.shown(unit) for unit in words[words.index("--") + 1 :])
        elif words[:2] == ["systemctl", "enable"]:
            self.enabled.update(words[words.index("--") + 1 :])
        elif words[:2] == ["systemctl", "disable"]:
            self.enabled.discard(words[-1])
        elif words[:2] == ["systemctl", "start"] and self.fails:
            code = 1
        elif words[:2] == ["systemctl", "start"] and words[-1].endswith(".mount"):
            self.mount(ROOT_LINE + HOME_LINE)
        elif words[:2] == ["systemctl", "stop"]:
            self.mount(ROOT_LINE)
        elif words[0] == "journalctl":
            text = self.fails
        elif words[0] == "squeue":
            text = self.known
        return subprocess.CompletedProcess(words, code, text.encode(), b"")

    def shown(self, unit: str) -> str:
        state = "enabled" if unit in self.enabled else "disabled"
        active = "active" if unit == "slurmctld.service" else "inactive"
        return f"LoadState=loaded\nActiveState={active}\nUnitFileState={state}\nNeedDaemonReload=no"

    def write(self, *paths: str) -> None:
        for path, text in [(UNIT, TEXT), *((path, "") for path in paths)]:
            file = self.scratch / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        record = self.scratch / OWNED.lstrip("/") / "mounts.json"
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps({"files": dict.fromkeys([UNIT, *paths]), "directories": []}))


@pytest.fixture
def host(root: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.delenv("SUDO_USER", raising=False)
    return Host(root)


def test_a_mount_when_it_is_missing_is_enabled_and_started_once(host: Host) -> None:
    assert apply(HOME, host).status == "changed"
    assert host.enabled == {"home.mount"}
    assert apply(as_sent(HOME), host).status == "ok"


def test_a_network_mount_has_a_unit_that_tries_again_and_is_mounted_at_once(host: Host) -> None:
    again = MountPoint("/home", "home.mount", "gl:/homes", "glusterfs", 60.0, again="home.automount")
    assert apply(again, host).status == "changed"
    assert host.enabled == {"home.mount", "home.automount"}
    started = [one for one in host.asked if one.startswith("systemctl start")]
    assert started == ["systemctl start -- home.automount", "systemctl start -- home.mount"]


def test_a_mount_of_an_earlier_version_gets_the_unit_that_tries_again_and_stays_mounted(host: Host) -> None:
    host.enabled = {"home.mount"}
    host.mount(ROOT_LINE + HOME_LINE)
    again = MountPoint("/home", "home.mount", "gl:/homes", "glusterfs", 60.0, again="home.automount")
    assert apply(again, host).status == "changed"
    assert host.enabled == {"home.mount", "home.automount"}
    assert not any(one.startswith(("systemctl start", "systemctl stop", "systemctl restart")) for one in host.asked)


def test_a_mount_that_fails_says_why_in_the_words_of_mount(host: Host) -> None:
    host.fails = "Mounting home.mount - /home...\nmount.nfs: Connection refused for gl:/homes on /home\n" + (
        "home.mount: Mount process exited, code=exited, status=32/n/a\nFailed to mount home.mount - /home.\n"
    )
    message = failure(HOME, host)
    assert "mount.nfs: Connection refused for gl:/homes on /home" in message
    assert "Mount process exited" not in message


def test_something_else_that_is_mounted_there_is_left_alone(host: Host) -> None:
    host.mount(ROOT_LINE + HOME_LINE.replace("gl:homes", "old:/homes"))
    outcome = apply(HOME, host)
    assert "old:/homes (fuse.glusterfs) is mounted at /home, and not by slurmfab" in outcome.message
    assert not any("systemctl start" in one for one in host.asked)


def test_the_home_of_the_user_who_logs_in_is_not_hidden(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "root")
    hiding = MountPoint("/root", "root.mount", "gl:/homes", "glusterfs", 60.0)
    assert "the home of root, with whose SSH keys slurmfab logs in" in apply(hiding, host).message


def test_a_client_that_no_package_has_is_asked_for_by_name(host: Host) -> None:
    assert "no package of the distribution has the client of lustre; install lustre-client-modules" in failure(
        MountPoint("/work", "work.mount", "mgs:/work", "lustre", 60.0), host
    )


def test_a_former_mount_is_unmounted_and_does_not_come_back(host: Host) -> None:
    host.write()
    host.enabled = {"home.mount"}
    host.mount(ROOT_LINE + HOME_LINE)
    assert apply(ReleasedMounts(((UNIT, TEXT),)), host).status == "ok"
    assert apply(ReleasedMounts(()), host).status == "changed"
    assert host.enabled == set()
    assert mount_units.mounted_at(mount_units.table(host), "/home") is None


@pytest.mark.parametrize(
    ("files", "is_former"),
    [
        pytest.param(((UNIT, TEXT.replace("[Unit]", "[Unit]\nDescription=x")),), False, id="described otherwise"),
        pytest.param(((UNIT, TEXT.replace("gl:/homes", "nas:/homes")),), True, id="another source"),
        pytest.param(((UNIT, LAZY), (f"{FOLDER}/home.automount", "")), True, id="at its first use"),
        pytest.param(((UNIT, TEXT), (f"{FOLDER}/home.automount", "")), False, id="once more at its next use"),
    ],
)
def test_a_mount_that_changes_is_unmounted_first(host: Host, files: Any, is_former: bool) -> None:
    host.write()
    host.mount(ROOT_LINE + HOME_LINE)
    assert apply(ReleasedMounts(files), host).status == ("changed" if is_former else "ok")


def test_a_mount_that_a_forgotten_step_keeps_is_told_with_the_daemon_and_the_way_out(host: Host) -> None:
    host.write()
    host.mount(ROOT_LINE + HOME_LINE)
    host.known = "13\n"
    host.process(70, "slurmstepd: [12.batch]", "/")
    message = failure(ReleasedMounts(()), host)
    assert "steps of jobs that Slurm has forgotten are left here: 12.batch (slurmstepd with PID 70" in message
    assert "`kill -9 70`" in message


@pytest.mark.parametrize(
    ("use", "who"),
    [
        pytest.param(lambda host: host.process(70, "slurmstepd: [12.batch]", "/"), "job 12 runs here", id="job"),
        pytest.param(lambda host: host.process(71, "bash", "/home/ann"), "bash (PID 71, UID 2000)", id="process"),
        pytest.param(lambda host: setattr(host, "required_by", "slurmctld.service"), "slurmctld.service", id="state"),
    ],
)
def test_a_mount_in_use_is_not_unmounted_and_the_refusal_says_by_whom(
    host: Host, use: Callable[[Host], None], who: str
) -> None:
    host.write()
    host.mount(ROOT_LINE + HOME_LINE)
    use(host)
    message = failure(ReleasedMounts(()), host)
    assert "/home is not unmounted" in message
    assert who in message
    assert not any(" stop " in one for one in host.asked)


def test_processes_elsewhere_do_not_use_it_and_many_are_counted(host: Host) -> None:
    host.process(80, "vim", "/homestead")
    for pid in range(90, 97):
        host.process(pid, "cp", "/home")
    found = in_use.processes(host, "/home")
    assert found[-1] == "and 3 more"
    assert not any("vim" in one for one in found)


def test_nothing_of_the_agent_itself_counts(host: Host) -> None:
    host.process(os.getpid(), "python3", "/home")
    assert in_use.processes(host, "/home") == []
