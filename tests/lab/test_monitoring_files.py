"""Alert rules and dashboard against a real Prometheus: each query returns data, and each rule fires when it should."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_cluster import AS_SLURM, DeployedLab, eventually, succeeded
from stock import Stock, in_turn

from slurmfab.base.paths import GPU_CHECK_HISTORY
from slurmfab.commands.monitoring_files import writing

pytestmark = pytest.mark.lab

KEYS = """\
monitoring: {every: 10, prometheus: {host: ctl, every: 10}}
database: ctl
accounts: [{name: physics}]
users: [{name: ada, uid: 4001, accounts: physics}]
backup: {directory: /srv/backups}
gpu_checks: {min_busbw: 100, mpi: none}
drift: {when: daily}
"""
HISTORY = f"""\
install -d -o slurm {GPU_CHECK_HISTORY}
echo '{{"counts": {{"passed": 1, "falls short": 1}}, "end": true, "nodes": [], "outcome": "", \
"run": "20261123T100000Z", "time": "2026-11-23T10:00:00Z"}}' >>{GPU_CHECK_HISTORY}/history.jsonl
"""
"""A check of GPUs that has ended, without any GPU."""

JOBS = (
    f"{AS_SLURM}sbatch -o /dev/null -w n1 --wrap 'sleep 600' && "
    f"{AS_SLURM}sbatch -o /dev/null --exclusive -w n1 --wrap true"
)
AWAY = "scontrol update NodeName=n2 State=DRAIN Reason=cable"
FIGURES = "systemctl start slurmfab-backup.service; systemctl start slurmfab-metrics.service"
ASK = """\
python3 - <<'END'
import json, urllib.parse, urllib.request
found = {}
for query in json.loads('''QUERIES'''):
    url = "http://ADDRESS:9090/api/v1/query?query=" + urllib.parse.quote(query)
    found[query] = len(json.load(urllib.request.urlopen(url, timeout=5))["data"]["result"])
print(json.dumps(found))
END
"""
METRIC = re.compile(r"\b(?:slurm|slurmfab|node|up)(?:_\w+)?(?=\{)")
FIRING = """\
rule_files: [rules.yml]
tests:
  - interval: 1m
    input_series:
      - {series: 'slurm_up{cluster="NAME",instance="ctl"}', values: '1x9 0x2000'}
      - {series: 'up{cluster="NAME",instance="n1",job="node"}', values: '0x2000'}
      - {series: 'slurm_node_out_of_service{cluster="NAME",instance="ctl",node="n1",state="down"}', values: '1x2000'}
      - {series: 'slurm_node_out_of_service{cluster="NAME",instance="ctl",node="n2",state="drained"}', values: '1x2000'}
      - {series: 'slurmfab_drift_resources{cluster="NAME",kind="changed file"}', values: '2x2000'}
      - {series: 'slurmfab_backup_last_timestamp_seconds{cluster="NAME",instance="ctl"}', values: '-180000x2000'}
      - {series: 'slurmfab_gpu_check_nodes{cluster="NAME",outcome="falls_short"}', values: '0x99 1x1901'}
      - {series: 'slurm_jobs_pending_wait_seconds{cluster="NAME",quantile="0.5"}', values: '90000x2000'}
      - series: 'node_filesystem_avail_bytes{cluster="NAME",instance="ctl",mountpoint="/var",fstype="ext4"}'
        values: '4x2000'
      - series: 'node_filesystem_size_bytes{cluster="NAME",instance="ctl",mountpoint="/var",fstype="ext4"}'
        values: '100x2000'
    promql_expr_test:
"""
MOMENTS = {
    "9m": {"HostDown", "StateDirectoryFull"},
    "20m": {"BackupTooOld", "Drift", "HostDown", "SlurmNodeDown", "SlurmctldDown", "StateDirectoryFull"},
    "26h": {
        *("BackupTooOld", "DiskFull", "Drift", "GpuCheckFailed", "HostDown", "QueueWaitsTooLong", "SlurmNodeDown"),
        *("SlurmNodeDrained", "SlurmctldDown", "StateDirectoryFull"),
    },
}
"""The alerts that have to fire by then, and no others of those about these series."""


@dataclass(frozen=True)
class Files:
    """A watched cluster, and the files for a Prometheus elsewhere."""

    lab: DeployedLab
    folder: Path

    @property
    def name(self) -> str:
        return self.lab.lab.spec.name

    def read(self, ending: str) -> str:
        return (self.folder / f"slurmfab-{self.name}.{ending}").read_text()

    def put(self, path: str, text: str) -> None:
        """Write a file on the controller."""
        self.lab.on("ctl", f"mkdir -p $(dirname {path}) && cat >{path} <<'END'\n{text}\nEND")

    def counts(self, queries: list[str]) -> dict[str, int]:
        """How many series each query returns from the cluster's own Prometheus."""
        script = ASK.replace("QUERIES", json.dumps(queries).replace("\\", "\\\\"))
        told = self.lab.on("ctl", script.replace("ADDRESS", self.lab.lab.host("ctl").address), check=False)
        found: dict[str, int] = json.loads(told or "{}")
        return found


@pytest.fixture(scope="module", params=in_turn("monitoring_files"))
def files(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """A cluster with figures of everything, watched by its controller."""
    with stock.copy(request.param, nodes=2, database=True, gpus=("n1:2", "n2:2")) as hosts:
        hosts.inventory_path.write_text(hosts.inventory_path.read_text() + KEYS)
        hosts.deploy()
        for script in (HISTORY, JOBS, AWAY):
            hosts.on("ctl", script)
        succeeded(hosts.slurmfab("drift"))
        hosts.on("ctl", FIGURES)
        folder = tmp_path_factory.mktemp("files")
        succeeded(hosts.slurmfab("monitoring-files", "--output", str(folder)))
        yield Files(hosts, folder)


def test_queries_of_the_dashboard_when_everything_is_there_then_each_returns_data(files: Files) -> None:
    queries = [query.replace("$cluster", files.name) for query in writing.queries()]
    empty: list[Any] = []

    def are_answered() -> bool:
        found = files.counts(queries)
        empty[:] = [query for query in queries if not found.get(query)]
        return not empty

    eventually(are_answered, lambda: f"without data: {empty}", 90)


def test_rules_when_the_cluster_has_them_then_prometheus_takes_them_and_each_metric_has_data(files: Files) -> None:
    assert files.lab.on("ctl", "cat /etc/prometheus/slurmfab-alerts.yml") == files.read("rules.yml").strip()
    expressions = [rule["expr"] for rule in yaml.safe_load(files.read("rules.yml"))["groups"][0]["rules"]]
    metrics = sorted({metric for expression in expressions for metric in METRIC.findall(expression)})
    found = files.counts([f'{metric}{{cluster="{files.name}"}}' for metric in metrics])
    assert len(found) > 10
    assert [query for query, count in found.items() if not count] == []


def test_files_when_shown_to_promtool_then_are_valid_and_the_alerts_fire_when_they_should(files: Files) -> None:
    for ending in ("rules.yml", "scrape.yml", "targets.json"):
        files.put(f"/tmp/elsewhere/slurmfab-{files.name}.{ending}", files.read(ending))
    files.lab.on("ctl", f"cd /tmp/elsewhere && promtool check config slurmfab-{files.name}.scrape.yml")
    files.lab.on("ctl", f"cd /tmp/elsewhere && promtool check rules slurmfab-{files.name}.rules.yml")
    alerts = sorted(set[str]().union(*MOMENTS.values()))
    rows = [
        {
            "expr": f'clamp_max(count(ALERTS{{alertname="{alert}",alertstate="firing"}}), 1) or vector(0)',
            "eval_time": moment,
            "exp_samples": [{"labels": "{}", "value": int(alert in firing)}],
        }
        for moment, firing in MOMENTS.items()
        for alert in alerts
    ]
    text = FIRING.replace("NAME", files.name).replace("rules.yml", f"slurmfab-{files.name}.rules.yml")
    files.put("/tmp/elsewhere/test.yml", text + "".join(f"      - {json.dumps(row)}\n" for row in rows))
    files.lab.on("ctl", "cd /tmp/elsewhere && promtool test rules test.yml")
