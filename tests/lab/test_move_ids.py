"""Hosts on which slurm and munge have other numbers: refused, counted, moved, cut off in the middle, moved on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import Person, snapshots, words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

ALL = ("ctl", "n1", "n2")
SLURM, FIRST, SECOND = 1771, 64030, 64031
MUNGE, WANTED_MUNGE, OTHER_MUNGE = 1772, 455, 456

CONTROLLER = f"""
groupadd -g {FIRST} slurm && useradd -M -u {FIRST} -g slurm slurm
groupadd -g {WANTED_MUNGE} munge && useradd -M -u {WANTED_MUNGE} -g munge munge
"""

OLDER_INSTALLATION = f"""
groupadd -g {SLURM} slurm && useradd -d /var/lib/slurm -u {SLURM} -g slurm slurm
groupadd -g {MUNGE} munge && useradd -M -u {MUNGE} -g munge munge
mkdir -p /var/lib/slurm /var/lib/munge /home/kept /srv/memory /srv/theirs
mount -t tmpfs memory /srv/memory
mount -t tmpfs below /srv/theirs && mkdir /srv/theirs/upper /srv/theirs/work
mount -t overlay theirs -o lowerdir=/usr/share/doc,upperdir=/srv/theirs/upper,workdir=/srv/theirs/work /srv/theirs
echo state >/var/lib/slurm/state; echo seed >/var/lib/munge/munge.seed; echo old >/srv/memory/file
cp /bin/true /home/kept/program; ln -s /etc/shadow /home/kept/link; echo theirs >/srv/theirs/file
chown -R slurm:slurm /var/lib/slurm /srv/theirs/file; chown -R munge:munge /var/lib/munge
chown -h slurm:slurm /home/kept/program /home/kept/link; chmod 6755 /home/kept/program
chown slurm:root /srv/memory/file
"""
"""What somebody had on n1 before. Such an overlay is of a type that belongs to containers, and stays as it is."""

LOCAL = "/ /tmp /run /dev/shm $(findmnt -rno TARGET /srv/memory)"
MANY = 30_000
"""Files that take about a second to move."""

MAKE_MANY = f"""
import os
for number in range({MANY}):
    path = "/srv/many/%d/%d" % (number % 30, number)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.close(os.open(path, os.O_CREAT))
    os.chown(path, {FIRST}, {FIRST})
"""
JOBS = "pgrep -x sleep; pgrep -x -P 1 slurmstepd"
"""A job's processes that stay. A slurmstepd below another one is about to become a program of the job, or end."""
AGENTS = "pgrep -f '[p]ython3 -I -B' || true"


@pytest.fixture(scope="module", params=in_turn("move_ids"))
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.bare(request.param, nodes=2) as made:
        made.on("ctl", CONTROLLER)
        made.on("n1", OLDER_INSTALLATION)
        yield made


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person.at(tmp_path)


def carrying(hosts: DeployedLab, host: str, *numbers: int) -> str:
    """All files on a host's local file systems that have one of these numbers as owner or group."""
    tests = " -o ".join(f"-uid {number} -o -gid {number}" for number in numbers)
    return hosts.on(host, f"find {LOCAL} -xdev '(' {tests} ')'")


def test_users_with_other_numbers_on_one_host_when_planned_leave_it_out_with_both_ways_out_and_nothing_is_touched(
    hosts: DeployedLab,
) -> None:
    before = snapshots(hosts, *ALL)
    done = hosts.slurmfab("plan")
    said = words_of(done)
    assert done.returncode == 3
    assert f"n1: user slurm has UID {SLURM} there, but the cluster uses {FIRST}." in said
    assert f"    n1: munge: uid {MUNGE} -> {WANTED_MUNGE}, gid {MUNGE} -> {WANTED_MUNGE}" in said
    assert "--move-ids" in said
    assert "ids: {slurm: NUMBER" in said
    assert snapshots(hosts, *ALL) == before


def test_a_plan_to_move_them_counts_their_files_and_touches_nothing(hosts: DeployedLab) -> None:
    before = snapshots(hosts, *ALL)
    done = ended(hosts.slurmfab("plan", "--move-ids"), 4)
    assert f"uid: {SLURM} -> {FIRST}" in done.stdout
    assert "5 files below /home, /srv, /var (local file systems), 0 processes" in done.stdout
    assert "2 files below /var (local file systems), 0 processes" in done.stdout
    assert snapshots(hosts, *ALL) == before


def test_users_of_whom_a_process_runs_when_their_move_is_planned_then_it_is_named(hosts: DeployedLab) -> None:
    pid = hosts.on("n1", "setpriv --reuid slurm --regid slurm --clear-groups sleep 1000 >/dev/null 2>&1 & echo $!")
    before = snapshots(hosts, *ALL)
    done = hosts.slurmfab("plan", "--move-ids")
    after = snapshots(hosts, *ALL)
    hosts.on("n1", f"kill {pid}")
    assert done.returncode == 1
    assert f"processes run with the number that slurm has here (UID {SLURM}, GID {SLURM}): {pid} (sleep)" in (
        words_of(done)
    )
    assert after == before


def test_users_that_are_moved_keep_all_their_files_and_the_hosts_become_a_cluster(hosts: DeployedLab) -> None:
    done = hosts.slurmfab("deploy", "--move-ids")
    said = words_of(done)
    assert done.returncode == 0, said
    numbers = f"n1: slurm: uid {SLURM} -> {FIRST}, gid {SLURM} -> {FIRST}: "
    assert f"{numbers}5 files below /home, /srv, /var (local file systems), 0 processes" in said
    assert f"{numbers}moved 5 files below /home, /srv, /var (local file systems)" in said
    assert carrying(hosts, "n1", SLURM, MUNGE) == ""
    assert hosts.on("n1", "stat -c %u:%g:%a /home/kept/program") == f"{FIRST}:{FIRST}:6755"
    assert hosts.on("n1", "stat -c %u /home/kept/link /etc/shadow").split() == [str(FIRST), "0"]
    assert hosts.on("n1", "stat -c %u:%g /srv/memory/file") == f"{FIRST}:0"
    assert hosts.on("n1", "stat -c %u /srv/theirs/file") == str(SLURM)
    for host in ALL:
        assert hosts.on(host, "id -u slurm; id -g slurm; id -u munge").split() == [
            str(FIRST),
            str(FIRST),
            str(WANTED_MUNGE),
        ]
    assert sorted(hosts.on("ctl", "cd /tmp && runuser -u nobody -- srun -N2 hostname").split()) == ["n1", "n2"]
    assert hosts.slurmfab("plan", "--move-ids").returncode == 0


@pytest.fixture(scope="module")
def job(hosts: DeployedLab) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """A job on both nodes while users are moved: its number, and its processes by node."""
    number = hosts.on("ctl", "cd /tmp && runuser -u nobody -- sbatch --parsable -N2 --wrap 'srun sleep 1000'")
    for node in ("n1", "n2"):
        hosts.until(node, "pgrep -x sleep >/dev/null && echo runs", "runs")
    yield number, {node: set(hosts.on(node, JOBS).split()) for node in ("n1", "n2")}
    hosts.on("ctl", f"scancel {number}")
    hosts.until("ctl", f"squeue -hj {number} -o %T", "")


def assert_well(hosts: DeployedLab, job: tuple[str, dict[str, set[str]]]) -> None:
    """The job runs on with all its processes, and the cluster takes new ones."""
    number, processes = job
    assert hosts.on("ctl", f"squeue -hj {number} -o %T") == "RUNNING"
    for node, before in processes.items():
        assert before <= set(hosts.on(node, JOBS).split())
    assert sorted(hosts.on("ctl", "cd /tmp && runuser -u nobody -- srun -N2 --oversubscribe hostname").split()) == [
        "n1",
        "n2",
    ]


def test_a_saved_plan_that_moves_a_user_of_running_daemons_is_done_as_shown_and_jobs_go_on(
    hosts: DeployedLab, job: tuple[str, dict[str, set[str]]], tmp_path: Path
) -> None:
    text = hosts.inventory_path.read_text()
    hosts.inventory_path.write_text(f"{text}ids: {{slurm: {FIRST}, munge: {OTHER_MUNGE}}}\n")
    refused = ended(hosts.slurmfab("deploy"), 1)
    assert f"ctl,n[1-2]: munge: uid {WANTED_MUNGE} -> {OTHER_MUNGE}" in words_of(refused)
    saved = tmp_path / "plan"
    plan = ended(hosts.slurmfab("plan", "--move-ids", "--save", str(saved)), 4)
    assert "1 process; slurmctld, munge stop for it, running jobs go on; without slurmctld, Slurm's commands wait" in (
        plan.stdout
    )
    assert "1 process; slurmd, munge stop for it, running jobs go on" in plan.stdout
    assert "running: inactive -> yes" in plan.stdout
    succeeded(hosts.slurmfab("deploy", "--plan", str(saved)))
    for host in ALL:
        assert carrying(hosts, host, WANTED_MUNGE) == ""
        assert hosts.on(host, "ps -o uid= -C munged").split() == [str(OTHER_MUNGE)]
    assert_well(hosts, job)


def test_a_move_that_is_killed_halfway_is_ended_by_the_next_one_and_jobs_go_on(
    hosts: DeployedLab, job: tuple[str, dict[str, set[str]]], person: Person
) -> None:
    hosts.on("n1", f"mkdir /srv/many && python3 -c '{MAKE_MANY}'")
    text = hosts.inventory_path.read_text()
    hosts.inventory_path.write_text(text.replace(f"slurm: {FIRST}", f"slurm: {SECOND}"))
    process = person.start("deploy", "--move-ids", "--cluster", str(hosts.inventory_path))
    try:
        hosts.until("n1", f"find /srv/many -uid {SECOND} -print -quit | grep -c .", "1")
        hosts.on("n1", f"kill -9 $({AGENTS})")
    finally:
        process.kill()
        process.communicate()
    for host in ALL:
        hosts.until(host, AGENTS, "", 120)
    assert hosts.on("n1", "id -u slurm") == str(FIRST)
    assert carrying(hosts, "n1", FIRST) != ""
    done = succeeded(hosts.slurmfab("deploy", "--move-ids"))
    assert re.search(rf"n1: slurm: uid {FIRST} -> {SECOND}.*: moved \d+ files below .*/srv", words_of(done))
    for host in ALL:
        assert carrying(hosts, host, FIRST) == ""
        assert hosts.on(host, "id -u slurm; id -g slurm").split() == [str(SECOND)] * 2
    assert set(hosts.on("ctl", "ps -o uid= -C slurmctld").split()) == {str(SECOND)}
    assert_well(hosts, job)
    assert hosts.slurmfab("deploy").returncode == 0
