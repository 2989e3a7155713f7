"""The key monitoring of a cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.monitoring import Monitoring, Prometheus


def monitoring(said: str) -> Monitoring | None:
    return cluster(f"{THREE_HOSTS}monitoring: {said}\n").monitoring


def test_true_is_monitoring_with_all_defaults_and_false_is_none() -> None:
    assert monitoring("true") == Monitoring()
    assert monitoring("{}") == Monitoring()
    assert monitoring("false") is None


def test_the_name_of_a_host_is_a_prometheus_with_all_defaults() -> None:
    found = monitoring("{prometheus: c1}")
    assert found is not None
    assert found.prometheus == Prometheus(host="c1")


def test_addresses_by_host_are_zipped_and_others_have_their_own() -> None:
    found = monitoring('{listen: {"n[1-2]": "10.9.0.[1-2]"}}')
    assert found is not None
    assert [found.listens_on(host) for host in ("c1", "n1", "n2")] == ["cluster", "10.9.0.1", "10.9.0.2"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("yes please", "monitoring"),
        ("{listen: everywhere}", '"everywhere" is not an IP address such as 10.0.0.1, nor the word cluster'),
        ("{listen: {n1: n1.example.org}}", '"n1.example.org" is not an IP address'),
        ('{listen: {"n[1-2]": 10.0.0.1}}', "Each host needs one address"),
        ("{listen: {n9: 10.0.0.1}}", '"n9" is no host of this cluster'),
        ("{port: 80}", "monitoring.port"),
        ("{every: 5}", "monitoring.every"),
        ("{port: 6818}", "monitoring.port: port 6818 of node exporter and port 6818 of slurmd"),
        ("{prometheus: nas}", 'monitoring.prometheus.host: "nas" is no host of this cluster'),
        ("{prometheus: {port: 9999}}", "monitoring.prometheus.host: this key is missing"),
        ("{prometheus: {host: c1, retention: long}}", '"long" is not a time such as 48h'),
        (
            "{prometheus: {host: c1, port: 9100}}",
            "port 9100 of Prometheus and port 9100 of node exporter (monitoring.port)",
        ),
        ("{listen: 127.0.0.1, prometheus: c1}", "where Prometheus on c1 cannot reach it"),
        ("{prometheus: c1, grafana: c1}", "grafana"),
        ("{openmetrics: true}\nprivate_data: [jobs]", "slurmctld tells no figures with PrivateData"),
        ("{openmetrics: true}\nslurm_conf: {MetricsType: metrics/openmetrics}", "slurmfab writes MetricsType itself"),
        (
            "{port: 5000}\nregistry: c1",
            "port 5000 of node exporter and port 5000 of registry (registry.port)",
        ),
        ("true\nfiles: {/etc/default/prometheus: {text: x}}", "slurmfab writes it for the key monitoring"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(said: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        monitoring(said)
    assert why in str(refused.value)
