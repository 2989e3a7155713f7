"""Clusters on IPv6: hosts without an IPv4 address, and hosts of which only some have one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import Person, words_of
from stock import Stock, in_turn

from slurmfab.cluster.slurm.versions import SlurmVersion, distribution_version
from slurmfab.lab import clusterfile

pytestmark = pytest.mark.lab

PORT = 2222
"""A further port of n3's sshd."""

STEP = "cd /tmp && runuser -u ann -- srun -N{} hostname | sort | xargs"
"""A job of an ordinary user with a step on several nodes."""

BATCH = (
    "cd /tmp && printf '#!/bin/sh\\nsrun -N2 hostname\\n' >job && chmod 755 job && rm -f steps && "
    "runuser -u ann -- sbatch --quiet --wait -N2 -o steps /tmp/job && sort steps | xargs"
)
"""A job whose srun runs on a compute node, and connects from there to the other one."""


@dataclass(frozen=True)
class Founded:
    """A cluster that first contact made on hosts without IPv4.

    Args:
        hosts: the lab's hosts.
        person: the user.
        done: the command of first contact.
    """

    hosts: DeployedLab
    person: Person
    done: subprocess.CompletedProcess[str]

    def address(self, host: str) -> str:
        return self.hosts.lab.host(host).address

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run slurmfab in the directory of the cluster file; it must succeed."""
        return succeeded(self.person.slurmfab(*words))


@pytest.fixture(scope="module", params=in_turn("ipv6"))
def founded(
    request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Founded]:
    """A cluster of ctl, n1 and n2, which a user who knows their keys made with addresses alone."""
    every = ("ctl", "n1", "n2", "n3")
    with stock.installed(request.param, ipv6=every) as hosts:
        person = Person.at(tmp_path_factory.mktemp("ipv6"))
        person.has_seen(hosts.lab, *every[:3])
        for name in every:
            hosts.on(name, "useradd -u 4321 ann")
        # Without a mirror, n3 has its packages before it joins; slurmd of 24.11 then looks for a controller in DNS.
        hosts.on("n3", "systemctl disable --now --quiet slurmd")
        ctl, n1, n2 = (hosts.lab.host(name).address for name in every[:3])
        words = ("--hosts", f"[{ctl}]:22,{n1},root@[{n2}]", "--user", "root", "--key", str(hosts.lab.ssh_key))
        yield Founded(hosts, person, person.slurmfab("deploy", *words))


def test_hosts_when_named_by_ipv6_addresses_then_they_become_a_cluster(founded: Founded) -> None:
    assert founded.done.returncode == 0, words_of(founded.done)
    text = founded.person.cluster_file.read_text().replace('"', "")
    assert f"  ctl: {founded.address('ctl')}\n" in text
    assert f"  n[1-2]: {founded.address('n1')[:-2]}[11-12]\n" in text
    conf = founded.hosts.on("n1", "cat /etc/slurm/slurm.conf")
    assert "\nCommunicationParameters=EnableIPv6\n" in conf
    assert f"\nSlurmctldHost=ctl({founded.address('ctl')})\n" in conf


def test_a_plan_when_hosts_have_ipv6_alone_then_it_has_nothing_to_do(founded: Founded) -> None:
    assert "nothing would be changed" in founded.run("plan").stdout


def test_checks_when_hosts_have_ipv6_alone_then_all_pass(founded: Founded) -> None:
    assert " passed in " in founded.run("check-cluster").stdout


def test_a_users_job_when_hosts_have_ipv6_alone_then_it_runs_on_two_nodes(founded: Founded) -> None:
    assert founded.hosts.on("ctl", STEP.format(2)) == "n1 n2"
    assert founded.hosts.on("n1", BATCH) == "n1 n2"


def test_the_slurm_user_when_it_logs_in_elsewhere_then_its_key_is_accepted_from_its_ipv6_address_alone(
    founded: Founded,
) -> None:
    keys = founded.hosts.on("n1", "cat /var/lib/slurm/home/.ssh/authorized_keys")
    assert f'from="{founded.address("ctl")}"' in keys
    for place in ("n1", founded.address("n1")):
        login = f"runuser -u slurm -- ssh -o BatchMode=yes {place} hostname"
        assert founded.hosts.on("ctl", f"cd / && {login}") == "n1"


def test_a_node_when_added_by_address_and_port_then_it_runs_jobs_with_the_others(founded: Founded) -> None:
    founded.hosts.on("n3", f"sed -i '$aPort 22\\nPort {PORT}' /etc/ssh/sshd_config && systemctl restart ssh")
    place = f"[{founded.address('n3')}]:{PORT}"
    refused = ended(founded.person.slurmfab("add-node", place), 2)
    assert f"  {place}: ssh-ed25519 SHA256:" in words_of(refused)
    key = founded.hosts.lab.host("n3").host_keys["ssh-ed25519"]
    with (founded.person.home / ".ssh/known_hosts").open("a") as file:
        file.write(f"{place} ssh-ed25519 {key}\n")
    founded.run("add-node", place)
    text = founded.person.cluster_file.read_text()
    assert place in text
    assert "nothing would be changed" in founded.run("plan").stdout
    assert founded.hosts.on("ctl", STEP.format(3)) == "n1 n2 n3"


def test_configless_when_the_controller_has_ipv6_alone_then_slurm_22_05_is_refused_it_with_the_reason(
    founded: Founded,
) -> None:
    before = founded.person.cluster_file.read_text()
    founded.person.writes(f"{before}configless: true\n")
    try:
        planned = founded.person.slurmfab("plan")
    finally:
        founded.person.writes(before)
    if distribution_version(founded.hosts.lab.suite) < SlurmVersion(24, 11):
        assert planned.returncode == 2
        assert "slurmd of Slurm 22.05 cannot fetch its files over IPv6 (it can from 24.11 on)" in words_of(planned)
    else:
        assert "SlurmctldParameters: (default) -> enable_configless" in words_of(planned)


@pytest.fixture(scope="module", params=in_turn("ipv6"))
def mixed(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A controller and n1 with both kinds of addresses, n2 with IPv6 alone, n3 with IPv4 alone."""
    with stock.installed(request.param, dual=("ctl", "n1"), ipv6=("n2",)) as hosts:
        for name in ("ctl", "n1", "n2", "n3"):
            hosts.on(name, "useradd -u 4321 ann")
        yield hosts


def with_addresses(hosts: DeployedLab, directory: Path, nodes: str, addresses: Mapping[str, str]) -> DeployedLab:
    """The lab with another cluster file: these nodes, and these addresses by host."""
    lines = hosts.inventory_path.read_text().splitlines()
    written = ", ".join(f'{host}: "{address}"' for host, address in addresses.items())
    other = {"addresses:": f"addresses: {{{written}}}", "  - hosts:": f"  - hosts: {nodes}"}
    text = "\n".join(next((new for old, new in other.items() if line.startswith(old)), line) for line in lines)
    path = directory / "cluster.yaml"
    path.write_text(f"{text}\n")
    if not clusterfile.lock_path(path).exists():
        shutil.copy(clusterfile.lock_path(hosts.inventory_path), clusterfile.lock_path(path))
    return DeployedLab(hosts.lab, path)


def test_nodes_when_one_has_ipv4_alone_and_one_ipv6_alone_then_both_are_named_and_nothing_is_changed(
    mixed: DeployedLab, tmp_path: Path
) -> None:
    """On both versions Slurm starts with such nodes, and a job's srun on one fails to launch tasks on the other."""
    ctl, n2, n3 = (mixed.lab.host(name) for name in ("ctl", "n2", "n3"))
    own = with_addresses(mixed, tmp_path, "n[2-3]", {"ctl": ctl.ipv6, "n2": n2.address, "n3": n3.address})
    refused = ended(own.slurmfab("deploy"), 2)
    assert f"n3: reached by IPv4 ({n3.address}); n2: no IPv4 address of its own ({n2.address})" in words_of(refused)
    assert mixed.on("n2", "ls /etc/slurm/slurm.conf", check=False) == ""


def test_a_cluster_on_ipv4_when_its_hosts_get_ipv6_addresses_then_a_node_without_ipv4_joins_and_jobs_are_not_hurt(
    mixed: DeployedLab, tmp_path: Path
) -> None:
    """From Slurm 23.11 on, steps that began before would use IPv4 alone, and never report their end."""
    lab = mixed.lab
    before = with_addresses(mixed, tmp_path, "n1", {name: lab.host(name).address for name in ("ctl", "n1")})
    before.deploy()
    assert "EnableIPv6" not in mixed.on("ctl", "cat /etc/slurm/slurm.conf")
    job = mixed.on("n1", "cd /tmp && runuser -u ann -- sbatch --parsable --mem=50 -o /dev/null --wrap 'sleep 1000'")
    mixed.until("ctl", f"squeue --noheader -j {job} -o %T", "RUNNING")
    places = {name: lab.host(name).ipv6 for name in ("ctl", "n1", "n2")}
    after = with_addresses(mixed, tmp_path, "n[1-2]", places)
    if lab.suite == "trixie":
        refused = ended(after.slurmfab("deploy"), 1)
        assert "--allow controller-ipv6" in words_of(refused)
        mixed.on("ctl", f"scancel {job}")
        mixed.until("ctl", f"squeue --noheader -j {job} -o %T", "")
    after.deploy()
    assert "\nCommunicationParameters=EnableIPv6\n" in mixed.on("n2", "cat /etc/slurm/slurm.conf")
    assert "nothing would be changed" in after.slurmfab("plan").stdout
    if lab.suite == "bookworm":
        assert mixed.on("ctl", f"squeue --noheader -j {job} -o %T") == "RUNNING"
        mixed.on("ctl", f"scancel {job}")
        mixed.until("ctl", f"squeue --noheader -j {job} -o %T", "")
    assert mixed.on("ctl", STEP.format(2)) == "n1 n2"
    assert mixed.on("n1", BATCH) == "n1 n2"
