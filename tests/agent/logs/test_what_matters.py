"""Which lines matter, for a node, for a job, and for both."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.logs.what_matters import Matters

OF_ALL = [
    ("slurmctld", "error: Nodes n[7-8] not responding, setting DOWN"),
    ("slurmctld", "Node n7 now responding"),
    ("slurmctld", "update_node: node n7 state set to DRAINED"),
    ("slurmctld", "slurmctld version 24.11.5 started on cluster lab"),
    ("slurmd", "error: Munge decode failed: Invalid credential"),
    ("slurmd", "fatal: Unable to bind listen port (6818): Address already in use"),
    ("slurmd", "[12.batch] error: Detected 1 oom_kill event in StepId=12.batch."),
    ("slurmd", "systemd: slurmd.service: Main process exited, code=killed, status=9/KILL"),
    ("munge", "Info: Replayed credential"),
    ("munge", "Info: Invalid credential"),
    ("munge", "Error: Found insecure keyfile"),
    ("kernel", "NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."),
    ("kernel", "Memory cgroup out of memory: Killed process 812 (python3) total-vm:10kB"),
    ("kernel", "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/slurm/uid_1000/job_12,task=python3"),
    ("kernel", "blk_update_request: I/O error, dev sda, sector 7"),
    ("kernel", "INFO: task fio:77 blocked for more than 120 seconds."),
    ("kernel", "mlx5_core 0000:01:00.0 eth2: Link down"),
    ("kernel", "mce: [Hardware Error]: Machine check events logged"),
]
OF_NONE = [
    ("slurmctld", "sched: Allocate JobId=13 NodeList=n8 #CPUs=1 Partition=main"),
    ("slurmctld", "debug: error: tried again"),
    ("slurmd", "CPU frequency setting not configured for this node"),
    ("slurmd", "[14.extern] x11 forwarding shutdown complete"),
    ("slurmd", "error: restricted to a subset of cpus"),
    ("slurmd", "systemd: Starting slurmd.service - Slurm node daemon..."),
    ("munge", "systemd: Stopping munge.service - MUNGE authentication service..."),
    ("munge", "Info: Wrote 1024 bytes"),
    ("kernel", "usb 1-1: new high-speed USB device"),
]


@pytest.mark.parametrize(("source", "text"), OF_ALL, ids=[text[:20] for _, text in OF_ALL])
def test_errors_and_changes_of_state_matter(source: str, text: str) -> None:
    assert Matters()(source, text)


@pytest.mark.parametrize(("source", "text"), OF_NONE, ids=[text[:20] for _, text in OF_NONE])
def test_other_lines_do_not_matter_unless_all_are_wanted(source: str, text: str) -> None:
    assert not Matters()(source, text)
    assert Matters(all_lines=True)(source, text)


@pytest.mark.parametrize(
    ("text", "is_about"),
    [
        ("sched: Allocate JobId=13 NodeList=n8 #CPUs=1", True),
        ("sched: Allocate JobId=13 NodeList=n[1-9] #CPUs=1", True),
        ("sched: Allocate JobId=13 NodeList=n81", False),
        ("sched: Allocate JobId=13 NodeList=gpu[1-9]", False),
        ("sched: Allocate JobId=13 NodeList=login-n8", False),
    ],
)
def test_lines_that_may_name_the_node_matter(text: str, is_about: bool) -> None:
    assert Matters(nodes=("n8",))("slurmctld", text) == is_about


@pytest.mark.parametrize(
    ("text", "is_about"),
    [
        ("_job_complete: JobId=12 WEXITSTATUS 0", True),
        ("task_p_slurmd_batch_request: 12", False),
        ("launch task StepId=12.0 request from UID:1000", True),
        ("[12.batch] done with job", True),
        ("_job_complete: JobId=120 done", False),
        ("[120.batch] error: no", False),
        ("error: slurm_receive_msg [12.0.0.1:4711]: Zero Bytes", True),
        ("error: something that names no job", True),
        ("error: job_complete: JobId=11 and JobId=12", True),
        ("sched: Allocate JobId=12_3(15) NodeList=n1", True),
        ("debug: JobId=12", False),
    ],
)
def test_for_a_job_lines_matter_that_name_it_and_errors_that_name_no_other(text: str, is_about: bool) -> None:
    assert Matters(jobs=("12",))("slurmd", text) == is_about


@pytest.mark.parametrize(
    ("text", "is_about"), [("JobId=12_3(15) done", True), ("[15.batch] done", True), ("JobId=12_4(16) done", False)]
)
def test_for_a_task_of_an_array_lines_of_other_tasks_do_not_matter(text: str, is_about: bool) -> None:
    assert Matters(jobs=("12_3", "15"))("slurmctld", text) == is_about


def test_a_control_group_in_the_kernels_log_names_its_job() -> None:
    text = "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/system.slice/slurmstepd.scope/job_%d/step_0,pid=812"
    assert Matters(jobs=("12",))("kernel", text % 12)
    assert not Matters(jobs=("12",))("kernel", text % 13)
