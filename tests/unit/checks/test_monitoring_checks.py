"""What the checks of monitoring find on stand-in hosts."""

from __future__ import annotations

import json

import pytest
from ruled_shells import RuledShell, timer
from support import THREE_HOSTS, cluster

from slurmfab.base.paths import METRICS_UNIT
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import test_monitoring
from slurmfab.commands.checks.hosts import CheckedHost

KNOWN = cluster(f"{THREE_HOSTS}monitoring: {{prometheus: c1}}\n")
SOUND = "node_textfile_scrape_error 0"


def exporter(listening: str = "10.0.0.2:9100", why: str = "", text: str = SOUND) -> CheckedHost:
    return CheckedHost("n1", RuledShell({"ss -Hltn": listening, "python3": json.dumps({"why": why, "text": text})}))


def prometheus(health: str) -> CheckedHost:
    targets = [
        {"labels": {"job": job, "instance": host}, "health": state, "lastError": "no route"}
        for job, host, state in (("node", "n1", "up"), ("node", "n2", health), ("slurm-jobs", "c1", "down"))
    ]
    text = json.dumps({"data": {"activeTargets": targets}})
    return CheckedHost("c1", RuledShell({"python3": json.dumps({"why": "", "text": text})}))


def collector(written: int = 990, timer_state: str = "active", result: str = "success") -> CheckedHost:
    return CheckedHost("c1", RuledShell({"date": f"1000\n{written}", **timer(METRICS_UNIT, timer_state, result)}))


def test_an_exporter_that_is_right_passes() -> None:
    test_monitoring.test_exporter_answers_where_it_should(exporter(), KNOWN, Lock())


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (exporter(""), "nothing listens on port 9100"),
        (exporter("*:9100"), "port 9100 is open on ::, not on 10.0.0.2 alone"),
        (exporter("10.0.0.2:9100\n127.0.0.1:9100"), "port 9100 is open on 10.0.0.2, 127.0.0.1, not on 10.0.0.2 alone"),
        (exporter(why="timed out"), "prometheus-node-exporter does not answer on 10.0.0.2:9100: timed out"),
        (exporter(text="node_textfile_scrape_error 1"), "the exporter cannot read a file of figures"),
    ],
)
def test_an_exporter_that_is_silent_or_listens_elsewhere_fails(host: CheckedHost, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_monitoring.test_exporter_answers_where_it_should(host, KNOWN, Lock())


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (collector(timer_state="inactive"), "slurmfab-metrics.timer is inactive"),
        (collector(800), "slurmfab.prom is 200 s old"),
        (collector(result="exit-code"), r"the last collection failed \(exit-code\)"),
    ],
)
def test_figures_that_are_not_collected_fail(there: CheckedHost, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_monitoring.test_figures_of_slurm_are_fresh(there, KNOWN)
    test_monitoring.test_figures_of_slurm_are_fresh(collector(), KNOWN)


def test_exporters_that_prometheus_does_not_reach_are_named() -> None:
    test_monitoring.test_prometheus_reaches_all(prometheus("up"), KNOWN, Lock())
    with pytest.raises(AssertionError, match="Prometheus gets nothing from n2: no route"):
        test_monitoring.test_prometheus_reaches_all(prometheus("down"), KNOWN, Lock())
