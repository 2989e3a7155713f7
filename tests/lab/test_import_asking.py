"""What `fab import` asks and leaves alone: any host named first, dead nodes, other hosts, passwords, files there."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from fingerprints import every_file
from hand_made import KINDS, HandMade
from lab_cluster import ended
from lab_user import Person, words_of
from lying_agent import honest_again, make_liar
from stock import Stock, in_turn

from slurmfab import lab
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory import loading
from slurmfab.lab import network

pytestmark = pytest.mark.lab

SECRET = "Nobody+Learns+Th1s"
CONF = "/etc/slurm/slurm.conf"
ALL = ("ctl", "n1", "n2", "n3")


@dataclass(frozen=True)
class Site:
    """A cluster of ctl, n1 and n2 that an admin made by hand, and n3, which has Slurm's packages alone."""

    made: HandMade
    places: Path

    def person(self, name: str) -> Person:
        """A user of slurmfab who has never heard of the cluster."""
        return Person.at(self.places / name)

    def run(
        self, person: Person, command: str, *names: str, words: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command about these hosts, by their addresses."""
        addresses = ",".join(self.made.lab.lab.host(name).address for name in names)
        key = str(self.made.lab.lab.ssh_key)
        options = ["--user", "root", "--key", key, "--accept-new-host-keys"]
        return person.slurmfab(command, "--hosts", addresses, *options, *words)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """A context in which no file of any host is written, and all jobs and daemons go on."""
        files, jobs, daemons = every_file(self.made.lab, *ALL), self.made.jobs(), self.made.daemons()
        yield
        written = {name: now ^ files[name] for name, now in every_file(self.made.lab, *ALL).items()}
        assert not any(written.values()), written
        assert (self.made.jobs(), self.made.daemons()) == (jobs, daemons)


@pytest.fixture(scope="module", params=in_turn("import_asking"))
def site(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with stock.installed(request.param, nodes=3) as hosts:
        made = KINDS["plain"].make(hosts, request.param)
        hosts.on("ctl", f"echo JobCompPass={SECRET} >>/etc/slurm/slurm.conf")
        hosts.on("n2", "sed -i s/KillWait=60/KillWait=90/ /etc/slurm/slurm.conf")
        yield Site(made, tmp_path_factory.mktemp("site"))


@contextmanager
def conf_of_ctl(site: Site, change: str) -> Iterator[None]:
    """A context in which slurm.conf of ctl, which slurmctld does not read meanwhile, is changed by sed."""
    site.made.on("ctl", f"cp -a {CONF} /root/was && sed -i '{change}' {CONF}")
    try:
        yield
    finally:
        site.made.on("ctl", f"mv /root/was {CONF}")


def files_of(person: Person) -> dict[str, str]:
    found = (path for path in person.directory.rglob("*.*") if path.is_file())
    return {str(path.relative_to(person.directory)): path.read_text() for path in found}


def test_an_import_when_a_compute_node_is_named_then_finds_all_hosts_and_touches_no_file_of_any(site: Site) -> None:
    person = site.person("node")
    with site.untouched():
        done = site.run(person, "import", "n1", words=("--json", "-"))
    assert done.returncode == 0, words_of(done)
    told = json.loads(done.stdout)
    assert (told["cluster"], told["controller"], sorted(told["hosts"])) == ("cluster", "ctl", ["ctl", "n1", "n2"])
    assert "is a host of the cluster whose controller is ctl; going on with ctl." in done.stderr
    assert [one for one in told["remarks"] if "n2" in one and "KillWait" in one]
    known = loading.load(person.cluster_file)
    assert (known.cluster.controllers, known.cluster.compute_nodes) == (("ctl",), ("n1", "n2"))
    assert known.lock.hosts["n2"].host_keys == dict(site.made.lab.lab.host("n2").host_keys)


def test_a_password_in_slurm_conf_then_is_in_no_file_and_in_no_message_and_its_key_is_told(site: Site) -> None:
    person = site.person("password")
    done = site.run(person, "import", "ctl", words=("--verbose",))
    assert done.returncode == 0, words_of(done)
    assert SECRET not in words_of(done) + "".join(files_of(person).values())
    assert "JobCompPass is a password, so its value was not read." in " ".join(words_of(done).split())


def test_an_import_when_its_file_exists_then_asks_no_host_and_writes_nothing(site: Site) -> None:
    person = site.person("again")
    person.writes("cluster: mine\n")
    done = ended(person.slurmfab("import", "--hosts", "192.0.2.1"), 2)
    assert "cluster.yaml exists already" in done.stderr
    assert files_of(person) == {"configs/cluster.yaml": "cluster: mine\n"}


def test_a_host_without_a_slurm_conf_when_named_alone_is_refused_with_the_command_that_makes_a_cluster(
    site: Site,
) -> None:
    person = site.person("bare")
    done = site.run(person, "import", "n3")
    assert done.returncode == 2, words_of(done)
    said = " ".join(words_of(done).split())
    assert "there is no slurm.conf that names a controller" in said
    assert "If there is no cluster yet, make one of these hosts:" in said
    assert "deploy --hosts" in said
    assert files_of(person) == {}


def test_a_host_that_is_no_member_when_named_too_then_is_left_out_and_told(site: Site) -> None:
    person = site.person("more")
    done = site.run(person, "import", "ctl", "n3", words=("--json", "-"))
    assert done.returncode == 0, words_of(done)
    told = json.loads(done.stdout)
    assert sorted(told["hosts"]) == ["ctl", "n1", "n2"]
    assert [one for one in told["remarks"] if "add-node" in one]


@pytest.mark.parametrize("command", ["deploy", "plan"])
def test_a_first_contact_with_the_cluster_then_is_refused_and_names_the_import(site: Site, command: str) -> None:
    person = site.person(command)
    with site.untouched():
        done = site.run(person, command, "ctl", "n1", "n2")
    assert done.returncode == 2, words_of(done)
    said = " ".join(words_of(done).split())
    assert "the partition debug; the settings of its slurm.conf, which slurmfab did not make" in said
    assert "import --hosts ctl (with the same options of SSH), then deploy with it" in said
    assert files_of(person) == {}


def test_a_controller_by_an_old_key_and_an_alias_of_ssh_then_is_reached_by_the_file_as_it_was_by_the_import(
    site: Site,
) -> None:
    made, person = site.made.lab.lab, site.person("alias")
    key = f"  User {made.spec.ssh_user}\n  IdentityFile {made.ssh_key}\n"
    aliases = f"Host head\n  HostName {made.host('ctl').address}\n  HostKeyAlias head\n{key}Host n1 n2\n{key}"
    (person.home / ".ssh" / "config").write_text(aliases)
    with conf_of_ctl(site, "s/^SlurmctldHost=ctl/ControlMachine=ctl\\nControlAddr=ctl/"):
        become = ("--become", "sudo") if made.spec.ssh_user != "root" else ()
        done = person.slurmfab("import", "--hosts", "head", "--accept-new-host-keys", *become)
        assert done.returncode == 0, words_of(done)
        known = loading.load(person.cluster_file).cluster
        assert known.addresses["ctl"] == made.host("ctl").address
        plan = json.loads(ended(person.slurmfab("plan", "--json", "-"), 4).stdout)
        told = [
            (step["host"], one["id"]) for step in plan["steps"] for one in step["outcomes"] if one["status"] != "ok"
        ]
        written = [host for host, resource in told if resource.startswith("slurm-files:")]
        assert f"will write slurm.conf anew on {fold(written)}," in " ".join(words_of(done).split())


def test_a_node_that_slurm_conf_puts_on_the_deployer_then_is_refused_and_nothing_is_connected(site: Site) -> None:
    person, made = site.person("deployer"), site.made.lab.lab
    here = str(network.gateway(IPv4Network(f"{made.host('ctl').address}/24", strict=False)))
    with socket.create_server((here, 22)) as listener, conf_of_ctl(site, f"/^NodeName/s/$/ NodeAddr={here},n2/"):
        listener.setblocking(False)
        done = site.run(person, "import", "ctl")
        assert done.returncode == 2, words_of(done)
        assert f"names n1 at {here}, which is this machine" in " ".join(words_of(done).split())
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert files_of(person) == {}


DENIAL = """
def lie(told):
    if "facts" in told:
        munge = told["facts"]["accounts"]["munge"]
        for kind, numbers in (("uid", "uids"), ("gid", "gids")):
            told["facts"][numbers].update({str(munge[kind]): "other", "555": "munge"})
            munge[kind] = 555
        told["facts"]["groups"]["munge"] = 555
        return told
"""


def test_a_node_that_has_another_number_for_munge_and_denies_that_of_the_others_then_is_left_out(site: Site) -> None:
    person, uid = site.person("number"), int(site.made.lab.on("ctl", "id -u munge"))
    make_liar(site.made.lab, "n2", DENIAL)
    try:
        done = site.run(person, "import", "ctl", words=("--json", "-"))
    finally:
        honest_again(site.made.lab, "n2")
    assert done.returncode == 3, words_of(done)
    told = json.loads(done.stdout)
    assert f"UID {uid}, wanted for munge, belongs to other there." in told["unreachable"]["n2"]
    assert loading.load(person.cluster_file).lock.ids["munge.uid"] == uid


def test_a_node_without_power_when_the_cluster_is_imported_then_stays_in_slurm_conf_as_it_is(site: Site) -> None:
    person = site.person("dead")
    lab.kill_host(site.made.lab.lab, "n2")
    try:
        done = site.run(person, "import", "ctl", words=("--json", "-"))
        assert done.returncode == 3, words_of(done)
        told = json.loads(done.stdout)
        assert (sorted(told["hosts"]), list(told["unreachable"]), told["exit_code"]) == (["ctl", "n1"], ["n2"], 3)
        known = loading.load(person.cluster_file)
        assert known.cluster.compute_nodes == ("n1", "n2")
        plan = json.loads(person.slurmfab("plan", "--json", "-").stdout)
        assert (plan["exit_code"], list(plan["lost"])) == (3, ["n2"])
        assert not [one for one in plan["slurm_conf"] if one["kind"] == "node"]
    finally:
        lab.start_host(site.made.lab.lab, "n2")
