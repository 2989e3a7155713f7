"""Processes that use Slurm's files, from a scratch /proc: whose they are, and whether the files were replaced."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.upgrade import slurm_users
from slurmfab.on_hosts.agent.upgrade.slurm_users import SlurmUser

LIBRARY = "/usr/lib/x86_64-linux-gnu/slurm-wlm/libslurmfull.so"
FILES = frozenset({LIBRARY, "/usr/sbin/slurmrestd"})
MAPS = """\
55e0a4a00000-55e0a4a10000 r-xp 00000000 00:2f 1311 /usr/bin/python3.13
7f0c00001000-7f0c00011000 r-xp 00000000 00:2f 1312 {}
7f0c00011000-7f0c00021000 r--p 00011000 00:2f 1312 /usr/share/locale/slurm (deleted)
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]
"""
SERVICE, SESSION = "0::/system.slice/{}.service\n", "0::/user.slice/user-1000.slice/session-3.scope\n"
HYBRID = "4:memory:/lab/n1/system.slice/{0}.service\n1:name=systemd:/system.slice/{0}.service\n0::/\n"


class Host(Context):
    """A host whose systemd knows units, each with its main process and KillMode."""

    def __init__(self, root: Path, **units: tuple[int, str]) -> None:
        super().__init__(str(root))
        self.units_there = units
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc/passwd").write_text("ann:x:1000:1000::/home/ann:/bin/bash\n")

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        shown = [self.units_there.get(unit, (0, "control-group")) for unit in argv[argv.index("--") + 1 :]]
        printed = "\n\n".join(f"MainPID={pid}\nKillMode={mode}" for pid, mode in shown)
        return subprocess.CompletedProcess(argv, 0, printed.encode(), b"")


def process(root: Path, pid: int, library: str, cgroup: str, comm: str = "python3") -> None:
    place = root / "proc" / str(pid)
    place.mkdir(parents=True)
    (place / "maps").write_text(MAPS.format(library))
    (place / "cgroup").write_text(cgroup)
    (place / "comm").write_text(comm + "\n")
    (place / "status").write_text("Uid:\t1000\t1000\t1000\t1000\n")
    (place / "root").symlink_to(root)


def test_services_of_any_user_are_told_before_and_after_their_files_were_replaced(tmp_path: Path) -> None:
    process(tmp_path, 10, LIBRARY, SERVICE.format("slurmrestd"), "slurmrestd")
    process(tmp_path, 11, LIBRARY + " (deleted)", HYBRID.format("sites-own"))
    process(tmp_path, 12, "/usr/lib/x86_64-linux-gnu/libslurm.so.42.0.0 (deleted)", SESSION)
    process(tmp_path, 13, "/usr/lib/x86_64-linux-gnu/libssl.so.3 (deleted)", SERVICE.format("cron"))
    process(tmp_path, 14, "/usr/local/lib/slurm-tools/x.so (deleted)", SERVICE.format("tools"))
    assert slurm_users.read(Host(tmp_path), FILES) == [
        SlurmUser(11, "sites-own", "python3", "ann", True),
        SlurmUser(10, "slurmrestd", "slurmrestd", "ann", False),
        SlurmUser(12, "", "python3", "ann", True),
    ]


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n",
        "4:memory:/slurm/uid_1000/job_7/step_batch\n1:name=systemd:/system.slice/slurmd.service\n0::/\n",
    ],
)
def test_jobs_are_left_out_since_they_go_on_with_what_they_began_with(tmp_path: Path, cgroup: str) -> None:
    process(tmp_path, 10, LIBRARY + " (deleted)", cgroup)
    process(tmp_path, 11, LIBRARY + " (deleted)", SERVICE.format("slurmd"), "slurmstepd")
    assert slurm_users.read(Host(tmp_path), FILES) == []


def test_processes_in_containers_have_files_of_their_own(tmp_path: Path) -> None:
    process(tmp_path, 10, LIBRARY + " (deleted)", SERVICE.format("docker"))
    (tmp_path / "proc/10/root").unlink()
    (tmp_path / "proc/10/root").symlink_to("/proc")
    assert slurm_users.read(Host(tmp_path), FILES) == []


def test_sessions_that_outlive_their_service_belong_to_none(tmp_path: Path) -> None:
    process(tmp_path, 21, LIBRARY + " (deleted)", SERVICE.format("ssh"), "sshd")
    process(tmp_path, 31, LIBRARY + " (deleted)", SERVICE.format("gunicorn"), "gunicorn")
    host = Host(tmp_path, ssh=(20, "process"), gunicorn=(30, "control-group"))
    assert [(one.unit, one.program) for one in slurm_users.read(host, FILES)] == [
        ("gunicorn", "gunicorn"),
        ("", "sshd"),
    ]
    assert slurm_users.is_old(host, "gunicorn", 30)
    assert not slurm_users.is_old(host, "ssh", 20)


def test_of_slurms_own_daemons_the_main_process_counts(tmp_path: Path) -> None:
    process(tmp_path, 10, LIBRARY, SERVICE.format("slurmd"), "slurmd")
    process(tmp_path, 11, LIBRARY + " (deleted)", SERVICE.format("slurmd"), "slurmd")
    host = Host(tmp_path)
    assert (slurm_users.is_old(host, "slurmd", 10), slurm_users.is_old(host, "slurmd", 11)) == (False, True)


def test_a_file_with_another_inode_was_replaced(tmp_path: Path) -> None:
    file = tmp_path / "libslurm.so"
    file.write_bytes(b"")
    status = file.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    line = f"7f0c00001000-7f0c00011000 r-xp 00000000 {device} {{}} {file}\n"
    assert list(slurm_users.mapped(line.format(status.st_ino), {str(file)})) == [False]
    assert list(slurm_users.mapped(line.format(status.st_ino + 1), {str(file)})) == [True]
