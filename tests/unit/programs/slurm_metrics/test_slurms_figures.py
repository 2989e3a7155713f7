"""Slurm's figures, from what its commands print."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.nodes.states import NodeState, flags, records
from slurmfab.on_hosts.programs.slurm_metrics import main, slurm
from slurmfab.on_hosts.programs.slurm_metrics.figures import Figures

NOW = time.mktime(time.strptime("2026-11-22T10:00:00", "%Y-%m-%dT%H:%M:%S"))

NODE = (
    "NodeName={} CPUAlloc={} CPUEfctv=8 CPUTot=8 Gres=gpu:a100:4(S:0-1),shard:8 GresUsed=gpu:a100:{}(IDX:0-1) "
    "RealMemory=1000 AllocMem=250 State={} Partitions=main,gpu,slurmfab BootTime=None"
)
SDIAG = """\
*******************************************************
sdiag output at Mon Nov 23 12:25:00 2026 (1795436700)
Server thread count:  3
Agent queue size:     4
DBD Agent queue size: 5

Jobs submitted: 10
Jobs started:   9
Jobs completed: 8
Jobs canceled:  7
Jobs failed:    6

Job states ts:  Mon Nov 23 12:24:32 2026 (1795436672)
Main schedule statistics (microseconds):
\tLast cycle:   1500000
\tMax cycle:    2000000
\tMean cycle:   19
\tLast queue length: 11

Main scheduler exit:
\tLast cycle: 77

Backfilling stats
\tTotal backfilled jobs (since last slurm start): 12
\tLast cycle: 500000
\tMax cycle:  700000
\tLast queue length: 13

Latency for 1000 calls to gettimeofday(): 29 microseconds

Remote Procedure Call statistics by user
\troot            (       0) count:5      ave_time:591    total_time:2959
"""
SHARES = (
    ("root", "", "", "1.000000", ""),
    (" root", "root", "0.250000", "0.000000", "inf"),
    (" maths", "", "0.250000", "0.684210", "0.365385"),
    ("  deep maths", "", "0.125000", "0.100000", "inf"),
    (" ev\nil|root||9|9|9", "", "0.125000", "0.100000", "1"),
)
SSHARE = "".join(
    "".join(f"{text:<{size}} " for text, size in zip(row, commands.SHARE_WIDTHS.values(), strict=True)) + "\n"
    for row in SHARES
).encode()


def values(figures: Figures) -> dict[str, dict[tuple[str, ...], float]]:
    return figures.values


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("IDLE", "idle"),
        ("MIXED", "mixed"),
        ("ALLOCATED", "allocated"),
        ("IDLE+DRAIN", "drained"),
        ("MIXED+DRAIN", "draining"),
        ("DOWN*", "down"),
        ("DOWN+DRAIN", "down"),
        ("IDLE*", "not_responding"),
        ("IDLE+POWERED_DOWN", "powered_down"),
        ("IDLE#", "powering_up"),
        ("DOWN+REBOOT_ISSUED", "rebooting"),
        ("IDLE+MAINTENANCE+RESERVED", "maintenance"),
        ("IDLE+RESERVED", "reserved"),
        ("IDLE+PLANNED", "planned"),
        ("IDLE+CLOUD", "idle"),
        ("FUTURE", "other"),
    ],
)
def test_a_node_when_counted_then_one_word_stands_for_its_state(state: str, word: str) -> None:
    assert slurm.word_of(NodeState(flags(state))) == word
    assert word in slurm.WORDS


def test_nodes_when_collected_then_partitions_and_the_cluster_add_up() -> None:
    figures = Figures()
    drained = NODE.format("n2", 0, 0, "IDLE+DRAIN") + " Reason=broken fan [ann@2026-11-22T09:00:00]"
    shown = "\n".join((NODE.format("n1", 3, 1, "MIXED"), drained))
    slurm.collect_nodes(figures, records(shown))
    found = values(figures)
    assert found["slurm_nodes"][("mixed",)] == found["slurm_nodes"][("drained",)] == 1
    assert found["slurm_nodes"][("down",)] == 0
    assert found["slurm_nodes_out_of_service"] == {("drained", "broken fan"): 1}
    assert found["slurm_node_out_of_service"] == {("n2", "drained"): 1}
    assert found["slurm_cluster_cpus"] == {("allocated",): 3, ("idle",): 5, ("unavailable",): 8}
    gpus = {("a100", "allocated"): 1, ("a100", "idle"): 3, ("a100", "unavailable"): 4}
    assert found["slurm_cluster_gpus"] == gpus
    assert found["slurm_gpus"] == {(name, *key): count for name in ("main", "gpu") for key, count in gpus.items()}
    assert found["slurm_cluster_memory_bytes"][("idle",)] == 750 << 20


def test_many_nodes_when_all_are_down_then_the_figures_stay_few() -> None:
    figures = Figures()
    line = "NodeName=n{0} CPUTot=8 RealMemory=1 State=DOWN Partitions=p{0} Reason=reason {0} [ann@2026-11-22T09:00:00]"
    slurm.collect_nodes(figures, records("\n".join(line.format(number) for number in range(1000))))
    assert figures.text().count("\n") < 2000
    assert values(figures)["slurm_nodes_out_of_service"][("down", "other")] == 970


def test_jobs_when_collected_then_tasks_count_and_only_those_that_could_start_wait() -> None:
    figures = Figures()
    rows = [
        ("7", "RUNNING", "main", "None", "2026-11-22T09:00:00"),
        ("8_[1-3%2]", "PENDING", "main,gpu", "Resources", "2026-11-22T09:59:00"),
        ("9", "PENDING", "gpu", "JobHeldUser", "N/A"),
        ("10", "PENDING", "gpu", "BeginTime", "2026-11-23T10:00:00"),
        ("11", "PENDING", "gpu", "Priority", "2026-11-22T08:00:00"),
        ("12", "SIGNALING", "slurmfab", "None", "N/A"),
    ]
    slurm.collect_queue(figures, rows, NOW)
    found = values(figures)
    assert found["slurm_jobs"][("pending",)] == 6
    assert found["slurm_jobs"][("other",)] == 1
    assert found["slurm_partition_jobs"] == {("main", "running"): 1, ("main", "pending"): 3, ("gpu", "pending"): 6}
    assert found["slurm_jobs_pending"][("Resources",)] == 3
    assert found["slurm_jobs_pending_oldest_seconds"] == {(): 7200}
    assert found["slurm_jobs_pending_wait_seconds"] == {("0.5",): 60, ("0.9",): 7200, ("1",): 7200}


def test_an_empty_queue_when_collected_then_its_figures_are_there_all_the_same() -> None:
    figures = Figures()
    slurm.collect_queue(figures, [], NOW)
    assert values(figures)["slurm_jobs_pending_oldest_seconds"] == {(): 0}
    assert values(figures)["slurm_jobs"][("running",)] == 0


def test_the_scheduler_when_collected_then_each_section_has_its_own_figures() -> None:
    figures = Figures()
    slurm.collect_scheduler(figures, SDIAG)
    found = values(figures)
    assert found["slurm_scheduler_last_cycle_seconds"] == {("main",): 1.5, ("backfill",): 0.5}
    assert found["slurm_scheduler_mean_cycle_seconds"] == {("main",): 0.000019, ("backfill",): 0}
    assert found["slurm_scheduler_queue_length"] == {("main",): 11, ("backfill",): 13}
    assert found["slurm_slurmctld_threads"] == {(): 3}
    assert found["slurm_slurmctld_agent_queue_length"] == {(): 4}
    assert found["slurm_slurmdbd_agent_queue_length"] == {(): 5}
    assert found["slurm_backfilled_jobs_total"] == {(): 12}
    assert found["slurm_job_events_total"][("failed",)] == 6


def test_shares_when_collected_then_accounts_have_them_and_users_do_not() -> None:
    figures = Figures()
    slurm.collect_shares(figures, commands.rows_of_widths(SSHARE, commands.SHARE_WIDTHS, "sshare"))
    found = values(figures)
    odd = "ev\nil|root||9|9|9"
    assert found["slurm_account_usage_ratio"] == {("root",): 1, ("maths",): 0.68421, ("deep maths",): 0.1, (odd,): 0.1}
    assert found["slurm_account_level_fairshare"] == {("maths",): 0.365385, ("deep maths",): float("inf"), (odd,): 1}
    with pytest.raises(ResourceFailed, match="other fields"):
        commands.rows_of_widths(SSHARE[1:], commands.SHARE_WIDTHS, "sshare")


def test_the_newest_backup_when_there_are_others_then_it_is_told(tmp_path: Path) -> None:
    for name, when in (("lab-20261122T090000Z.tar", 100), ("lab-20261121T090000Z.tar", 50), ("other.tar", 900)):
        (tmp_path / name).write_text("x" * when)
        os.utime(tmp_path / name, (when, when))
    figures = Figures()
    main.collect_backups(figures, {"directory": str(tmp_path), "cluster": "lab"})
    assert values(figures)["slurmfab_backup_last_timestamp_seconds"] == {(): 100}
    assert values(figures)["slurmfab_backup_last_bytes"] == {(): 100}


def test_the_last_gpu_check_when_it_has_ended_then_time_and_outcomes_are_told(tmp_path: Path) -> None:
    end = {"run": "20261122T090000Z", "nodes": [], "end": True, "counts": {"passed": 3, "falls short": 1}}
    begun = {"run": "20261122T100000Z", "nodes": ["n1"], "outcome": "passed"}
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (end, begun)))
    figures = Figures()
    main.collect_gpu_checks(figures, str(tmp_path))
    assert values(figures)["slurmfab_gpu_check_nodes"] == {("passed",): 3, ("falls_short",): 1}
    assert values(figures)["slurmfab_gpu_check_last_timestamp_seconds"] == {(): 1795338000}


def test_drift_when_its_file_is_damaged_then_nothing_is_told(tmp_path: Path) -> None:
    path = tmp_path / "drift.json"
    figures = Figures()
    for text in ("", "[]", '{"time": "x"}', '{"time": 1, "hosts": []}'):
        path.write_text(text)
        main.collect_drift(figures, str(path))
    assert values(figures) == {}
    path.write_text(
        '{"version": 1, "time": 1795338000, "hosts": {"in_sync": 3, "differing": 1}, "resources": {"changed file": 2}}'
    )
    main.collect_drift(figures, str(path))
    assert values(figures)["slurmfab_drift_hosts"] == {("in_sync",): 3, ("differing",): 1}
    assert values(figures)["slurmfab_drift_resources"] == {("changed file",): 2}


@pytest.mark.parametrize(
    ("ping", "is_here"),
    [
        ("Slurmctld(primary) at ctl2 is UP\n", True),
        ("Slurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup) at ctl2.example.org is UP\n", True),
        ("Slurmctld(primary) at ctl1 is UP\nSlurmctld(backup) at ctl2 is UP\n", False),
        ("Slurmctld(primary) at ctl1 is DOWN\nSlurmctld(backup) at ctl2 is DOWN\n", False),
        ("", False),
    ],
)
def test_a_controller_when_it_is_not_the_one_at_work_then_it_tells_no_figures(ping: str, is_here: bool) -> None:
    assert main.is_at_work(commands.controllers(ping), "ctl2") is is_here


def test_a_host_without_a_controller_when_collected_then_it_tells_its_own_figures(tmp_path: Path) -> None:
    settings, file = tmp_path / "settings.json", tmp_path / "slurmfab.prom"
    (tmp_path / "lab-20261122T090000Z.tar").write_text("backup")
    backups = {"directory": str(tmp_path), "cluster": "lab"}
    settings.write_text(json.dumps({"file": str(file), "slurm": False, "backups": backups}))
    assert main.main(str(settings)) == 0
    lines = file.read_text().splitlines()
    assert "slurmfab_backup_last_bytes 6" in lines
    assert any(line.startswith("slurmfab_metrics_timestamp_seconds ") for line in lines)
    assert not any(line.startswith("slurm_") for line in lines)


def test_settings_when_they_are_damaged_then_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.json").write_text("{")
    assert main.main(str(tmp_path / "settings.json")) == 1
    assert "the next deployment writes it" in capsys.readouterr().err
