"""Nobody is locked in: the scripts of an ejected cluster make the same from bare hosts, without slurmfab."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab
from lab_user import Person, installed, running_lab, words_of
from stock import in_turn

from slurmfab import lab
from slurmfab.lab.spec import LabSpec
from slurmfab.on_hosts.agent.files.owned_files import RECORD

pytestmark = pytest.mark.lab

MORE = """\
database: ctl
accounts:
  - {name: physics, Fairshare: 60}
users:
  - {name: ann, uid: 7001, accounts: [physics], keys: ["%s"], MaxJobs: 7}
mounts:
  - {path: /srv/shared, source: /srv, type: bind}
prolog: prolog.d
"""
PROLOG = "#!/bin/sh\ntouch /run/prolog-was-here\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5JX3oSsZjPsVDsRr3Gmug/5T3ezqVzA2QkLtmDFPdU ann@home"


@dataclass(frozen=True)
class Ejected:
    """Bare hosts on which the scripts of an ejected cluster have run.

    Args:
        hosts: the hosts, with the cluster file of the first ones.
        scripts: the directory of the scripts.
        secrets: keys and passwords that the first hosts had.
        said: what `make-cluster` printed.
    """

    hosts: DeployedLab
    scripts: Path
    secrets: tuple[str, ...]
    said: str


@pytest.fixture(scope="module", params=in_turn("eject"))
def ejected(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ejected]:
    scripts = tmp_path_factory.mktemp("ejected") / "scripts"
    spec, database = LabSpec(name="hej", suite=request.param, nodes=2), ("mariadb-server", "slurmdbd")
    with running_lab(installed(spec, ctl=database), tmp_path_factory.mktemp("first")) as first:
        write_files(first)
        first.deploy()
        done = first.slurmfab("eject", "--to", str(scripts))
        assert done.returncode == 0, words_of(done)
        secrets = tuple(
            first.on(host, command)
            for host, command in (
                ("ctl", "base64 -w0 /etc/munge/munge.key"),
                ("ctl", "sed -n s/^StoragePass=//p /etc/slurm/slurmdbd.conf"),
                ("n1", "sed -n 2p /var/lib/slurm/home/.ssh/id_ed25519"),
            )
        )
    # A lab that is made again under its name has its addresses.
    with running_lab(spec, tmp_path_factory.mktemp("bare")) as bare:
        write_files(bare)
        yield Ejected(bare, scripts, secrets, made(bare, scripts))


def write_files(hosts: DeployedLab) -> None:
    """The cluster file with all that is tried, and the script that it names."""
    hosts.inventory_path.write_text(hosts.inventory_path.read_text() + MORE % KEY)
    directory = hosts.inventory_path.parent / "prolog.d"
    directory.mkdir()
    (directory / "10-here").write_text(PROLOG)
    (directory / "10-here").chmod(0o755)


def made(hosts: DeployedLab, scripts: Path) -> str:
    """What `make-cluster` says on bare hosts, whose keys are known."""
    options = f"-i {hosts.lab.ssh_key} -o UserKnownHostsFile={hosts.lab.directory / 'known_hosts'}"
    done = subprocess.run(
        [scripts / "make-cluster"],
        env={**os.environ, "SSH_OPTIONS": options},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_scripts_when_they_have_run_on_bare_hosts_then_jobs_of_users_run_there(ejected: Ejected) -> None:
    hosts = ejected.hosts
    hosts.until("ctl", "sinfo -h -o '%D %t'", "2 idle")
    assert sorted(hosts.on("ctl", f"{AS_SLURM}srun -N2 hostname").split()) == ["n1", "n2"]
    assert hosts.on("ctl", "cd /tmp && runuser -u ann -- srun -A physics sh -c 'id -u; ls /run/prolog-was-here'") == (
        "7001\n/run/prolog-was-here"
    )


def differing(admin: DeployedLab | Person) -> set[str]:
    """What a plan would change, but for slurmfab's own records of what it has written, which scripts have none of."""
    planned = admin.slurmfab("plan", "--json", "-")
    assert planned.returncode in (0, 4), words_of(planned)
    told = [
        f"{step['host']} {outcome['id']} {change['name']} {outcome['message']}"
        for step in json.loads(planned.stdout)["steps"]
        for outcome in step["outcomes"]
        for change in outcome["changes"] or [{"name": outcome["status"]}]
    ]
    assert any(RECORD in line for line in told), told
    return {line for line in told if RECORD not in line}


def test_scripts_when_they_have_run_then_the_plan_of_the_cluster_file_is_empty(ejected: Ejected) -> None:
    assert differing(ejected.hosts) == set(), words_of(ejected.hosts.slurmfab("plan"))


def test_scripts_when_they_run_again_then_nothing_is_torn(ejected: Ejected) -> None:
    key = ejected.hosts.on("ctl", "sha256sum /etc/munge/munge.key")
    made(ejected.hosts, ejected.scripts)
    assert ejected.hosts.on("ctl", "sha256sum /etc/munge/munge.key") == key
    test_scripts_when_they_have_run_then_the_plan_of_the_cluster_file_is_empty(ejected)


def test_scripts_when_written_then_have_no_secret_and_no_slurmfab(ejected: Ejected) -> None:
    texts = {path.name: path.read_text() for path in ejected.scripts.rglob("*") if path.is_file()}
    assert [name for name, text in texts.items() for secret in ejected.secrets if secret in text] == []
    assert not re.search(r"\bslurmfab (deploy|agent)|python3 -m slurmfab", texts["make-cluster"] + texts["n1.sh"])
    assert {path.stat().st_mode & 0o077 for path in ejected.scripts.rglob("*") if path.is_file()} == {0}


def test_scripts_when_they_have_run_then_an_import_finds_the_cluster_and_its_plan_is_empty(
    ejected: Ejected, tmp_path: Path
) -> None:
    admin, hosts = Person.at(tmp_path), ejected.hosts.lab
    admin.has_seen(hosts, *(host.name for host in hosts.hosts))
    where = ("--hosts", hosts.host("ctl").address, "--user", "root", "--key", str(hosts.ssh_key), "--adopt", "usual")
    done = admin.slurmfab("import", *where)
    assert done.returncode == 0, words_of(done)
    assert differing(admin) == set(), words_of(admin.slurmfab("plan"))


def test_an_ejection_when_hosts_differ_or_are_silent_then_writes_nothing_and_says_which(
    ejected: Ejected, tmp_path: Path
) -> None:
    hosts, place = ejected.hosts, tmp_path / "scripts"
    hosts.deploy()
    hosts.on("n1", "echo '# by hand' >>/etc/slurm/slurm.conf")
    differing = hosts.slurmfab("eject", "--to", str(place))
    assert (differing.returncode, "n1 differs from the cluster file" in words_of(differing)) == (1, True), differing
    hosts.deploy()
    lab.unplug_host(hosts.lab, "n2")
    silent = hosts.slurmfab("eject", "--to", str(place))
    assert (silent.returncode, "n2 could not be asked" in words_of(silent)) == (1, True), silent
    assert [*tmp_path.iterdir()] == []
    other = hosts.slurmfab("eject", "--to", str(ejected.scripts))
    assert (other.returncode, "is not empty" in words_of(other)) == (2, True), other
