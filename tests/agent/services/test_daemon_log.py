"""The last words of a daemon: its own errors since its start, wherever it writes them, and not systemd's."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.services import daemon_log

PMIX = "error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library"
CLOSED = "Unable to open logfile `/var/log/slurmd/slurmd.log': Permission denied"


class Journal(Context):
    """A host with these lines in the journal: a daemon's own, and systemd's about its unit."""

    def __init__(self, root: Path, own: str = "", about: str = "") -> None:
        super().__init__(str(root))
        self.own, self.about, self.shown = own, about, ""
        self.asked: list[list[str]] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked.append([*argv])
        said = self.own if any(word.startswith("_SYSTEMD_UNIT=") for word in argv) else self.about
        said = self.shown if argv[0] == "systemctl" else said
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
        (f"slurmd: {PMIX}\n", "slurmd.service: Failed at step CGROUP", ["slurmd.service: Failed at step CGROUP"]),
        (
            f"(null): _log_init: {CLOSED}\nslurmd: {PMIX}\nslurmd: error: slurmd initialization failed\n",
            "Failed to start slurmd",
            [CLOSED, "error: slurmd initialization failed"],
        ),
    ],
)
def test_a_daemon_that_ends_before_it_knows_its_log_has_its_last_words_in_the_journal(
    root: Path, own: str, about: str, words: list[str]
) -> None:
    host = Journal(root, own, about)
    assert daemon_log.last_words(host, "slurmd", daemon_log.position(host, "slurmd")) == words


def test_a_port_that_another_process_has_is_told_with_that_process(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        host = Journal(root, own=f"slurmd: error: Unable to bind listen port ({port}): Address already in use\n")
        words = daemon_log.last_words(host, "slurmd", daemon_log.position(host, "slurmd"))
    assert [words[0].partition(" (")[0], len(words)] == ["error: Unable to bind listen port", 2]
    assert words[1].endswith(f"(PID {os.getpid()}) has port {port}")


def test_the_journal_is_asked_about_this_start_when_all_of_it_is_written(root: Path) -> None:
    host = Journal(root)
    start = daemon_log.position(host, "slurmd")
    daemon_log.last_words(host, "slurmd", start)
    asked = [argv for argv in host.asked if argv[0] == "journalctl"]
    assert asked[0] == ["journalctl", "--sync"]
    assert all(argv[1] == "--sync" or f"--since=@{start.since:.3f}" in argv for argv in asked)


@pytest.mark.parametrize("line", [PMIX, "error: High latency for 1000 calls to gettimeofday(): 656 microseconds"])
def test_a_line_that_a_healthy_start_writes_too_is_never_the_cause(root: Path, line: str) -> None:
    host = Journal(root, about="slurmd.service: Main process exited, status=219/CGROUP")
    log = root / "var/log/slurm/slurmd.log"
    log.parent.mkdir(parents=True)
    start = daemon_log.position(host, "slurmd")
    log.write_text(f"[2199-01-02T00:00:00.000] {line}\n")
    assert daemon_log.last_words(host, "slurmd", start) == ["slurmd.service: Main process exited, status=219/CGROUP"]


def test_a_log_without_a_known_position_is_read_from_the_last_start_on(root: Path) -> None:
    host = Journal(root)
    log = root / "var/log/slurm/slurmdbd.log"
    log.parent.mkdir(parents=True)
    log.write_text("[2000-01-01T00:00:00.000] fatal: long ago\n[2199-01-01T00:00:00.000] fatal: now\n")
    start = daemon_log.Position(str(log), 0, 1e9)
    assert daemon_log.last_words(host, "slurmdbd", start) == ["fatal: now"]


def test_a_drop_in_of_the_site_is_named_with_its_settings_and_without_secrets(root: Path) -> None:
    site = "/etc/systemd/system/slurmd.service.d/site.conf"
    (root / site[1:]).parent.mkdir(parents=True)
    (root / site[1:]).write_text("[Service]\nLimitNOFILE=5\nEnvironment=TOKEN=secret\n")
    packaged, ours = "/usr/lib/systemd/system/slurmd.service.d/debian.conf", site.replace("site", "slurmfab-mounts")
    host = Journal(root, "slurmd: fatal: Too many open files")
    host.shown = f"FragmentPath=/usr/lib/systemd/system/slurmd.service\nDropInPaths={packaged} {ours} {site}\n"
    assert daemon_log.last_words(host, "slurmd", daemon_log.position(host, "slurmd")) == [
        "fatal: Too many open files",
        f"changed by {site} (LimitNOFILE=5, Environment)",
    ]
    host.shown = "FragmentPath=/etc/systemd/system/slurmd.service\nDropInPaths=\n"
    words = daemon_log.last_words(host, "slurmd", daemon_log.position(host, "slurmd"))
    assert words[-1] == (
        "its unit is /etc/systemd/system/slurmd.service, which hides the package's; to do without it: "
        "mv /etc/systemd/system/slurmd.service /root/ && systemctl daemon-reload"
    )


def test_errors_of_munged_begin_with_the_time_which_is_left_out() -> None:
    assert daemon_log.last_errors(["2026-01-01 00:00:00 +0000 Error:     Keyfile is insecure"]) == [
        "Error:     Keyfile is insecure"
    ]


def test_what_follows_the_error_of_a_plugin_is_not_told_in_its_place() -> None:
    lines = [
        "[2026-11-27T20:28:58.600] error: mysql_query failed: 1054 Unknown column 'lft' in 'CHECK'",
        "alter table lab_assoc_table drop lft;",
        "[2026-11-27T20:28:58.601] error: mysql_query failed: 1146 Table 'x' doesn't exist",
        "[2026-11-27T20:28:58.608] error: Couldn't load specified plugin name for accounting_storage/mysql: Plugin "
        "init() callback failed",
        "[2026-11-27T20:28:58.608] error: cannot create accounting_storage context for accounting_storage/mysql",
        "[2026-11-27T20:28:58.608] fatal: Unable to initialize accounting_storage/mysql accounting storage plugin",
    ]
    assert daemon_log.causes(lines) == [
        "error: mysql_query failed: 1054 Unknown column 'lft' in 'CHECK'",
        "error: mysql_query failed: 1146 Table 'x' doesn't exist",
        "fatal: Unable to initialize accounting_storage/mysql accounting storage plugin",
    ]
    assert daemon_log.causes(lines[3:5]) == [line[26:] for line in lines[3:5]]


@pytest.mark.parametrize(
    "line",
    [
        "error: Detected 1 oom-kill event(s) in StepId=6.0. Some of your processes may have been killed",
        "error: Detected 1 oom_kill event in StepId=8.0. Some of the step tasks have been OOM Killed.",
        "[8.0] stepd_cleanup: done with step (rc[0x700]:Unknown error 1792, cleanup_rc[0x0]:No error)",
        "error: slurm_send_node_msg: [socket:[1]] slurm_bufs_sendto(msg_type=SRUN_JOB_COMPLETE) failed: "
        "Connection reset by peer",
        "error: slurm_receive_msg_and_forward: [[n2]:53544] failed: Zero Bytes were transmitted or received",
        "error: service_connection: slurm_receive_msg: Zero Bytes were transmitted or received",
        "error: slurm_receive_msg [10.0.0.7:41122]: Zero Bytes were transmitted or received",
    ],
)
def test_what_a_job_or_a_check_makes_a_daemon_write_is_never_the_cause(line: str) -> None:
    assert daemon_log.causes([f"[2026-11-25T22:00:00.000] {line}"]) == []


def test_a_fatal_error_of_several_lines_is_one_with_all_of_them() -> None:
    first = "fatal: CLUSTER NAME MISMATCH."
    more = ["slurmctld has been started with ClusterName=lab, but read x.", "", "Remove clustername to override."]
    told = f"{first} {more[0]} {more[2]}"
    assert daemon_log.causes([f"slurmctld: {first}", *more, f"[2026-11-25T22:00:00.000] {first}", *more]) == [told]
    after = "[2026-11-25T22:00:01.000] error: and then"
    assert daemon_log.whole([f"[2026-11-25T22:00:00.000] {first}", after, "no more"])[1:] == [after, "no more"]


def test_tables_that_slurmdbd_does_not_find_are_told_with_the_way_back() -> None:
    failed = 'error: mysql_query failed: 1050 Table \'"slurm_acct_db"."table_defs_table"\' already exists'
    assert "fab restore BACKUP" in daemon_log.advice([failed])[0]
    assert daemon_log.advice(["error: mysql_query failed: 1045 Access denied"]) == []
