"""A hostile node, a hostile user and hostile files, all at once, on a cluster of four at work: nobody else is hurt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import Person, words_of
from lying_agent import honest_again, make_liar
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

EVERYBODY = ("ann", "bob", "mallory")
NAME = "x\n--partition=main|RUNNING|mallory\n\n\x1b[2J\x1b]52;c;ZXZpbA==\x07all is as wanted"
"""A job's name with options for scancel, rows of other jobs, and sequences that clear a terminal and its clipboard."""

LIE = """
def lie(told):
    if 'facts' in told:
        told['facts']['hostname'] = 'n1'
        told['facts']['public_key'] += '\\nssh-ed25519 AAAA slurm@n3'
        return told
"""
HOME = "cd && rm -f .ssh/authorized_keys && mkfifo .ssh/authorized_keys && ln -s /etc .config && chmod 500 .ssh ."
BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
FILES = "/etc/hosts /etc/ssh/ssh_known_hosts /etc/slurm/slurm.conf /var/lib/slurm/home/.ssh/authorized_keys"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Siege:
    """The cluster, and what its honest users have on it.

    Args:
        hosts: the cluster's lab.
        jobs: the jobs of ann and bob with state, node and start time, one per line.
        files: checksums of files on which others rely, by host.
    """

    hosts: DeployedLab
    jobs: str
    files: dict[str, str]

    def unhurt(self) -> bool:
        """Whether the jobs of ann and bob run as before, and the files are as before."""
        return (jobs_of_others(self.hosts), files(self.hosts)) == (self.jobs, self.files)


def jobs_of_others(hosts: DeployedLab) -> str:
    return hosts.on("ctl", "squeue -h -u ann,bob -O JobID,State,NodeList,StartTime | sort")


def files(hosts: DeployedLab) -> dict[str, str]:
    return {host: hosts.on(host, f"sha256sum {FILES}") for host in ("ctl", "n1", "n2")}


@pytest.fixture(scope="module", params=in_turn("hostile"))
def siege(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Siege]:
    """Everything hostile is in place."""
    with stock.copy(request.param, nodes=3) as hosts:
        users = "".join(f"  - {{name: {name}}}\n" for name in EVERYBODY)
        hosts.inventory_path.write_text(f"{hosts.inventory_path.read_text()}slurm_ssh: both\nusers:\n{users}")
        hosts.deploy()
        for node, name, title in (("n1", "ann", "hers"), ("n2", "bob", "his"), ("n2", "mallory", NAME)):
            words = f"-w {node} --mem=50 -o /dev/null --job-name={quote(title)} --wrap 'sleep 3600'"
            hosts.on("ctl", f"cd /tmp && runuser -u {name} -- sbatch {words}")
        hosts.until("ctl", "squeue -h -o %T", "RUNNING\nRUNNING\nRUNNING")
        hosts.on("ctl", f"runuser -u mallory -- sh -c {quote(HOME)}")
        make_liar(hosts, "n3", LIE)
        yield Siege(hosts, jobs_of_others(hosts), files(hosts))


def test_a_deployment_under_attack_does_its_work_and_leaves_out_the_hostile_node_alone(siege: Siege) -> None:
    siege.hosts.on("n1", "echo '# spoilt' >>/etc/slurm/cgroup.conf")
    done = siege.hosts.slurmfab("deploy")
    said = words_of(done)
    assert done.returncode == 3, said
    assert "\nn3: its facts were refused: public_key: the value is malformed" in f"\n{said}", said
    assert re.search(r"not done: n3 \(", said), said
    assert "mallory" in said, "what is wrong in her home is told"
    assert not CONTROL.search(said), said
    assert siege.hosts.on("n1", "grep -c spoilt /etc/slurm/cgroup.conf", check=False) == "0"
    assert siege.unhurt()


def test_what_is_shown_under_attack_is_true_and_steers_no_terminal(siege: Siege) -> None:
    shown = succeeded(siege.hosts.slurmfab("status", "--user", "mallory"))
    assert not CONTROL.search(words_of(shown))
    assert "3 running" in shown.stdout
    drained = succeeded(siege.hosts.slurmfab("drain", "n2", "--reason", "new disks"))
    assert not CONTROL.search(words_of(drained))
    succeeded(siege.hosts.slurmfab("resume", "n2"))
    assert siege.unhurt()


def test_hostile_files_are_refused_before_a_host_is_asked(siege: Siege, tmp_path: Path) -> None:
    thief = Person.at(tmp_path)
    thief.has_seen(siege.hosts.lab, "ctl", "n1", "n2", "n3")
    thief.writes(BOMB)
    assert "alias" in words_of(thief.slurmfab("deploy"))
    addresses = ", ".join(f"{name}: {siege.hosts.lab.host(name).address}" for name in ("n1", "n2"))
    key = siege.hosts.lab.ssh_key
    thief.writes(
        f"cluster: other\nssh: {{user: root, key: {key}}}\naddresses: {{{addresses}}}\n"
        "controllers: [n2]\nnodes: [{hosts: n1}]\n"
    )
    refused = thief.slurmfab("deploy")
    assert (refused.returncode, "--allow host-in-use" in words_of(refused)) == (2, True), words_of(refused)
    assert siege.unhurt()


def test_the_hostile_user_is_removed_whatever_the_home_is_like(siege: Siege) -> None:
    siege.hosts.on("ctl", "scancel --user=mallory")
    siege.hosts.until("ctl", "squeue -h -u mallory", "")
    gone = ended(siege.hosts.slurmfab("remove-user", "mallory"), 3)
    assert siege.hosts.on("ctl", "getent passwd mallory; getent shadow mallory | cut -d: -f2,8", check=False) in (
        "", "!*:1"
    )  # fmt: skip
    assert not CONTROL.search(words_of(gone))
    assert siege.unhurt()


def test_when_the_node_is_honest_again_all_is_as_wanted_and_every_node_runs_jobs(siege: Siege) -> None:
    honest_again(siege.hosts, "n3")
    assert siege.hosts.slurmfab("deploy").returncode == 0
    again = siege.hosts.slurmfab("deploy")
    assert "nothing changed on 4 hosts" in words_of(again)
    succeeded(siege.hosts.slurmfab("check-cluster", "--only", "nodes,jobs,ssh,munge,people"))
    assert siege.unhurt()
