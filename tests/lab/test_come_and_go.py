"""Nodes that come and go in a cluster whose other nodes are at work all the time: not one job is lost."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, eventually, succeeded
from lab_user import PLATFORM, Person, snapshots, words_of
from stock import Stock, in_turn
from suites import NEWEST

from slurmfab import lab
from slurmfab.cluster.slurm.platform import DNF

pytestmark = pytest.mark.lab

CLUSTER_FILE = """\
# Our cluster. Ask Ada before you change it.
cluster: {cluster}
ssh: {{user: root, key: {key}}}   # the lab's key
addresses:   # by hand
  ctl: {ctl}
  n1: {n1}   # the oldest
  n2: {n2}
  n3: {n3}
controllers: [ctl]
nodes:
  - hosts: n[1-3]   # the rack
    Weight: 10
partitions:
  - {{PartitionName: main, Nodes: ALL, Default: YES}}
  - {{PartitionName: lone, Nodes: n3}}   # of Ada's group
  - {{PartitionName: some, Nodes: "n[1-2]"}}
"""
FOR_USERS = """\
user_tools: true
user_ssh: hostbased
job_environment: {all: {SITE: here}}
scratch: {size: 1G}
private_tmp: true
"""
MEMBERS = ("ctl", "n1", "n2", "n3")
SOMETHING_TO_DO = 4
LASTING_JOB = (
    AS_SLURM + "sbatch --parsable {options} -o /dev/null --wrap"
    " 'srun sh -c \"until [ -e /tmp/finish ]; do sleep 0.1; done; echo done >/tmp/finished\"'"
)
PURGED = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y purge slurmd munge slurm-client slurm-wlm-basic-plugins"
ERASED = "dnf -q -y remove munge; userdel munge; userdel slurm"  # and Slurm's packages, which need munge
REINSTALLED = f"""
systemctl stop slurmd munge
{{ {ERASED if PLATFORM.manager == DNF else PURGED}; }} >/dev/null 2>&1
rm -rf /var/lib/slurm /etc/slurm /etc/munge /var/log/slurm /etc/ssh/ssh_known_hosts /etc/ssh/ssh_host_* /tmp/finish
sed -i '/BEGIN slurmfab/,/END slurmfab/d' /etc/hosts
! getent passwd slurm
ssh-keygen -q -A && systemctl restart ssh
"""


@dataclass(frozen=True)
class Flux:
    """A cluster of three nodes beside a host that could join."""

    hosts: DeployedLab
    person: Person

    def address(self, name: str) -> str:
        return self.hosts.lab.host(name).address

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.person.slurmfab(*words)

    @property
    def text(self) -> str:
        return self.person.cluster_file.read_text()

    @property
    def lock(self) -> str:
        return (self.person.cluster_file.parent / "cluster.lock.json").read_text()

    def submit(self, options: str) -> str:
        return self.hosts.on("ctl", LASTING_JOB.format(options=options))

    def state_of(self, job: str) -> str:
        return self.hosts.on("ctl", f"scontrol -o show job {job} | grep -o JobState=[A-Z]*").removeprefix("JobState=")

    def runs(self, job: str) -> None:
        self.hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")

    def ends(self, job: str, node: str) -> None:
        """Let a lasting job on this node come to its end."""
        self.hosts.on(node, "touch /tmp/finish")
        eventually(lambda: self.state_of(job) == "COMPLETED", f"job {job} on {node} has completed")
        self.hosts.on(node, "rm /tmp/finish")

    def node(self, name: str) -> str:
        """State and reason of a node, or nothing when Slurm does not know it."""
        return self.hosts.on("ctl", f"sinfo -h -N -p main -n {name} -o '%t %E'")

    def started(self, *words: str, until: str) -> subprocess.Popen[str]:
        """Start slurmfab and return when it has said this."""
        process = self.person.start(*words)
        assert process.stdout is not None
        said = ""
        while until not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        return process


@pytest.fixture(scope="module", params=in_turn("come_and_go"))
def flux(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flux]:
    person = Person.at(tmp_path_factory.mktemp("flux"))
    with stock.copy(request.param, nodes=4) as hosts:
        addresses = {name: hosts.lab.host(name).address for name in MEMBERS}
        person.writes(CLUSTER_FILE.format(cluster=hosts.lab.name, key=hosts.lab.ssh_key, **addresses))
        person.has_seen(hosts.lab, *MEMBERS)
        succeeded(person.slurmfab("deploy"))
        yield Flux(hosts, person)


@dataclass
class Story:
    """What was seen while n4 joined, failed, joined, was replaced and left, with a job on every other node."""

    jobs: dict[str, str]
    file_before: str
    said: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)

    def keep(self, name: str, done: subprocess.CompletedProcess[str]) -> None:
        self.said[name], self.codes[name] = words_of(done), done.returncode

    def plan(self, flux: Flux, after: str) -> None:
        """What a plan has to do straight after a task that changed the file."""
        done = flux.run("plan")
        self.seen[f"plan after {after}"] = "nothing" if done.returncode == 0 else words_of(done)


@pytest.fixture(scope="module")
def story(flux: Flux) -> Story:
    tale = Story({node: flux.submit(f"-w {node} --exclusive") for node in ("n1", "n2", "n3")}, flux.text)
    for job in tale.jobs.values():
        flux.runs(job)
    waiting = flux.submit("-N1 --exclusive")
    join(flux, tale, waiting)
    exchange(flux, tale, waiting)
    leave(flux, tale)
    for node, job in tale.jobs.items():
        tale.seen[f"job on {node}"] = flux.state_of(job)
        flux.ends(job, node)
        tale.seen[f"end of job on {node}"] = flux.hosts.on(node, "cat /tmp/finished")
    return tale


def join(flux: Flux, tale: Story, waiting: str) -> None:
    """A node joins on which no job runs, then is mended and joins again."""
    flux.hosts.on("n4", "mv /usr/bin/hostname /usr/bin/hostname.away")
    words = ("add-node", flux.address("n4"), "--partition", "some", "--accept-new-host-keys")
    tale.keep("broken", flux.run(*words))
    tale.seen["broken node"] = flux.node("n4")
    tale.seen["waiting job"] = flux.state_of(waiting)
    flux.hosts.on("n4", "mv /usr/bin/hostname.away /usr/bin/hostname")
    tale.keep("mended", flux.run(*words))
    tale.plan(flux, "add-node")
    flux.runs(waiting)
    tale.seen["where it ran"] = flux.hosts.on("ctl", f"squeue -h -j {waiting} -o %N")
    tale.seen["file with n4"] = flux.text
    tale.seen["reservations"] = flux.hosts.on("ctl", "scontrol -o show reservation")


def exchange(flux: Flux, tale: Story, waiting: str) -> None:
    """The node is reinstalled and takes its own place."""
    tale.keep("busy", flux.run("replace-node", "n4"))
    flux.ends(waiting, "n4")
    flux.hosts.on("n4", REINSTALLED)
    before = flux.text, flux.lock
    tale.keep("other key", flux.run("replace-node", "n4"))
    tale.seen["files after other key"] = "the same" if (flux.text, flux.lock) == before else "changed"
    tale.keep("replaced", flux.run("replace-node", "n4", "--accept-new-host-keys"))
    tale.plan(flux, "replace-node")
    tale.seen["job after replacing"] = flux.hosts.on("ctl", AS_SLURM + "srun -w n4 -p some hostname")


def leave(flux: Flux, tale: Story) -> None:
    """The node is taken out while a job runs on it, which is waited for."""
    last = flux.submit("-w n4 --exclusive")
    flux.runs(last)
    tale.keep("too busy", flux.run("remove-node", "n4", "--timeout", "0"))
    tale.seen["busy node"] = flux.node("n4")
    process = flux.started("remove-node", "n4", until="Waiting for")
    flux.ends(last, "n4")
    said, _ = process.communicate(timeout=120)
    tale.said["removed"], tale.codes["removed"] = said, process.returncode
    tale.plan(flux, "remove-node")
    tale.seen["last job"] = flux.state_of(last)
    tale.seen["file in the end"] = flux.text
    tale.seen["known node"] = flux.node("n4")


def test_a_new_node_on_which_no_job_runs_when_it_joins_then_it_is_left_drained_and_named(story: Story) -> None:
    assert story.codes["broken"] == 1
    assert "n4: trial:n4: left drained" in story.said["broken"]
    assert story.seen["broken node"].startswith("drain slurmfab: acceptance failed: ")
    assert "hostname" in story.seen["broken node"]


def test_a_users_job_that_waits_when_a_node_joins_then_it_starts_there_only_after_the_trial(story: Story) -> None:
    assert story.seen["waiting job"] == "PENDING"
    assert story.seen["where it ran"] == "n4"
    assert story.seen["reservations"] == "No reservations in the system"


def test_a_mended_node_when_the_same_command_is_given_again_then_it_is_let_in(story: Story) -> None:
    assert story.codes["mended"] == 0, story.said["mended"]
    assert "1 change " in story.said["mended"]


def test_the_cluster_file_when_a_node_joins_a_partition_then_it_and_nothing_else_is_in_it(
    flux: Flux, story: Story
) -> None:
    grown = story.file_before.replace("n[1-3]   # the rack\n    Weight: 10\n", "n[1-3]   # the rack\n    Weight: 10\n"
                                      "  - hosts: n4\n").replace('"n[1-2]"', '"n[1-2,4]"')  # fmt: skip
    assert story.seen["file with n4"] == grown.replace(
        f"  n3: {flux.address('n3')}\n", f"  n3: {flux.address('n3')}\n  n4: {flux.address('n4')}\n"
    )


def test_a_node_with_jobs_when_it_is_to_be_replaced_then_it_is_refused_with_their_names(story: Story) -> None:
    assert story.codes["busy"] == 1
    assert "n4: this node has jobs: " in story.said["busy"]


def test_a_reinstalled_node_when_nobody_accepts_its_key_then_both_keys_are_shown_and_nothing_is_written(
    story: Story,
) -> None:
    assert story.codes["other key"] == 2
    assert story.said["other key"].count("SHA256:") >= 2
    assert "--accept-new-host-keys" in story.said["other key"]
    assert story.seen["files after other key"] == "the same"


def test_a_reinstalled_node_when_it_takes_its_place_then_it_is_deployed_and_runs_a_job(story: Story) -> None:
    assert story.codes["replaced"] == 0, story.said["replaced"]
    assert story.seen["job after replacing"] == "n4"


def test_a_node_with_jobs_when_the_time_to_wait_is_over_then_it_stays_drained_and_the_job_goes_on(story: Story) -> None:
    assert story.codes["too busy"] == 1
    assert "fab resume n4" in story.said["too busy"]
    assert story.seen["busy node"].startswith("drng slurmfab: ")


def test_a_node_when_its_job_has_ended_then_it_is_out_of_slurm_and_of_the_file_as_if_it_had_never_been(
    story: Story,
) -> None:
    assert story.codes["removed"] == 0, story.said["removed"]
    assert story.seen["last job"] == "COMPLETED"
    assert story.seen["known node"] == ""
    assert story.seen["file in the end"] == story.file_before


def test_jobs_on_all_other_nodes_when_nodes_come_and_go_then_each_runs_to_its_end(story: Story) -> None:
    for node in story.jobs:
        assert (story.seen[f"job on {node}"], story.seen[f"end of job on {node}"]) == ("RUNNING", "done")


@pytest.mark.usefixtures("story")
def test_a_removed_host_when_one_looks_then_nothing_that_was_trusted_is_left(flux: Flux) -> None:
    secrets = "/etc/munge/munge.key /etc/slurm/slurm.conf /etc/slurm/cgroup.conf /var/lib/slurm/home/.ssh/id_ed25519*"
    assert flux.hosts.on("n4", f"ls {secrets} 2>/dev/null", check=False) == ""
    for unit in ("slurmd", "munge"):
        states = flux.hosts.on("n4", f"systemctl is-active {unit}; systemctl is-enabled {unit}", check=False).split()
        assert states == ["inactive", "disabled"]
    for host in MEMBERS:
        files = "/etc/hosts /etc/slurm/slurm.conf /etc/ssh/ssh_known_hosts /var/lib/slurm/home/.ssh/authorized_keys"
        # Keys are base64, in which any two characters may stand alone between slashes.
        assert flux.hosts.on(host, f"grep -E '(^|[ ,=@])n4([ ,]|$)' {files}", check=False) == ""


@pytest.mark.usefixtures("story")
def test_a_removed_host_when_it_is_in_the_file_of_another_cluster_then_it_can_join_that(
    flux: Flux, tmp_path: Path
) -> None:
    person = Person.at(tmp_path)
    shown = flux.hosts.on("n4", "cat /etc/ssh/ssh_host_ed25519_key.pub")
    (person.home / ".ssh" / "known_hosts").write_text(f"{flux.address('n4')} {shown}\n")
    key = flux.hosts.lab.ssh_key
    person.writes(
        f"cluster: bravo\nssh: {{user: root, key: {key}}}\naddresses: {{n4: {flux.address('n4')}}}\n"
        "controllers: [n4]\nnodes: [{hosts: n4}]\n"
    )
    ended(person.slurmfab("plan"), SOMETHING_TO_DO)


@pytest.mark.usefixtures("story")
def test_a_cluster_from_which_a_node_has_gone_when_deployed_then_nothing_is_changed(flux: Flux) -> None:
    done = flux.run("deploy")
    assert (done.returncode, "nothing changed on 4 hosts" in words_of(done)) == (0, True)


def test_a_task_that_changes_the_file_when_it_has_ended_then_a_plan_has_nothing_to_do(story: Story) -> None:
    after = {task: story.seen[f"plan after {task}"] for task in ("add-node", "replace-node", "remove-node")}
    assert after == dict.fromkeys(after, "nothing")


def test_a_user_who_comes_and_goes_when_other_keys_concern_users_then_a_plan_has_nothing_to_do_afterwards(
    flux: Flux,
) -> None:
    before, key = flux.text, flux.hosts.lab.ssh_key.with_suffix(".pub")
    flux.person.writes(before + FOR_USERS)
    try:
        succeeded(flux.run("deploy"))
        for words in (
            ("add-user", "ann", "--uid", "3001", "--key", str(key), "--sudo", "--groups", "ml"),
            ("add-user", "bob", "--comment", "Bob Example"),
            ("add-user", "bob", "--groups", "ml"),
            ("remove-user", "ann"),
            ("remove-user", "bob"),
        ):
            done = flux.run(*words)
            assert done.returncode == 0, (words, words_of(done))
            planned = flux.run("plan")
            assert planned.returncode == 0, (words, words_of(planned))
    finally:
        flux.person.writes(before)
        succeeded(flux.run("deploy"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("remove-node", "ctl"), "ctl: its roles are controller"),
        (("remove-node", "n9"), "n9: not in "),
        (("remove-node", "n[1-3]"), "No compute node would be left"),
        (("remove-node", "n3"), "lone: no node would be left in the partition"),
        (("replace-node", "ctl"), "ctl: its roles are controller"),
        (("replace-node", "n9"), "n9: not in "),
        (("replace-node", "n3", "--address", "n3"), "this is not an IP address"),
        (("add-node", "n9", "--like", "ctl"), "--like ctl: not a compute node"),
        (("add-node", "n9", "--partition", "nope"), "--partition nope: no such partition"),
        (("add-node", "n1,n2"), "already in the cluster {cluster}"),
        (("add-node", "ctl"), "already in the cluster {cluster}"),
    ],
)
def test_what_cannot_be_when_it_is_asked_for_then_nothing_is_written_or_touched(
    flux: Flux, words: tuple[str, ...], why: str
) -> None:
    files, hosts = (flux.text, flux.lock), snapshots(flux.hosts, *MEMBERS)
    done = flux.run(*words)
    assert done.returncode == 2
    assert why.format(cluster=flux.hosts.lab.name) in words_of(done)
    assert ((flux.text, flux.lock), snapshots(flux.hosts, *MEMBERS)) == (files, hosts)


@pytest.mark.usefixtures("story")
def test_a_removal_that_is_cut_off_when_repeated_then_the_node_is_gone_and_only_its_job_was_cancelled(
    flux: Flux,
) -> None:
    doomed, other = flux.submit("-w n3"), flux.submit("-w n1")
    flux.runs(doomed)
    flux.runs(other)
    words = ("remove-node", "n3", "--now", "--purge", "--allow-empty-partition")
    process = flux.started(*words, until="slurm.conf   ctl")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "n3" in flux.text

    done = flux.run(*words)

    assert done.returncode == 0, words_of(done)
    assert flux.state_of(doomed) == "CANCELLED"
    assert flux.node("n3") == ""
    assert "n3" not in flux.text
    assert "Nodes: []}   # of Ada's group" in flux.text
    assert flux.hosts.on("n3", "dpkg -l slurmd munge | grep -c ^ii", check=False) == "0"
    flux.ends(other, "n1")


@pytest.mark.parametrize("flux", [NEWEST], indirect=True)
@pytest.mark.usefixtures("story")
def test_a_host_that_dies_while_being_added_when_that_is_noticed_then_the_cluster_is_as_before(flux: Flux) -> None:
    job = flux.submit("-w n1")
    flux.runs(job)
    files, hosts = (flux.text, flux.lock), snapshots(flux.hosts, "ctl", "n1", "n2")
    flux.hosts.on("n4", REINSTALLED)
    process = flux.started("add-node", flux.address("n4"), "--accept-new-host-keys", until="users        n4")
    lab.kill_host(flux.hosts.lab, "n4")
    said, _ = process.communicate(timeout=150)
    assert process.returncode == 1
    assert "n4: " in said
    assert "The cluster was not changed." in said
    assert ((flux.text, flux.lock), snapshots(flux.hosts, "ctl", "n1", "n2")) == (files, hosts)
    flux.ends(job, "n1")


@pytest.mark.usefixtures("story")
def test_a_dead_node_when_removed_then_it_is_out_of_the_cluster_and_told_to_be_unclean(flux: Flux) -> None:
    lab.kill_host(flux.hosts.lab, "n2")
    done = flux.run("remove-node", "n2")
    assert done.returncode == 3, words_of(done)
    assert "n2: not reachable, so munge key, SSH keys and daemons are still there." in words_of(done)
    assert flux.node("n2") == ""
    assert "n2" not in flux.text
    assert flux.hosts.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"
