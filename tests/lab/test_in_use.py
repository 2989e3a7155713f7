"""Hosts that are in use: another cluster's node is never taken, and hosts in another order keep their controller."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import Person, snapshots, words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

ALL = ("ctl", "n1", "n2", "n3", "n4")
CLUSTER_FILE = """\
cluster: {cluster}
ssh: {{user: root, key: {key}}}
addresses: {{{addresses}}}
controllers: [{controller}]
nodes: [{{hosts: "{nodes}"}}]
"""
JOBS = "squeue --all --noheader --Format=JobID,State,NodeList,StartTime | sort"
LASTING_JOB = (
    AS_SLURM + "sbatch --parsable -w n1 -o /dev/null --wrap"
    " 'srun sh -c \"until [ -e /tmp/finish ]; do sleep 0.1; done\"'"
)
ELSEWHERE = "sed -i 's/^ClusterName=.*/ClusterName=xray/; s/^SlurmctldHost=.*/SlurmctldHost=zed(10.99.0.1)/'"
"""Makes a host's slurm.conf one of another cluster, as if that had taken the host."""


@dataclass(frozen=True)
class Site:
    """A cluster of ctl, n1 and n2 with a job on n1; n3 was one of its nodes; nobody has deployed to n4."""

    hosts: DeployedLab
    owner: Person
    job: str
    places: Path

    def stranger(self, name: str) -> Person:
        """Somebody who knows nothing of the cluster, but may log in on all hosts."""
        person = Person.at(self.places / name)
        person.has_seen(self.hosts.lab, *ALL)
        return person

    def address(self, name: str) -> str:
        return self.hosts.lab.host(name).address

    def file(self, cluster: str, controller: str, *nodes: str) -> str:
        """The text of a cluster file."""
        addresses = ", ".join(f"{name}: {self.address(name)}" for name in (controller, *nodes))
        key = self.hosts.lab.ssh_key
        return CLUSTER_FILE.format(
            cluster=cluster, key=key, addresses=addresses, controller=controller, nodes=",".join(nodes)
        )

    def first_contact(self, person: Person, *names: str) -> subprocess.CompletedProcess[str]:
        """Deploy to these hosts from a directory without a cluster file."""
        addresses = ",".join(map(self.address, names))
        return person.slurmfab("deploy", "--hosts", addresses, "--user", "root", "--key", str(self.hosts.lab.ssh_key))

    def jobs(self) -> str:
        return self.hosts.on("ctl", JOBS)


@pytest.fixture(scope="module", params=in_turn("in_use"))
def site(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The cluster's files were lost, so that its hosts are new to the deployer and are its own all the same."""
    places = tmp_path_factory.mktemp("site")
    owner = Person.at(places / "owner")
    with stock.copy(request.param, nodes=4) as hosts:
        owner.has_seen(hosts.lab, *ALL)
        made = Site(hosts, owner, "", places)
        owner.writes(made.file(hosts.lab.name, "ctl", "n1", "n2"))
        succeeded(owner.slurmfab("deploy"))
        job = hosts.on("ctl", LASTING_JOB)
        hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
        yield Site(hosts, owner, job, places)


def refused(site: Site, person: Person, *words: str) -> str:
    """What a command says that is refused; the person's files, all hosts and all jobs stay as they were."""
    files, hosts, jobs = files_of(person), snapshots(site.hosts, *ALL), site.jobs()
    done = ended(person.slurmfab(*words), 2)
    assert (files_of(person), snapshots(site.hosts, *ALL), site.jobs()) == (files, hosts, jobs)
    assert f"{site.job} " in jobs
    assert "RUNNING" in jobs
    return words_of(done)


def files_of(person: Person) -> dict[str, str]:
    return {str(path): path.read_text() for path in person.directory.rglob("*") if path.is_file()}


def test_hosts_of_a_cluster_in_another_order_when_met_anew_keep_controller_name_and_jobs(site: Site) -> None:
    person = site.stranger("order")
    hosts, jobs = snapshots(site.hosts, *ALL), site.jobs()
    done = site.first_contact(person, "n1", "ctl", "n2")
    assert done.returncode == 0, words_of(done)
    name = site.hosts.lab.name
    assert f"These hosts form the cluster {name} already; ctl is its controller." in words_of(done)
    text = person.cluster_file.read_text()
    assert (f"cluster: {name}\n" in text, "controllers: [ctl]" in text) == (True, True)
    assert (snapshots(site.hosts, *ALL), site.jobs()) == (hosts, jobs)
    assert site.hosts.on("n1", "systemctl is-active slurmctld", check=False) != "active"


def test_a_cluster_whose_file_names_another_of_its_hosts_as_controller_when_deployed_is_refused(site: Site) -> None:
    text = site.owner.cluster_file.read_text()
    site.owner.writes(site.file(site.hosts.lab.name, "n2", "n1", "ctl"))
    said = refused(site, site.owner, "deploy")
    site.owner.writes(text)
    assert "ctl: slurmctld runs there as the controller of this cluster, and the cluster file says n2" in said


def test_some_hosts_of_a_cluster_when_met_alone_are_refused_with_the_nodes_that_it_would_lose(site: Site) -> None:
    person = site.stranger("some")
    key = str(site.hosts.lab.ssh_key)
    addresses = f"{site.address('ctl')},{site.address('n1')}"
    said = refused(site, person, "deploy", "--hosts", addresses, "--user", "root", "--key", key)
    assert f"form the cluster {site.hosts.lab.name}, with the controller ctl." in said
    assert "the node n2" in said
    assert files_of(person) == {}


def test_nodes_of_a_cluster_when_met_without_its_controller_are_refused_and_no_file_is_written(site: Site) -> None:
    person = site.stranger("without")
    addresses = f"{site.address('n4')},{site.address('n1')}"
    key = str(site.hosts.lab.ssh_key)
    said = refused(site, person, "deploy", "--hosts", addresses, "--user", "root", "--key", key)
    assert f"n1: it belongs to the cluster {site.hosts.lab.name}, whose controller is ctl(" in said
    assert f"slurmd and slurmstepd run there, with job {site.job}." in said
    assert "--allow host-in-use" in said
    assert files_of(person) == {}


@pytest.mark.parametrize(("command", "same_name"), [("deploy", True), ("deploy", False), ("plan", False)])
def test_a_node_of_a_cluster_at_work_in_the_file_of_another_when_deployed_is_refused_and_its_job_lives(
    site: Site, command: str, same_name: bool
) -> None:
    person = site.stranger(f"{command}-{same_name}")
    person.writes(site.file(site.hosts.lab.name if same_name else "bravo", "n4", "n1", "n2"))
    said = refused(site, person, command)
    assert f"n1: it belongs to the cluster {site.hosts.lab.name}, whose controller is ctl(" in said
    assert f"with job {site.job}." in said


def test_one_node_of_a_cluster_at_work_in_the_file_of_another_when_planned_is_left_out_and_the_others_go_on(
    site: Site,
) -> None:
    person, before = site.stranger("one"), site.jobs()
    person.writes(site.file("bravo", "n4", "n1"))
    done = ended(person.slurmfab("plan"), 3)
    assert f"n1: it belongs to the cluster {site.hosts.lab.name}" in words_of(done)
    assert "n4" in done.stdout
    assert site.jobs() == before


def test_the_controller_of_a_cluster_at_work_when_it_is_a_node_in_the_file_of_another_is_refused(site: Site) -> None:
    person = site.stranger("controller")
    person.writes(site.file("bravo", "n4", "ctl", "n1"))
    assert "slurmctld runs there" in refused(site, person, "deploy")


@pytest.mark.parametrize("words", [("add-node", "{n1}"), ("replace-node", "n3", "--address", "{n1}")], ids=" ".join)
def test_a_node_of_a_cluster_at_work_when_it_shall_join_another_is_refused_whatever_the_command(
    site: Site, words: tuple[str, ...]
) -> None:
    person = site.stranger(words[0])
    person.writes(site.file("bravo", "n4", "n3"))
    named = [word.format(n1=site.address("n1")) for word in words]
    said = refused(site, person, *named, "--accept-new-host-keys")
    assert f"it belongs to the cluster {site.hosts.lab.name}" in said
    assert f"with job {site.job}." in said


def test_a_host_of_the_lock_that_another_cluster_took_meanwhile_is_left_as_it_is_when_deployed_and_when_removed(
    site: Site,
) -> None:
    site.hosts.on("n2", f"{ELSEWHERE} /etc/slurm/slurm.conf")
    before = snapshots(site.hosts, "n2")
    done = ended(site.owner.slurmfab("deploy"), 3)
    assert "n2: it belongs to the cluster xray, whose controller is zed(10.99.0.1)" in words_of(done)
    done = succeeded(site.owner.slurmfab("remove-node", "n2"))
    assert "slurmd runs there. So nothing was changed there." in words_of(done)
    assert snapshots(site.hosts, "n2") == before
    assert site.hosts.on("n2", "systemctl is-active slurmd munge").split() == ["active", "active"]
    assert "n2" not in site.owner.cluster_file.read_text()


def test_a_host_with_the_mark_of_another_cluster_when_added_is_refused_and_joins_when_that_is_allowed(
    site: Site,
) -> None:
    site.hosts.on("n3", f"systemctl disable --quiet --now slurmd; {ELSEWHERE} /etc/slurm/slurm.conf")
    said = refused(site, site.owner, "add-node", site.address("n3"))
    assert "n3: it belongs to the cluster xray, whose controller is zed(10.99.0.1) (/etc/slurm/slurm.conf)" in said
    assert "No daemon of Slurm runs there now." in said
    succeeded(site.owner.slurmfab("add-node", site.address("n3"), "--allow", "host-in-use"))
    assert site.hosts.on("ctl", AS_SLURM + "srun -w n3 hostname") == "n3"


def test_the_job_of_the_cluster_that_others_wanted_has_run_to_its_end(site: Site) -> None:
    site.hosts.on("n1", "touch /tmp/finish")
    site.hosts.until("ctl", f"scontrol -o show job {site.job} | grep -o JobState=[A-Z]*", "JobState=COMPLETED")
    lock = json.loads((site.owner.cluster_file.parent / "cluster.lock.json").read_text())
    assert sorted(lock["hosts"]) == ["ctl", "n1", "n3"]
