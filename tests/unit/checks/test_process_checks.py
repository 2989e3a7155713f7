"""The checks of how daemons were started: each way in which one of the check's sentences is false, and it fails."""

from __future__ import annotations

import pytest
from ruled_shells import RuledShell

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import test_daemons
from slurmfab.commands.checks.drifted import kind_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.release import Remark
from slurmfab.core.impact.drift_kinds import CRASHED

SOUND = {
    "Id": "slurmd.service",
    "MainPID": "7",
    "FragmentPath": "/usr/lib/systemd/system/slurmd.service",
    "DropInPaths": "/etc/systemd/system/slurmd.service.d/10-slurmfab.conf",
    "NRestarts": "0",
    "program": "/usr/sbin/slurmd-wlm",
    "exe": "/usr/sbin/slurmd-wlm",
    "named": "",
    "user": "root",
    "files": "131072",
    "most": "524288",
    "least": "131072",
    "threads": "infinity",
    "MemoryMax": "infinity",
    "TasksMax": "infinity",
    "variable": "",
}
JOURNAL = "slurmd.service: Main process exited, code=killed, status=9/KILL\n"


def node(**shown: str) -> CheckedHost:
    """A compute node whose slurmd was started so; its munged is sound."""
    munged = {"Id": "munge.service", "program": "/usr/sbin/munged", "exe": "/usr/sbin/munged", "user": "munge"}
    units = ({**SOUND, **munged, "least": ""}, {**SOUND, **shown})
    text = "\n\n".join("\n".join(f"{key}={value}" for key, value in one.items()) for one in units)
    return CheckedHost("n1", RuledShell({"for unit in": text, "^journalctl": JOURNAL}))


def test_daemons_that_were_started_as_packaged_pass(known: Inventory) -> None:
    test_daemons.test_daemons_run_as_packaged(node(), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(named="/etc/slurm/slurm.conf"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(exe="/usr/sbin/slurmd-wlm (deleted)"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(files="20000", most="20000"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(variable="/run/slurm/conf/slurm.conf"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(variable="/var/spool/slurmd/conf-cache/slurm.conf"), known.cluster)
    test_daemons.test_daemons_run_as_packaged(node(threads="", TasksMax="4915"), known.cluster)
    test_daemons.test_no_daemon_has_crashed(node(), known.cluster)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({"exe": "/opt/slurm/slurmd"}, "slurmd runs /opt/slurm/slurmd and not /usr/sbin/slurmd-wlm"),
        ({"named": "/opt/slurm.conf"}, "reads /opt/slurm.conf and not /etc/slurm/slurm.conf"),
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
    site = "/etc/systemd/system/slurmd.service.d/site.conf"
    with pytest.raises(AssertionError) as told:
        test_daemons.test_daemons_run_as_packaged(node(**shown, DropInPaths=site), known.cluster)
    assert words in str(told.value)
    assert f"({site})" in str(told.value)


@pytest.mark.parametrize(
    "shown",
    [
        {"DropInPaths": "/etc/systemd/system/slurmd.service.d/site.conf"},
        {"FragmentPath": "/etc/systemd/system/slurmd.service"},
    ],
)
def test_a_sites_file_that_changes_nothing_of_that_is_named_and_no_failure(
    known: Inventory, shown: dict[str, str]
) -> None:
    with pytest.raises(Remark, match=next(iter(shown.values()))):
        test_daemons.test_daemons_run_as_packaged(node(**shown), known.cluster)


def test_a_crash_is_told_with_its_end(known: Inventory) -> None:
    with pytest.raises(AssertionError, match=r"slurmd 2 times \(code=killed, status=9/KILL\)") as told:
        test_daemons.test_no_daemon_has_crashed(node(NRestarts="2"), known.cluster)
    assert kind_of(told.value) == CRASHED


def test_a_daemon_that_does_not_run_is_left_to_another_check(known: Inventory) -> None:
    test_daemons.test_daemons_run_as_packaged(node(exe="", user="", files=""), known.cluster)
