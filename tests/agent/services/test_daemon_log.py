"""The last words of a daemon: its own errors since its start, wherever it writes them, and not systemd's."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.agent.core.resource import Context
from slurmfab.agent.services import daemon_log


class Journal(Context):
    """A host with these lines in the journal: a daemon's own, and systemd's about its unit."""

    def __init__(self, root: Path, own: str = "", about: str = "") -> None:
        super().__init__(str(root))
        self.own, self.about = own, about

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        said = self.own if any(word.startswith("_SYSTEMD_UNIT=") for word in argv) else self.about
        return subprocess.CompletedProcess(argv, 0, said.encode(), b"")


def conf(root: Path, name: str, text: str) -> None:
    (root / "etc/slurm").mkdir(exist_ok=True)
    (root / "etc/slurm" / name).write_text(text)


@pytest.mark.parametrize(
    ("unit", "file", "path"),
    [
        ("slurmctld", ("slurm.conf", "SlurmctldLogFile=/srv/log/ctl.log\n"), "/srv/log/ctl.log"),
        ("slurmctld", ("slurm.conf", "#SlurmctldLogFile=/no\nslurmctldlogfile = /a.log # ours\n"), "/a.log"),
        ("slurmdbd", ("slurmdbd.conf", "LogFile=/srv/dbd.log\n"), "/srv/dbd.log"),
        ("slurmd", ("slurm.conf", "ClusterName=lab\n"), "/var/log/slurm/slurmd.log"),
        ("munge", ("slurm.conf", ""), "/var/log/munge/munged.log"),
        ("mariadb", ("slurm.conf", ""), ""),
    ],
)
def test_the_log_of_a_daemon_is_where_its_configuration_says(
    root: Path, context: Context, unit: str, file: tuple[str, str], path: str
) -> None:
    conf(root, *file)
    assert daemon_log.log_file(context, unit) == path


def test_the_name_of_a_host_in_the_path_of_its_log_is_filled_in(root: Path, context: Context) -> None:
    conf(root, "slurm.conf", "SlurmdLogFile=/var/log/slurm/%n.log\n")
    assert "%" not in daemon_log.log_file(context, "slurmd")


def test_the_errors_of_this_start_are_told_and_not_those_before_or_what_systemd_says(root: Path) -> None:
    host = Journal(root, own="slurmctld: error: in the journal, too", about="slurmctld.service: Failed with result")
    log = root / "var/log/slurm/slurmctld.log"
    log.parent.mkdir(parents=True)
    log.write_text("[2026-01-01T00:00:00.000] fatal: long ago\n")
    before = daemon_log.position(host, "slurmctld")
    with log.open("a") as file:
        for line in ("error: a", "error: cannot find sched plugin", "debug: x", "fatal: Failed to initialize sched"):
            file.write(f"[2026-01-02T00:00:00.000] {line}\n")
        file.write("[2026-01-02T00:00:01.000] error: while it ends\n")
    assert daemon_log.last_words(host, "slurmctld", before) == [
        "error: a", "error: cannot find sched plugin", "fatal: Failed to initialize sched"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("own", "about", "words"),
    [
        ("slurmd: fatal: no NodeName\nfatal: no NodeName\n", "Failed to start", ["fatal: no NodeName"]),
        ("slurmd: started\n", "Failed to start slurmd", ["Failed to start slurmd"]),
        ("", "", ["it left no message; see: systemctl status slurmd"]),
    ],
)
def test_a_daemon_that_ends_before_it_knows_its_log_has_its_last_words_in_the_journal(
    root: Path, own: str, about: str, words: list[str]
) -> None:
    host = Journal(root, own, about)
    assert daemon_log.last_words(host, "slurmd", daemon_log.position(host, "slurmd")) == words


def test_errors_of_munged_begin_with_the_time_which_is_left_out() -> None:
    assert daemon_log.last_errors(["2026-01-01 00:00:00 +0000 Error:     Keyfile is insecure"]) == [
        "Error:     Keyfile is insecure"
    ]
