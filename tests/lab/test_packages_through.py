"""Compute nodes that reach no mirror: their packages come through the controller, which fetches each file once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fingerprints import AT_WORK
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import HOLD_LOCK, Person, wait_for_dpkg, words_of
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

CLUSTER_FILE = """\
cluster: through
ssh: {{user: root, key: {key}}}
addresses: {addresses}
controllers: [ctl]
nodes:
  - hosts: n[1-3]
packages: {{through: controller}}
"""
HOSTS = ("ctl", "n1", "n2", "n3")
LISTENS = "ss -Hltn 'sport = :3142' | wc -l"
LEFT = "ls -A /var/tmp | grep -v systemd-private | wc -l; pgrep -u _apt | wc -l"
OWN_SETTINGS = "grep -ril proxy /etc/apt | wc -l; ip route show default | wc -l"
JOBS = AS_SLURM + "srun -N{} hostname | sort | xargs"
NO_WAY = "ip route %s unreachable %s/32"
ASKS = 'exec 3<>/dev/tcp/%s/3142; printf "GET %s HTTP/1.1\\r\\n\\r\\n" >&3; head -1 <&3'


@dataclass(frozen=True)
class Through:
    """A controller that reaches its mirror, and three compute nodes that do not."""

    hosts: DeployedLab
    person: Person

    def asks(self, host: str, url: str) -> str:
        """What the proxy on the controller answers a host that asks it for an address."""
        return self.hosts.on(host, f"bash -c '{ASKS % (self.hosts.lab.host('ctl').address, url)}'")


@pytest.fixture(scope="module", params=in_turn("packages_through"))
def through(
    request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Through]:
    person = Person.at(tmp_path_factory.mktemp("through"))
    with stock.bare(request.param, nodes=3, offline=HOSTS[1:]) as hosts:
        addresses = ", ".join(f"{name}: {hosts.lab.host(name).address}" for name in HOSTS)
        person.writes(CLUSTER_FILE.format(key=hosts.lab.ssh_key, addresses=f"{{{addresses}}}"))
        person.has_seen(hosts.lab, *HOSTS)
        yield Through(hosts, person)


def test_nodes_without_a_mirror_when_they_are_deployed_then_the_controller_fetches_each_file_once_for_all(
    through: Through,
) -> None:
    lab.kill_host(through.hosts.lab, "n3")
    done = ended(through.person.slurmfab("deploy"), 3)
    told = re.search(r"ctl fetched (\d+) files of packages once \(\d.*\) and passed on (\d+) \(", words_of(done))
    assert told, words_of(done)
    fetched, passed_on = map(int, told.groups())
    # Two nodes asked for the same files: package lists, signatures and packages.
    assert (fetched > 10, passed_on) == (True, 2 * fetched)
    assert through.hosts.on("ctl", JOBS.format(2)) == "n1 n2"
    assert through.hosts.on("n1", OWN_SETTINGS).split() == ["0", "0"]
    assert through.hosts.on("ctl", LISTENS) == "0"
    assert through.hosts.on("ctl", LEFT).split() == ["0", "0"]


def test_a_second_deployment_when_nothing_is_missing_then_nobody_listens_and_nothing_changes(through: Through) -> None:
    done = through.person.slurmfab("deploy", "--hosts", "ctl,n1,n2")
    assert "nothing changed" in words_of(done)
    assert "fetched" not in words_of(done)


def test_a_node_that_does_not_reach_the_controller_then_it_goes_its_own_way_and_the_reason_is_told(
    through: Through,
) -> None:
    lab.start_host(through.hosts.lab, "n3")
    controller = through.hosts.lab.host("ctl").address
    through.hosts.on("n3", NO_WAY % ("add", controller))
    try:
        done = through.person.slurmfab("deploy")
    finally:
        through.hosts.on("n3", NO_WAY % ("delete", controller))
    assert done.returncode == 3, words_of(done)
    assert f"n3: packages come by this host's own way: {controller} port 3142: No route to host" in words_of(done)
    assert "n3: packages:" in words_of(done)


def test_a_run_that_is_killed_then_strangers_were_refused_and_nothing_listens_any_more(through: Through) -> None:
    through.hosts.on("n3", f'systemd-run --quiet python3 -c "{HOLD_LOCK}"')
    through.hosts.until("n3", "ls /tmp/held", "/tmp/held")
    process = through.person.start("deploy")
    try:
        through.hosts.until("ctl", LISTENS, "1")
        wait_for_dpkg(through.hosts, "n3")
        mirror = through.hosts.on("ctl", "apt-get indextargets --format '$(REPO_URI)' | head -1")
        # n1 is a host of the cluster, to which this run brings no packages.
        assert "403 slurmfab serves hosts that it installs packages on" in through.asks("n1", mirror)
        assert "403 this is below no package source" in through.asks("n3", "http://169.254.169.254/latest/")
        assert "403 this is below no package source" in through.asks("n3", f"{mirror}../../etc/")
    finally:
        process.kill()
        process.communicate()
        through.hosts.on("n3", "touch /tmp/release")
    through.hosts.until("ctl", LISTENS, "0")
    through.hosts.until("n3", AT_WORK, "0")
    succeeded(through.person.slurmfab("deploy"))
    assert through.hosts.on("ctl", JOBS.format(3)) == "n1 n2 n3"
    assert through.hosts.on("ctl", LEFT).split() == ["0", "0"]
