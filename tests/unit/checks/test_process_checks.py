"""The checks of how daemons were started: each way in which one of the check's sentences is false, and it fails."""

from __future__ import annotations

import re

import pytest
from ruled_shells import RuledShell, file, process, unit

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import test_daemons
from slurmfab.commands.checks.applies import kind_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import Remark
from slurmfab.core.impact.drift_kinds import CRASHED

SITE = "/etc/systemd/system/slurmd.service.d/site.conf"
SYSTEMD = {
    "FragmentPath": "/usr/lib/systemd/system/slurmd.service",
    "DropInPaths": "/etc/systemd/system/slurmd.service.d/10-slurmfab.conf",
    "NRestarts": "0",
    "MemoryMax": "infinity",
    "TasksMax": "infinity",
}
JOURNAL = "slurmd.service: Main process exited, code=killed, status=9/KILL\n"


def node(  # noqa: PLR0917 - one argument for each thing that can be wrong
    program: str = "/usr/sbin/slurmd-wlm",
    user: str = "root",
    words: str = "slurmd -D",
    files: str = "131072",
    most: str = "524288",
    variable: str = "",
    threads: str = "infinity",
    journal: str = JOURNAL,
    log: str = "",
    **shown: str,
) -> CheckedHost:
    """A compute node whose slurmd was started so, of which systemd tells this; its munged is sound."""
    rules = {
        **unit("munge", MainPID="6"),
        **process(6, "/usr/sbin/munged", "munge"),
        "^realpath /usr/sbin/munged$": "/usr/sbin/munged",
        **unit("slurmd", **{**SYSTEMD, **shown}),
        **process(7, program, user, words=words, files=files, environ=f"SLURM_CONF={variable}" if variable else ""),
        "^test -e /usr/sbin/slurmd$": "",
        "^boot=.*/var/log/slurmd/slurmd.log": log,
        "^realpath /usr/sbin/slurmd$": "/usr/sbin/slurmd-wlm",
        **file("/lib/systemd/system/slurmd.service", f"[Service]\nLimitNOFILE=131072\nTasksMax={threads}\n"),
        "^realpath /(etc/slurm|opt)/slurm.conf$": lambda command: command.split()[-1],
        **process(1, "/sbin/init", "root", files=most),
        "^journalctl": journal,
    }
    return CheckedHost("n1", RuledShell(rules))


def test_daemons_that_were_started_as_packaged_pass(known: Inventory) -> None:
    test_daemons.test_daemons_run_as_packaged(node(), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(words="slurmd -f /etc/slurm/slurm.conf"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node("/usr/sbin/slurmd-wlm (deleted)"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(files="20000", most="20000"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(variable="/run/slurm/conf/slurm.conf"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(variable="/var/spool/slurmd/conf-cache/slurm.conf"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(threads="", TasksMax="4915"), known.cluster)
    test_daemons.test_no_daemon_has_crashed(node(), known.cluster, known.lock)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"program": "/opt/slurm/slurmd"}, "slurmd runs /opt/slurm/slurmd and not /usr/sbin/slurmd-wlm"),
        ({"words": "slurmd -D -f /opt/slurm.conf"}, "reads /opt/slurm.conf and not /etc/slurm/slurm.conf"),
        ({"user": "slurm"}, "runs as slurm and not as root"),
        ({"variable": "/opt/slurm.conf"}, "has SLURM_CONF=/opt/slurm.conf in its environment and reads that"),
        ({"MemoryMax": "1048576"}, "may use 1048576 bytes of memory (MemoryMax), and is killed beyond that"),
        ({"TasksMax": "20"}, "may have 20 threads, where its package's unit allows any number"),
        ({"files": "1024"}, "may open 1024 files, where its package's unit allows 131072"),
    ],
)
def test_a_daemon_that_was_started_otherwise_is_told_with_the_sites_file(
    known: Inventory, shown: dict[str, str], words: str
) -> None:
    with pytest.raises(AssertionError) as told:
        test_daemons.test_daemons_run_as_packaged(node(**shown, DropInPaths=SITE), known.cluster)
    assert words in str(told.value)
    assert f"({SITE})" in str(told.value)


@pytest.mark.parametrize(
    "shown",
    [
        {"DropInPaths": SITE},
        {"FragmentPath": "/etc/systemd/system/slurmd.service"},
    ],
)
def test_a_sites_file_that_changes_nothing_of_that_is_named_and_no_failure(
    known: Inventory, shown: dict[str, str]
) -> None:
    with pytest.raises(Remark, match=next(iter(shown.values()))):
        test_daemons.test_daemons_run_as_packaged(node(**shown), known.cluster)


FATAL = "slurmctld: fatal: no association data\n"
EXITED = "slurmd.service: Main process exited, code=exited, status=1/FAILURE\n"


@pytest.mark.parametrize(
    ("journal", "log", "words"),
    [
        (JOURNAL, FATAL, "(code=killed, status=9/KILL)"),
        (FATAL + EXITED, "fatal: another\n", "(code=exited, status=1/FAILURE; fatal: no association data)"),
        (FATAL + EXITED + JOURNAL, "", "(code=killed, status=9/KILL)"),
        (JOURNAL + EXITED, "", "(code=exited, status=1/FAILURE)"),
        (EXITED, f"fatal: older\n{FATAL}", "(code=exited, status=1/FAILURE; fatal: no association data)"),
        (FATAL, "", ". Repair: "),
    ],
)
def test_a_crash_is_told_with_its_end_and_what_the_daemon_said_of_it(
    known: Inventory, journal: str, log: str, words: str
) -> None:
    host = node(NRestarts="2", journal=journal, log=log)
    with pytest.raises(AssertionError, match=re.escape(f"slurmd 2 times{words if words[0] == '.' else f' {words}.'}")):
        test_daemons.test_no_daemon_has_crashed(host, known.cluster, known.lock)


def test_a_crash_is_a_kind_of_drift(known: Inventory) -> None:
    with pytest.raises(AssertionError) as told:
        test_daemons.test_no_daemon_has_crashed(node(NRestarts="2"), known.cluster, known.lock)
    assert kind_of(told.value) == CRASHED


def test_a_daemon_that_does_not_run_is_left_to_another_check(known: Inventory) -> None:
    test_daemons.test_daemons_run_as_packaged(node(MainPID="0", ActiveState="inactive"), known.cluster)
