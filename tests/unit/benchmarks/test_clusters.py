"""Cluster files that the benchmarks write, and what they hand to the peers."""

from __future__ import annotations

import ast
import runpy
import subprocess
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
import yaml

from benchmarks.access import SSH_PORT, Access, Place
from benchmarks.clusters import Cluster, with_endpoints
from benchmarks.light_hosts import cluster_file
from benchmarks.peers.peer import HERE, Job
from benchmarks.peers.tools import installed, prepare
from benchmarks.scenarios.add_node import write_members
from benchmarks.scenarios.first_deployment import LEAN, PLAIN, SPARING, install
from slurmfab.cluster.inventory import loading
from slurmfab.hosts import route
from slurmfab.lab import Lab, LabHost, LabSpec, clusterfile

NODES = 3
KEYS = {"ssh-ed25519": "AAAAC3NzaC1lZDI1NTE5AAAAIPIMxVC1MpDeEOpiwDRn8vYxJ/Rc4oBRNG4AzTqiFVyE"}
NAMES = ("ctl", "n1", "n2", "n3")
ADDRESSES = {name: f"10.1.1.{10 + number}" for number, name in enumerate(NAMES)}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A lab as lab-up would write it down, without any hosts."""
    spec = LabSpec(name="x", nodes=NODES)
    hosts = tuple(
        LabHost("x", name, address, "compute" if name != "ctl" else "controller", KEYS)
        for name, address in ADDRESSES.items()
    )
    file = tmp_path / "lab-x.yaml"
    clusterfile.write(file, clusterfile.render(spec, ADDRESSES, tmp_path / "key"), clusterfile.render_lock(hosts))
    lab = Lab("x", "trixie", hosts, tmp_path, tmp_path / "key", file, spec)
    places = tuple(Place(host.name, host.address, SSH_PORT, KEYS) for host in hosts)
    return Cluster(lab, file, Access(places, tmp_path / "key", tmp_path / "access").write())


def through_proxies(hosts: Access, directory: Path) -> Access:
    places = (
        replace(place, address="127.0.0.1", port=4000 + number, behind=place.address)
        for number, place in enumerate(hosts.places)
    )
    return Access(tuple(places), hosts.key, directory).write()


def test_a_cluster_behind_proxies_when_read_then_differs_in_nothing_but_where_ssh_goes(
    cluster: Cluster, tmp_path: Path
) -> None:
    far = with_endpoints(cluster, through_proxies(cluster.access, tmp_path / "far"), tmp_path / "far.yaml")
    near_file, far_file = loading.load(cluster.file), loading.load(far.file)
    assert far_file.cluster.addresses == near_file.cluster.addresses == ADDRESSES
    assert far_file.lock == near_file.lock
    ways = route.to_hosts(far_file.cluster)
    assert {(way.address, way.port, way.user) for way in ways.values()} == {
        ("127.0.0.1", 4000 + number, "root") for number in range(1 + NODES)
    }


def test_a_value_when_changed_twice_then_stands_in_the_cluster_file_once(cluster: Cluster) -> None:
    for value in (301, 302):
        cluster.change("SlurmdTimeout", value)
    assert cluster.file.read_text().count("SlurmdTimeout") == 1
    assert dict(loading.load(cluster.file).cluster.slurm_conf.items())["SlurmdTimeout"] == "302"


def test_a_growing_cluster_when_written_then_knows_its_first_members_alone(cluster: Cluster) -> None:
    write_members(cluster, 2)
    known = loading.load(cluster.file)
    assert known.cluster.hosts == ("ctl", "n1", "n2")
    assert set(known.lock.hosts) == set(known.cluster.addresses) == {"ctl", "n1", "n2"}


def test_lightweight_hosts_when_their_file_is_read_then_are_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    known = loading.load(cluster_file(through_proxies(cluster.access, tmp_path / "far"), tmp_path))
    assert known.cluster.hosts == NAMES
    assert known.cluster.addresses == ADDRESSES
    assert dict(known.lock.hosts["n3"].host_keys) == KEYS


@pytest.mark.parametrize("role", ["controller", "compute"])
def test_the_floor_of_a_first_deployment_when_looked_at_then_installs_what_slurmfab_installs(role: str) -> None:
    daemon = {"controller": "slurmctld", "compute": "slurmd"}[role]
    words = install(role)
    assert subprocess.run(["sh", "-n", "-c", words], check=False).returncode == 0
    assert {"munge", "slurm-client", daemon} <= set(words.replace(";", " ").split())
    assert "--no-install-recommends" not in words
    assert SPARING in install(role, SPARING)
    assert PLAIN != LEAN


@pytest.fixture
def job(cluster: Cluster, tmp_path: Path) -> Job:
    made = Job(through_proxies(cluster.access, tmp_path / "far"), tmp_path / "job")
    prepare(made)
    return made


def test_peers_when_prepared_then_reach_hosts_where_ssh_goes_and_write_about_their_own_addresses(job: Job) -> None:
    found = runpy.run_path(str(job.directory / "inventory.py"))
    assert [name for name, _ in found["controller"]] == ["ctl"]
    by_name = dict(found["compute"])
    assert (by_name["n2"]["ssh_hostname"], by_name["n2"]["ssh_port"]) == ("127.0.0.1", 4002)
    assert by_name["n2"]["address"] == ADDRESSES["n2"]
    lines = (job.directory / "inventory.ini").read_text().splitlines()
    assert lines[:3] == ["[controller]", "ctl address=10.1.1.10", "[compute]"]
    assert f"ansible_ssh_common_args=-F {job.hosts.config}" in lines


def test_the_munge_key_when_made_then_is_the_users_alone_and_stays(job: Job) -> None:
    key = job.munge_key.read_bytes()
    prepare(job)
    assert job.munge_key.read_bytes() == key
    assert job.munge_key.stat().st_mode & 0o077 == 0


def test_the_files_of_both_peers_when_rendered_then_are_the_same_slurm_conf() -> None:
    facts = {"processor_vcpus": 2, "memtotal_mb": 1000}
    hosts = {"groups": {"controller": ["ctl"], "compute": ["n1", "n2"]}, "slurmd_timeout": 301}
    hosts["hostvars"] = {name: {"ansible_facts": facts} for name in ("n1", "n2")}
    nodes = [{"name": name, "cpus": 2, "memory": 950} for name in ("n1", "n2")]
    values = {
        "ansible": hosts,
        "pyinfra": {"controller": "ctl", "slurmd_timeout": 301, "nodes": nodes},
    }
    texts = [
        jinja2.Template((HERE / peer / "templates/slurm.conf.j2").read_text(), trim_blocks=True).render(given)
        for peer, given in values.items()
    ]
    assert texts[0] == texts[1]
    assert "NodeName=n2 CPUs=2 RealMemory=950 State=UNKNOWN" in texts[0]


def test_the_files_of_the_peers_when_parsed_then_are_well_formed() -> None:
    plays = yaml.safe_load((HERE / "ansible/site.yml").read_text())
    assert [play["hosts"] for play in plays] == ["all", "controller", "compute", "controller"]
    ast.parse((HERE / "pyinfra/deploy.py").read_text())
    assert "pipelining = True" in (HERE / "ansible/ansible.cfg").read_text()


def test_peers_when_pip_cannot_install_them_then_are_missing_with_a_plain_word(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    pip = programs / "pip"
    pip.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found' >&2\nexit 1\n")
    pip.chmod(0o755)
    tools = installed(tmp_path)
    assert tools.peers == []
    assert set(tools.missing) == {"Ansible", "pyinfra"}
    assert "pip does not install ansible-core here" in tools.missing["Ansible"]
    assert "No matching distribution found" in tools.missing["Ansible"]
