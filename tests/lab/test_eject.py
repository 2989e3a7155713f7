"""Nobody is locked in: the scripts of an ejected cluster make the same from bare hosts, without slurmfab."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ejected import KEY, Ejected, Wanted, differing, ejected, make
from lab_cluster import AS_SLURM, blackout_heals, ended, succeeded
from lab_user import Person, words_of
from stock import in_turn

from slurmfab import lab
from slurmfab.base.exit_codes import LEFT_OUT

pytestmark = pytest.mark.lab

CLUSTER = """\
controllers: [ctl]
nodes:
  - hosts: n[1-2]
database: ctl
accounts:
  - {name: physics, Fairshare: 60}
users:
  - {name: ann, uid: 7001, accounts: [physics], keys: ["%s"], MaxJobs: 7}
mounts:
  - {path: /srv/shared, source: /srv, type: bind}
prolog: prolog.d
"""


SMALL = Wanted("hej", CLUSTER % KEY, 2, "ctl", down="n2")


@pytest.fixture(scope="module", params=in_turn("eject"))
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ejected]:
    with ejected(SMALL, request.param, tmp_path_factory) as made:
        yield made


def test_scripts_when_they_have_run_on_bare_hosts_then_jobs_of_users_run_there(small: Ejected) -> None:
    hosts = small.hosts
    hosts.until("ctl", "sinfo -h -o '%D %t'", "2 idle")
    assert sorted(hosts.on("ctl", f"{AS_SLURM}srun -N2 hostname").split()) == ["n1", "n2"]
    assert hosts.on("ctl", "cd /tmp && runuser -u ann -- srun -A physics sh -c 'id -u; ls /run/prolog-was-here'") == (
        "7001\n/run/prolog-was-here"
    )


def test_scripts_when_they_have_run_then_the_plan_of_the_cluster_file_is_empty(small: Ejected) -> None:
    assert small.differing() == set(), words_of(small.hosts.slurmfab("plan"))


def test_scripts_when_they_have_run_then_a_blackout_heals_without_a_hand(small: Ejected) -> None:
    blackout_heals(small.hosts)


def test_scripts_when_a_host_is_away_then_all_others_are_made_and_the_next_run_makes_it(small: Ejected) -> None:
    assert small.without is not None
    said = words_of(ended(small.without, LEFT_OUT))
    assert "n2 is left out: no way in as root, or by sudo without a password" in said
    assert "All other hosts are done." in said


def test_scripts_when_written_then_have_no_secret_and_no_slurmfab(small: Ejected) -> None:
    texts = {path.name: path.read_text() for path in small.scripts.rglob("*") if path.is_file()}
    assert [name for name, text in texts.items() for secret in small.secrets if secret in text] == []
    assert not re.search(r"\bslurmfab (deploy|agent)|python3 -m slurmfab", texts["make-cluster"] + texts["n1.sh"])
    assert {path.stat().st_mode & 0o077 for path in small.scripts.rglob("*") if path.is_file()} == {0}


def test_scripts_when_they_have_run_then_an_import_finds_the_cluster_and_its_plan_is_empty(
    small: Ejected, tmp_path: Path
) -> None:
    admin, hosts = Person.at(tmp_path), small.hosts.lab
    admin.has_seen(hosts, *(host.name for host in hosts.hosts))
    where = ("--hosts", hosts.host("ctl").address, "--user", "root", "--key", str(hosts.ssh_key), "--adopt", "usual")
    succeeded(admin.slurmfab("import", *where))
    assert differing(admin) == set(), words_of(admin.slurmfab("plan"))


def test_scripts_when_users_and_slurm_have_put_links_in_the_way_then_root_follows_none(small: Ejected) -> None:
    hosts, as_it_is = small.hosts, "stat -c '%U %a' /root; ls -A /root"
    hosts.on("n1", "runuser -u ann -- sh -c 'cd /home/ann && rm -r .ssh && ln -s /root .ssh'")
    slurm = f"{AS_SLURM}sh -c 'cd /var/lib/slurm/home && {{}}'"
    hosts.on("ctl", slurm.format("mv .ssh/id_ed25519.pub was && ln -s /root/secret.pub .ssh/id_ed25519.pub"))
    hosts.on("ctl", "(umask 077 && echo ssh-ed25519 AAAAsecret >/root/secret.pub)")
    hosts.on("n2", slurm.format("mv .ssh was && ln -s /root .ssh"))
    before = [hosts.on(host, as_it_is) for host in ("n1", "n2")]
    said = words_of(ended(make(hosts, SMALL, small.scripts), LEFT_OUT))
    assert [hosts.on(host, as_it_is) for host in ("n1", "n2")] == before
    assert "n1: the keys of UID 7001 are not in /home/ann/.ssh/authorized_keys" in said
    assert "n2: /var/lib/slurm/home/.ssh is a link, and others than root can change it" in said
    assert "n2 is left out: failed in the phase" in said
    assert "AAAAsecret" not in hosts.on("n1", "cat /var/lib/slurm/home/.ssh/authorized_keys")
    hosts.on("ctl", slurm.format("mv was .ssh/id_ed25519.pub"))
    hosts.on("n1", "rm /home/ann/.ssh")
    hosts.on("n2", slurm.format("rm .ssh && mv was .ssh"))


def test_an_ejection_when_hosts_differ_or_are_silent_then_writes_nothing_and_says_which(
    small: Ejected, tmp_path: Path
) -> None:
    hosts, place = small.hosts, tmp_path / "scripts"
    hosts.deploy()
    hosts.on("n1", "echo '# by hand' >>/etc/slurm/slurm.conf")
    differing = hosts.slurmfab("eject", "--to", str(place))
    assert (differing.returncode, "n1 differs from the cluster file" in words_of(differing)) == (1, True), differing
    hosts.deploy()
    lab.unplug_host(hosts.lab, "n2")
    silent = hosts.slurmfab("eject", "--to", str(place))
    assert (silent.returncode, "n2 could not be asked" in words_of(silent)) == (1, True), silent
    assert [*tmp_path.iterdir()] == []
    other = hosts.slurmfab("eject", "--to", str(small.scripts))
    assert (other.returncode, "is not empty" in words_of(other)) == (2, True), other
