"""Monitoring: what hosts get, where its daemons listen, and what is taken back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import yaml
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared, prepared_input

from slurmfab.base.paths import METRICS_SETTINGS
from slurmfab.core.plan.phases import monitoring, packages
from slurmfab.core.plan.plan import PHASES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

ALL = "monitoring: {prometheus: c1}\n"
OWNED = {"owned": ("monitoring", "monitoring-server", "monitoring-slurm"), "programs": ("metrics",)}
OURS = {"added_packages": ("prometheus", "prometheus-node-exporter")}


def wanted(more: str, text: str = THREE_HOSTS, **facts: Any) -> PlanInput:
    return prepared_input(text + more, **facts)


def files(known: PlanInput, host: str) -> dict[str, OwnedFile]:
    found = [one for one in monitoring.resources(known, host) if isinstance(one, OwnedFiles)]
    return {path: file for one in found for path, file in one.by_path().items()}


def ids(resources: tuple[Resource, ...]) -> list[str]:
    return [one.id for one in resources]


def arguments(known: PlanInput, host: str, path: str = monitoring.EXPORTER_CONF) -> str:
    return files(known, host)[path].text.rpartition("\nARGS=")[2].strip().strip('"')


@pytest.mark.parametrize(
    ("key", "address"),
    [
        ("monitoring: true", "10.0.0.2:9100"),
        ("monitoring: {port: 9200}", "10.0.0.2:9200"),
        ("monitoring: {listen: 127.0.0.1}", "127.0.0.1:9100"),
        ("monitoring: {listen: '::1'}", "[::1]:9100"),
        ("monitoring: {listen: {n1: 10.9.0.1}}", "10.9.0.1:9100"),
        ("monitoring: {listen: {n2: 10.9.0.1}}", "10.0.0.2:9100"),
        ("monitoring: {listen: 0.0.0.0}", "0.0.0.0:9100"),
    ],
)
def test_the_exporter_listens_where_the_file_says(key: str, address: str) -> None:
    assert arguments(wanted(f"{key}\n"), "n1").split()[0] == f"--web.listen-address={address}"


def test_a_host_without_an_address_in_the_file_listens_on_its_first_own() -> None:
    bare = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
    known = wanted("monitoring: true\n", bare, addresses=("10.7.0.9", "fd00::9"))
    assert arguments(known, "n1").startswith("--web.listen-address=10.7.0.9:9100 ")


def test_every_host_has_an_exporter_and_controllers_collect() -> None:
    known = wanted(ALL)
    units = {host: [one.unit for one in monitoring.resources(known, host) if isinstance(one, Service)] for host in
             ("c1", "n1")}  # fmt: skip
    assert units == {"c1": ["prometheus-node-exporter", "prometheus"], "n1": ["prometheus-node-exporter"]}
    assert [one.unit for one in monitoring.resources(known, "c1") if isinstance(one, Timer)] == ["slurmfab-metrics"]
    assert not any(isinstance(one, Timer | Program) for one in monitoring.resources(known, "n1"))
    assert {"prometheus", "prometheus-node-exporter"} <= packages.wanted(known, "c1")
    assert "prometheus" not in packages.wanted(known, "n1")


def test_the_exporter_of_every_host_reads_one_directory_of_roots_and_no_pattern() -> None:
    known = wanted(ALL)
    for host in ("c1", "n1", "n2"):
        (given,) = (word for word in arguments(known, host).split() if "textfile" in word)
        assert given == "--collector.textfile.directory=/var/lib/slurmfab/node-exporter"
        first = monitoring.resources(known, host)[0]
        assert isinstance(first, Directory)
        assert (first.path, first.owner, first.mode) == ("/var/lib/slurmfab/node-exporter", "root", 0o755)


def test_a_host_that_is_no_controller_any_more_loses_slurms_figures_and_keeps_the_directory() -> None:
    known = wanted("monitoring: true\n", **OWNED, **OURS)
    found = ids(monitoring.resources(known, "n1"))
    assert "absent:/var/lib/slurmfab/node-exporter/slurmfab.prom" in found
    assert "program:/var/lib/slurmfab/node-exporter" not in found


def test_the_program_is_told_what_there_is() -> None:
    more = "backup: {when: daily, directory: /srv/backups}\ngpu_checks: {when: daily}\n"
    assert json.loads(files(wanted("monitoring: true\n" + more), "c1")[METRICS_SETTINGS].text) == {
        "accounting": False,
        "backups": {"cluster": "lab", "directory": "/srv/backups"},
        "drift": "/var/lib/slurmfab/drift.json",
        "file": "/var/lib/slurmfab/node-exporter/slurmfab.prom",
        "gpu_checks": "/var/lib/slurmfab/gpu-checks",
        "slurm": True,
    }


def test_prometheus_asks_all_hosts_by_the_addresses_where_they_listen() -> None:
    known = wanted("monitoring: {listen: {c1: 0.0.0.0, n2: 10.9.0.2}, prometheus: {host: n1, listen: 127.0.0.1}}\n")
    found = yaml.safe_load(files(known, "n1")[monitoring.SCRAPES].text)
    own, nodes = found["scrape_configs"]
    assert own["static_configs"][0]["targets"] == ["127.0.0.1:9090"]
    assert {one["labels"]["instance"]: one["targets"] for one in nodes["static_configs"]} == {
        "c1": ["10.0.0.1:9100"],
        "n1": ["10.0.0.2:9100"],
        "n2": ["10.9.0.2:9100"],
    }
    assert arguments(known, "n1", monitoring.SERVER_CONF).startswith("--web.listen-address=127.0.0.1:9090 ")
    alerts = yaml.safe_load(files(known, "n1")[monitoring.ALERTS].text)
    assert "{{ $labels.cluster }}" in alerts["groups"][0]["rules"][0]["annotations"]["summary"]


@pytest.mark.parametrize(
    ("key", "megabytes"),
    [
        ("c1", 1000 + 3 * 30 * 100),
        ("{host: c1, retention: 1y}", 1000 + 3 * 365 * 100),
        ("{host: c1, retention: 36h, every: 300}", 1000 + 3 * 1 * 100),
        ("{host: c1, retention: 2w, every: 10}", 1000 + 3 * 14 * 100),
        ("{host: c1, retention: 2h}", 1000 + 3 * 1 * 100),
    ],
)
def test_disk_of_prometheus_is_bounded_by_hosts_and_days(key: str, megabytes: int) -> None:
    told = arguments(wanted(f"monitoring: {{prometheus: {key}}}\n"), "c1", monitoring.SERVER_CONF)
    assert told.split()[-1] == f"--storage.tsdb.retention.size={megabytes}MB"


@pytest.mark.parametrize(("slurm", "pages"), [("24.11.5", 0), ("25.11.2", 4)])
def test_prometheus_asks_slurmctld_itself_where_its_version_can_tell(slurm: str, pages: int) -> None:
    whole = cluster(
        THREE_HOSTS + "monitoring: {prometheus: c1, openmetrics: true}\nslurm_conf: {SlurmctldPort: '7000'}\n"
    )
    known = facts_of(whole, prepared, packages={"slurm-client": f"{slurm}-1"})
    known["c1"] = dataclasses.replace(known["c1"], packages={"slurm-client": f"{slurm}-1"})
    found = yaml.safe_load(files(plan_input(whole, known), "c1")[monitoring.SCRAPES].text)
    asked = [one for one in found["scrape_configs"] if one["job_name"].startswith("slurm-")]
    assert len(asked) == pages
    # Root of a host, or whoever answers in its place, sends Prometheus to no other service.
    assert {one["follow_redirects"] for one in found["scrape_configs"]} == {False}
    assert all(one.keys() >= {"body_size_limit"} for one in (*asked, found["scrape_configs"][1]))
    assert all(one["static_configs"][0]["targets"] == ["10.0.0.1:7000"] for one in asked)


def test_without_the_key_all_of_it_goes_before_its_packages() -> None:
    known = wanted("", **OWNED, **OURS)
    assert ids(monitoring.resources(known, "c1")) == [
        "service:slurmfab-metrics.timer",
        "service:slurmfab-metrics",
        "program:/usr/local/lib/slurmfab/metrics",
        "absent:/var/lib/slurmfab/node-exporter/slurmfab.prom",
        "owned-files:monitoring-slurm",
        "units-loaded:monitoring-slurm",
        "service:prometheus-node-exporter",
        "owned-files:monitoring",
        "units-loaded:monitoring",
        "program:/var/lib/slurmfab/node-exporter",
        "service:prometheus",
        "owned-files:monitoring-server",
        "units-loaded:monitoring-server",
    ]
    assert all(not one.running for one in monitoring.resources(known, "c1") if isinstance(one, Service))
    names = [phase.name for phase in PHASES]
    assert names.index("monitoring") < names.index("former software")
    assert monitoring.resources(wanted(""), "c1") == ()


def test_an_exporter_that_somebody_else_has_installed_goes_on_as_before() -> None:
    known = wanted("", owned=("monitoring",))
    (service,) = (one for one in monitoring.resources(known, "n1") if isinstance(one, Service))
    assert service.running
    assert service.watches == ("/etc/default/prometheus-node-exporter",)


def test_prometheus_goes_from_a_host_that_no_longer_has_it_and_its_exporter_stays() -> None:
    known = wanted("monitoring: {prometheus: n1}\n", **OWNED, **OURS)
    units = {one.unit: one.running for one in monitoring.resources(known, "c1") if isinstance(one, Service)}
    assert units == {"prometheus-node-exporter": True, "prometheus": False}


@pytest.mark.parametrize(
    ("more", "host", "keys"),
    [
        ("", "n1", {"file", "slurm"}),
        ("", "c1", {"file", "slurm", "accounting", "drift"}),
        ("backup: {directory: /srv/b}\n", "c1", {"file", "slurm", "accounting", "drift", "backups"}),
        ("backup: {directory: /srv/b}\n", "n1", {"file", "slurm"}),
        ("gpu_checks: {}\n", "c1", {"file", "slurm", "accounting", "drift", "gpu_checks"}),
        ("gpu_checks: {}\n", "n1", {"file", "slurm"}),
    ],
)
def test_the_program_looks_for_what_its_host_has(more: str, host: str, keys: set[str]) -> None:
    known = cluster(THREE_HOSTS + "monitoring: true\n" + more)
    told = json.loads(monitoring.settings(prepared_input(known), host))
    assert {*told} == keys
    assert told["slurm"] is (host == "c1")
