"""A cluster that is saved while it works, loses its controller for good, and goes on where it was on a new one."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import SUITES, Stock
from lab_cluster import PROGRAM, DeployedLab, program
from lab_user import words_of

from slurmfab import lab
from slurmfab.backup import archive

pytestmark = pytest.mark.lab

PIDS = "systemctl show --property=MainPID --value {}"
RECORD = "sacct --noheader --allocations --parsable2 --format=JobID,State --jobs={}"
UNTIL_TOLD = "sbatch --parsable -o /dev/null --wrap 'until [ -e /tmp/end-{} ]; do sleep 0.1; done'"
OF_THE_NODE = (
    "systemctl show --property=MainPID slurmd munge; "
    "stat --format='%n %Z' /etc/slurm/*.conf /etc/munge/munge.key; pgrep -fx 'slurmstepd: .*batch.*'"
)
"""What of a compute node has to stay as it is: its daemons, their files, and the jobs' own processes."""

MODES = "find /var/lib/slurm/slurmctld -mindepth 1 ! -name clustername -perm /077"
CLOSED = "stat --format='%a %U' /var/lib/slurm/slurmctld"
STRANGERS = "find /var/lib/slurm/slurmctld ! -user slurm"
STAGING = "ls /var/lib/slurmfab | grep restoring"


@dataclass
class Story:
    """A cluster with accounting that has had three jobs, runs one, and keeps one pending.

    Args:
        hosts: the lab.
        place: an empty directory, for somebody who has nothing but the archive.
        done: numbers of the jobs that have ended.
        running: of the one that runs.
        pending: of the one that is held.
        mark: what tells the cluster from others of its name.
    """

    hosts: DeployedLab
    place: Path
    done: tuple[str, ...] = ()
    running: str = ""
    pending: str = ""
    mark: str = ""

    def on(self, host: str, script: str) -> str:
        return self.hosts.on(host, script, check=False)

    def submit(self, script: str) -> str:
        return self.hosts.on("ctl", f"cd /tmp && {script}")

    def slurmfab(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run slurmfab with the lab's cluster file."""
        return self.hosts.slurmfab(*words)

    @property
    def backups(self) -> Path:
        return archive.directory(self.hosts.inventory_path)

    @property
    def newest(self) -> Path:
        return archive.all_in(self.backups)[-1]

    def elsewhere(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run slurmfab in the empty directory."""
        return program(*words, cwd=self.place)

    @property
    def cluster_file(self) -> Path:
        return self.place / "configs/cluster.yaml"


@pytest.fixture(scope="module", params=SUITES)
def story(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with stock.copy(request.param, database=True, nodes=1) as hosts:
        with hosts.inventory_path.open("a") as file:
            file.write("database: ctl\n")
        hosts.deploy()
        told = Story(hosts, tmp_path_factory.mktemp("elsewhere"))
        told.done = tuple(told.submit("sbatch --parsable -o /dev/null --wrap true") for _ in range(3))
        told.running = told.submit(UNTIL_TOLD.format("first"))
        told.pending = told.submit("sbatch --parsable --hold -o /dev/null --wrap true")
        hosts.until("ctl", RECORD.format(",".join(told.done)), "\n".join(f"{job}|COMPLETED" for job in told.done))
        hosts.until("ctl", f"squeue -h -j {told.running} -o %T", "RUNNING")
        told.mark = hosts.on("ctl", "cat /var/lib/slurm/slurmctld/clustername")
        yield told


def test_a_backup_when_it_is_made_then_it_is_private_and_whole_and_the_daemons_and_jobs_go_on(story: Story) -> None:
    daemons = PIDS.format("slurmctld slurmdbd mariadb")
    before = story.on("ctl", daemons)
    done = story.slurmfab("backup")
    assert done.returncode == 0, words_of(done)
    assert f"the last job is {story.pending}, 2 not ended" in done.stdout
    assert f"fab restore {story.newest}" in done.stdout
    assert story.on("ctl", daemons) == before
    assert story.on("ctl", f"squeue -h -j {story.running} -o %T") == "RUNNING"
    assert stat.S_IMODE(story.newest.stat().st_mode) == 0o600
    assert stat.S_IMODE(story.backups.stat().st_mode) == 0o700
    saved = archive.verified(story.newest)
    assert saved.jobs == {int(story.running), int(story.pending)}
    assert set(saved.parts) == {
        "cluster.yaml", "cluster.lock.json", "munge.key", "etc-slurm.tar.gz", "state.tar.gz", "database.sql.gz",
    }  # fmt: skip


def test_two_backups_when_they_are_made_at_once_then_both_are_whole(story: Story, tmp_path: Path) -> None:
    words = [*PROGRAM, "backup", "--to", f"{tmp_path}/", "--cluster", str(story.hosts.inventory_path)]
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [one.wait(timeout=60) for one in both] == [0, 0]
    assert len([archive.verified(path) for path in archive.all_in(tmp_path)]) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_a_backup_when_the_database_is_down_then_it_says_so_and_nothing_is_left_of_it(story: Story) -> None:
    before = sorted(story.backups.iterdir())
    story.on("ctl", "systemctl stop mariadb")
    try:
        refused = story.slurmfab("backup")
    finally:
        story.hosts.on("ctl", "systemctl start mariadb")
    assert refused.returncode == 1
    assert "mariadb-dump ended with exit code" in words_of(refused)
    assert sorted(story.backups.iterdir()) == before


def test_a_damaged_archive_when_it_is_to_be_restored_then_it_is_refused(story: Story, tmp_path: Path) -> None:
    content = bytearray(story.newest.read_bytes())
    content[len(content) // 2] ^= 1
    broken, short = tmp_path / "broken.tar", tmp_path / "short.tar"
    broken.write_bytes(content)
    short.write_bytes(story.newest.read_bytes()[:-9000])
    for path in (broken, short):
        refused = story.slurmfab("restore", str(path))
        assert refused.returncode == 2
        assert "Nothing was changed" in words_of(refused)


def test_a_live_cluster_when_it_has_later_jobs_then_it_is_left_alone_and_they_are_named(story: Story) -> None:
    later = story.submit(UNTIL_TOLD.format("later"))
    story.hosts.until("ctl", f"squeue -h -j {later} -o %T", "RUNNING")
    refused = story.slurmfab("restore", str(story.newest))
    assert refused.returncode == 1
    assert f"jobs up to {later}" in words_of(refused)
    assert f"Not in the backup: job {later} on n1" in words_of(refused)
    refused = story.slurmfab("restore", str(story.newest), "--overwrite")
    assert (refused.returncode, "--abandon-jobs" in words_of(refused)) == (1, True)
    assert story.on("ctl", f"squeue -h -j {later} -o %T") == "RUNNING"
    story.hosts.on("n1", "touch /tmp/end-later")
    story.hosts.until("ctl", RECORD.format(later), f"{later}|COMPLETED")


def test_a_controller_that_was_reinstalled_when_a_backup_is_restored_then_jobs_and_history_go_on(story: Story) -> None:
    before = story.hosts.on("n1", OF_THE_NODE)
    lab.reinstall_host(story.hosts.lab, "ctl")
    assert story.on("ctl", "ls /var/lib/slurm /etc/slurm") == ""

    refused = story.elsewhere("restore", str(story.newest))
    assert refused.returncode == 2
    assert "ctl: it shows another SSH host key than before." in words_of(refused)
    assert list(story.place.iterdir()) == []

    done = story.elsewhere("restore", str(story.newest), "--accept-new-host-keys")
    assert done.returncode == 0, words_of(done)
    assert story.hosts.on("n1", OF_THE_NODE) == before
    assert story.hosts.on("ctl", "cat /var/lib/slurm/slurmctld/clustername") == story.mark
    ended = story.hosts.on("ctl", RECORD.format(",".join(story.done)))
    assert ended.split() == [f"{job}|COMPLETED" for job in story.done]
    assert story.hosts.on("ctl", f"squeue -h -j {story.running} -o %T") == "RUNNING"
    assert story.hosts.on("ctl", f"squeue -h -j {story.pending} -o '%T %r'") == "PENDING JobHeldUser"
    for nothing in (MODES, STRANGERS, STAGING):
        assert story.on("ctl", nothing) == ""
    assert story.hosts.on("ctl", CLOSED) == "700 slurm"

    story.hosts.on("ctl", f"scontrol release {story.pending}")
    story.hosts.on("n1", "touch /tmp/end-first")
    following = story.submit("sbatch --parsable -o /dev/null --wrap true")
    assert int(following) == int(story.pending) + 1
    jobs = (story.running, story.pending, following)
    story.hosts.until("ctl", RECORD.format(",".join(jobs)), "\n".join(f"{job}|COMPLETED" for job in jobs))
    again = story.elsewhere("deploy")
    assert "nothing changed" in words_of(again), words_of(again)


def test_backups_by_a_timer_when_it_is_run_then_they_are_private_and_whole_and_the_oldest_go(
    story: Story, tmp_path: Path
) -> None:
    text = story.cluster_file.read_text()
    story.cluster_file.write_text(f"{text}backup: {{directory: /srv/saved, when: '03:30', keep: 2}}\n")
    assert story.elsewhere("deploy").returncode == 0
    assert "nothing changed" in words_of(story.elsewhere("deploy"))
    assert story.hosts.on("ctl", "systemctl is-enabled slurmfab-backup.timer") == "enabled"
    for number in (1, 2, 2):
        story.hosts.on("ctl", "systemctl start slurmfab-backup")
        assert len(story.hosts.on("ctl", "ls -A /srv/saved").split()) == number
    assert story.hosts.on("ctl", "stat --format='%a %U' /srv/saved /srv/saved/*") == "700 root\n600 root\n600 root"
    newest = story.hosts.on("ctl", "ls /srv/saved").split()[-1]
    copied = tmp_path / newest
    copied.write_bytes(base64.b64decode(story.hosts.on("ctl", f"base64 /srv/saved/{newest}")))
    assert {"state.tar.gz", "database.sql.gz", "munge.key"} <= set(archive.verified(copied).parts)

    checked = story.elsewhere("check-cluster", "--only", "backups", "--json", "-")
    assert (checked.returncode, json.loads(checked.stdout)["passed"] > 0) == (0, True), words_of(checked)
    story.hosts.on("ctl", "systemctl stop mariadb; ! systemctl start slurmfab-backup; systemctl start mariadb")
    failed = story.elsewhere("check-cluster", "--only", "backups")
    assert (failed.returncode, "the last backup failed" in words_of(failed)) == (1, True)

    story.cluster_file.write_text(text)
    assert story.elsewhere("deploy").returncode == 0
    assert (
        story.on("ctl", "systemctl list-unit-files --no-legend 'slurmfab-backup.*'; ls /usr/local/lib/slurmfab") == ""
    )
    assert len(story.hosts.on("ctl", "ls /srv/saved").split()) == 2
    assert "nothing changed" in words_of(story.elsewhere("deploy"))
