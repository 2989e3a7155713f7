"""New nodes in a cluster that is at work: who may join, what the others notice, and that their jobs go on."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, ended, eventually, succeeded
from lab_user import Person, snapshots, words_of
from stock import Stock
from suites import PACKAGES, SUITES

from slurmfab.cluster.slurm.versions import adds_nodes_by_reconfigure, distribution_version

pytestmark = pytest.mark.lab

CLUSTER_FILE = """\
# Our cluster. Ask Ada before you change it.
cluster: {cluster}
ssh: {{user: root, key: {key}}}   # the lab's key
addresses: {{ctl: {ctl}, n1: {n1}, n2: {n2}}}
controllers: [ctl]
nodes:
  - hosts: n[1-2]   # the old rack
    Weight: 10
# There is one partition, for everybody.
partitions:
  - {{PartitionName: main, Nodes: ALL, Default: YES}}
"""
COMMENTS = ("# Our cluster. Ask Ada", "# the lab's key", "# the old rack", "# There is one partition")
MEMBERS = ("ctl", "n1", "n2")
UNIT_STARTED = "systemctl show -P ActiveEnterTimestampMonotonic slurmd"
WAITING_JOB = (
    AS_SLURM + "sbatch --parsable -w {node} -o /dev/null --wrap"
    " 'srun sh -c \"until [ -e /tmp/finish ]; do sleep 0.1; done; echo ran on >/tmp/finished\"'"
)

OTHER_RELEASE = "/CODENAME=/{s/bookworm/other/; s/trixie/bookworm/; s/=sid/=bookworm/; s/other/trixie/}"
"""For sed: makes one suite of the other, as in a host that was installed from the wrong medium."""


@dataclass(frozen=True)
class Growing:
    """A cluster of two nodes beside two hosts that could join, and one that is switched off."""

    hosts: DeployedLab
    person: Person

    def address(self, name: str) -> str:
        return self.hosts.lab.host(name).address

    def add(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.person.slurmfab("add-node", *words)

    def files(self) -> dict[str, str]:
        found = self.person.cluster_file.parent.glob("cluster.*")
        return {path.name: path.read_text() for path in found if path.is_file()}


@pytest.fixture(scope="module", params=SUITES)
def growing(
    request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Growing]:
    person = Person.at(tmp_path_factory.mktemp("add"))
    with stock.copy(request.param, nodes=5, down=("n5",), bare=("n3",)) as hosts:
        addresses = {name: hosts.lab.host(name).address for name in MEMBERS}
        person.writes(CLUSTER_FILE.format(cluster=hosts.lab.name, key=hosts.lab.ssh_key, **addresses))
        person.has_seen(hosts.lab, *MEMBERS)
        succeeded(person.slurmfab("deploy"))
        # On look-alikes of Ubuntu, sudo notes in the home of its user that it was used for the first time.
        hosts.on("n4", "! id ubuntu 2>/dev/null || runuser -u ubuntu -- sudo -n true")
        yield Growing(hosts, person)


@dataclass(frozen=True)
class Joined:
    """What was seen when n3 joined while a job ran on every node.

    Args:
        done: the add-node.
        started_before: when slurmd was started on each node, before.
        started_after: the same, after.
        jobs: the job on each node.
        older: a deployment that had read the files before n3 joined, and went on when it had; its exit code and words.
        copy: somebody who has a copy of the files from before.
    """

    done: subprocess.CompletedProcess[str]
    started_before: dict[str, str]
    started_after: dict[str, str]
    jobs: dict[str, str]
    older: tuple[int, str]
    copy: Person


@contextmanager
def waiting_deployment(person: Person) -> Iterator[subprocess.Popen[str]]:
    """A deployment that has read its files and waits for the sudo password on standard input."""
    words = [*PROGRAM, "deploy", "--ask-sudo-password"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(words, cwd=person.directory, env=person.environment, text=True, **pipes) as process:
        try:
            wchan = Path(f"/proc/{process.pid}/wchan")
            eventually(lambda: "pipe_read" in wchan.read_text(), "the deployment waits for the password")
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def joined(growing: Growing, tmp_path_factory: pytest.TempPathFactory) -> Joined:
    hosts = growing.hosts
    jobs = {node: hosts.on("ctl", WAITING_JOB.format(node=node)) for node in ("n1", "n2")}
    for job in jobs.values():
        hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    before = {node: hosts.on(node, UNIT_STARTED) for node in jobs}
    copy = replace(growing.person, directory=tmp_path_factory.mktemp("copy") / "work")
    shutil.copytree(growing.person.directory, copy.directory, ignore=shutil.ignore_patterns("*.runs"))
    with waiting_deployment(growing.person) as older:
        done = growing.add(growing.address("n3"), "--accept-new-host-keys")
        after = {node: hosts.on(node, UNIT_STARTED) for node in jobs}
        said, _ = older.communicate("\n", timeout=60)
    return Joined(done, before, after, jobs, (older.returncode, said), copy)


def refused(growing: Growing, *words: str) -> str:
    """What add-node says to a newcomer that cannot join; the files and all hosts stay as they were."""
    everybody = (*MEMBERS, "n4")
    files, hosts = growing.files(), snapshots(growing.hosts, *everybody)
    done = growing.add(*words)
    assert done.returncode in (1, 2), words_of(done)
    assert growing.files() == files
    assert snapshots(growing.hosts, *everybody) == hosts
    return words_of(done)


def test_a_newcomer_that_does_not_answer_when_added_then_nothing_is_written_or_touched(growing: Growing) -> None:
    said = refused(growing, f"{growing.address('n4')},{growing.address('n5')}", "--accept-new-host-keys")
    assert f"{growing.address('n5')}: " in said
    assert "Nothing was changed." in said


def test_a_newcomer_whose_name_does_not_resolve_when_added_then_nothing_is_written(growing: Growing) -> None:
    assert "the name nowhere.invalid does not resolve" in refused(growing, "nowhere.invalid")


@pytest.mark.parametrize("member", ["n1", "ctl"])
def test_a_member_when_added_again_then_it_is_refused_by_name_and_by_address(growing: Growing, member: str) -> None:
    for words in (member, growing.address(member)):
        assert f"{member}: already in the cluster {growing.hosts.lab.name}" in refused(growing, words)


def test_a_newcomer_whose_host_key_nobody_accepted_when_added_then_it_is_shown_and_refused(growing: Growing) -> None:
    said = refused(growing, growing.address("n4"))
    assert f"{growing.address('n4')}: ssh-ed25519 SHA256:" in said
    assert "--accept-new-host-keys" in said


@pytest.mark.parametrize(
    ("trouble", "mended", "words"),
    [
        pytest.param(
            f"sed -i '{OTHER_RELEASE}' /etc/os-release",
            "",
            "n4: its distribution (",
            marks=pytest.mark.skipif(PACKAGES != "debian", reason="another release has the same Slurm from its site"),
        ),
        ("sed -i 's/^ID=.*/ID=fedora/; /^ID_LIKE=/d' /etc/os-release", "", "n4: it runs fedora"),
        ("useradd --system --uid 64030 --no-user-group backup2", "userdel backup2", "64030"),
        (
            "groupadd --system --gid 777 slurm",
            "groupdel slurm",
            "group slurm has GID 777 there, but the cluster uses 64030",
        ),
    ],
    ids=["other Slurm", "no Debian", "UID taken", "other GID"],
)
def test_a_newcomer_that_does_not_fit_when_added_then_it_is_told_why_and_nothing_is_written_or_touched(
    growing: Growing, trouble: str, mended: str, words: str
) -> None:
    hosts = growing.hosts
    hosts.on("n4", "cp --remove-destination /usr/lib/os-release /etc/os-release")
    hosts.on("n4", trouble)
    try:
        said = refused(growing, growing.address("n4"), "--accept-new-host-keys")
    finally:
        hosts.on("n4", f"ln -sf ../usr/lib/os-release /etc/os-release; {mended}")
    assert words in said
    assert "n4" in said
    assert "othing was changed" in said


def test_a_newcomer_when_added_then_the_command_succeeds_and_the_node_runs_a_job(
    growing: Growing, joined: Joined
) -> None:
    assert joined.done.returncode == 0, words_of(joined.done)
    assert growing.hosts.on("ctl", AS_SLURM + "srun -w n3 hostname") == "n3"


def test_jobs_on_the_other_nodes_when_a_node_joins_then_each_runs_to_its_end(growing: Growing, joined: Joined) -> None:
    for node, job in joined.jobs.items():
        assert growing.hosts.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
        growing.hosts.on(node, "touch /tmp/finish")
        growing.hosts.until("ctl", f"scontrol -o show job {job} | grep -o JobState=[A-Z]*", "JobState=COMPLETED")
        assert growing.hosts.on(node, "cat /tmp/finished") == "ran on"


def test_a_deployment_that_read_its_files_before_a_node_joined_then_stops_and_says_who_added_it(
    growing: Growing, joined: Joined
) -> None:
    code, said = joined.older
    assert code == 1, said
    assert "The cluster file or its lock has changed since this run read it:" in said
    assert ": n3 joined" in said
    assert re.search(rf"by {getpass.getuser()}@\S+: add-node on ctl,n\[1-3\] \(\S+-add-node\)", said), said
    assert "This run changed nothing. Run the same command again." in said
    assert growing.hosts.on("ctl", "scontrol -o show node n3 | grep -o NodeName=n3") == "NodeName=n3"


@pytest.mark.parametrize(
    "words",
    [("deploy",), ("plan",), ("remove-node", "n1", "--now")],
    ids=["deploy", "plan", "remove-node"],
)
def test_a_copy_of_the_files_from_before_a_node_joined_then_does_not_remove_it(
    growing: Growing, joined: Joined, words: tuple[str, ...]
) -> None:
    assert joined.done.returncode == 0
    everybody = (*MEMBERS, "n3")
    before = snapshots(growing.hosts, *everybody)
    done = ended(joined.copy.slurmfab(*words), 2)
    assert "n3: in Slurm on ctl, but neither configs/cluster.yaml nor its lock has ever had it." in words_of(done)
    assert f"(the last run there: {getpass.getuser()}@" in words_of(done)
    assert snapshots(growing.hosts, *everybody) == before
    assert growing.hosts.on("ctl", "sinfo -h -p main -N -n n1 -o %T") in ("idle", "allocated", "mixed")


def test_slurmd_on_the_other_nodes_when_a_node_joins_then_is_restarted_only_where_its_slurm_needs_that(
    growing: Growing, joined: Joined
) -> None:
    if not adds_nodes_by_reconfigure(distribution_version(growing.hosts.lab.suite)):
        assert all(joined.started_after[node] != joined.started_before[node] for node in joined.jobs)
    else:
        assert joined.started_after == joined.started_before


def test_the_cluster_file_when_a_node_joins_then_keeps_its_comments_and_names_the_node(
    growing: Growing, joined: Joined
) -> None:
    assert joined.done.returncode == 0
    text = growing.person.cluster_file.read_text()
    for comment in COMMENTS:
        assert comment in text
    assert growing.address("n3") in text
    assert text.index("old rack") < text.index("n3", text.index("nodes:")) < text.index("There is one partition")


def test_a_cluster_that_has_grown_when_deployed_then_nothing_is_changed_and_all_nodes_share_their_files(
    growing: Growing, joined: Joined
) -> None:
    assert joined.done.returncode == 0
    done = growing.person.slurmfab("deploy")
    assert (done.returncode, "nothing changed on 4 hosts" in words_of(done)) == (0, True)
    sums = {growing.hosts.on(host, "sha256sum /etc/slurm/*.conf /etc/munge/munge.key") for host in (*MEMBERS, "n3")}
    assert len(sums) == 1
