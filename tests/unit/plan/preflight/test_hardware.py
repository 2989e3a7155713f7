"""Cores and memory that a cluster file gives nodes and that the lock has not: refused with what the hosts have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import cluster, facts_of, plan_input, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Hardware
from slurmfab.core.engine.notices import counted_by_slurmd
from slurmfab.core.impact.hardware_changes import counted_otherwise
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.hardware import refuse_unfit

FILE = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]", SETTINGS}]
MORE
"""
HARDWARE = Hardware(CPUs=8, Boards=1, SocketsPerBoard=2, CoresPerSocket=2, ThreadsPerCore=2, RealMemory=16000)


def judged(settings: str, more: str = "", now: Hardware = HARDWARE) -> None:
    """Judge a cluster file whose nodes have these keys; `now` is what they have since the lock was made."""
    wanted: Any = cluster(FILE.replace("SETTINGS", settings).replace("MORE", more))
    known = {host: replace(fact, hardware=HARDWARE) for host, fact in facts_of(wanted, prepared).items()}
    facts = {host: replace(fact, hardware=now) for host, fact in known.items()}
    refuse_unfit(plan_input(wanted, facts, known))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("RealMemory: 900000", "n[1-2]: the cluster file gives RealMemory=900000, and the lock has 16000"),
        ("CPUs: 64", "CPUs=64, and the lock has 8, as `slurmd -C` said there"),
        ("Procs: 64", "CPUs=64, and the lock has 8"),
        ("CoresPerSocket: 3", "cores (sockets * CoresPerSocket)=6, and the lock has 4"),
        ("Sockets: 4", "cores (sockets * CoresPerSocket)=8, and the lock has 4"),
        ("ThreadsPerCore: 4", "threads (sockets * CoresPerSocket * ThreadsPerCore)=16, and the lock has 8"),
    ],
)
def test_more_than_the_hardware_is_refused_with_what_the_hosts_have(settings: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        judged(settings)
    assert words in str(refused.value)
    assert "Write what it has, or leave the key out." in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ("RealMemory: 16000", ""),
        ("CPUs: 4", ""),
        ("CPUs: 8", ""),
        ("Feature: big", ""),
        ("Sockets: 1, CoresPerSocket: 4", ""),
        ("RealMemory: 900000", "slurm_conf: {SlurmdParameters: config_overrides}"),
    ],
)
def test_what_the_hardware_has_or_slurm_does_not_compare_is_not_refused(settings: str, more: str) -> None:
    judged(settings, more)


@pytest.mark.parametrize("more", ["", "slurm_conf: {SlurmdParameters: config_overrides}"])
@pytest.mark.parametrize(
    ("settings", "layout", "words"),
    [
        ("Feature: a", {"SocketsPerBoard": 256, "CoresPerSocket": 256}, "256 sockets of 256 cores of 2 threads"),
        ("Feature: a", {"CPUs": 65534}, "cpus='65534' is not a number from 1 to 65533"),
        ("ThreadsPerCore: 2", {"CoresPerSocket": 32766}, "2 sockets of 32766 cores of 2 threads are 131064 CPUs"),
    ],
)
def test_numbers_in_the_lock_that_end_slurmctld_are_refused_with_what_mends_them(
    settings: str, layout: dict[str, int], words: str, more: str
) -> None:
    wanted: Any = cluster(FILE.replace("SETTINGS", settings).replace("MORE", more))
    known = {host: replace(fact, hardware=HARDWARE) for host, fact in facts_of(wanted, prepared).items()}
    known["n2"] = replace(known["n2"], hardware=replace(HARDWARE, **layout))
    with pytest.raises(InputError) as refused:
        refuse_unfit(plan_input(wanted, known, known))
    assert f"n2: the line in slurm.conf would say what ends slurmctld: {words}" in str(refused.value)
    assert "if the lock says so: fab accept-hardware n2." in str(refused.value)


def test_memory_that_was_added_since_is_refused_with_the_command_that_accepts_it() -> None:
    with pytest.raises(InputError, match=r"It has 32000 now; to accept that: fab accept-hardware 'n.1-2.'"):
        judged("RealMemory: 20000", now=replace(HARDWARE, RealMemory=32000))


def with_ecores(settings: str, more: str = "") -> PlanInput:
    """A cluster file for nodes of which slurmd counts half of the cores."""
    half = replace(HARDWARE, CPUs=4, SocketsPerBoard=1)
    wanted: Any = cluster(FILE.replace("SETTINGS", settings).replace("MORE", more))
    told = facts_of(wanted, prepared, hardware=half, kernel=HARDWARE, ecores="4-7", slurm_versions={"slurmd": "24.11"})
    return plan_input(wanted, told)


ADVICE = (
    "slurmd counts 4 of its 8 processors (`slurmd -C`), and so does slurm.conf: it leaves the efficiency cores (4-7) "
    "out. To use them, too: slurm_conf: {SlurmdParameters: allow_ecores}"
)


def test_more_than_slurmd_counts_is_refused_with_the_line_that_lets_it_count_them() -> None:
    with pytest.raises(InputError) as refused:
        refuse_unfit(with_ecores("CPUs: 8"))
    assert "n[1-2]: the cluster file gives CPUs=8, and the lock has 4" in str(refused.value)
    assert f"S{ADVICE[1:]}. Or write what slurmd counts, or leave the key out." in str(refused.value)


def test_that_slurmd_counts_otherwise_is_told_when_slurm_conf_gets_its_count_and_not_again() -> None:
    first = with_ecores("Feature: big")
    assert dict(counted_by_slurmd(first)) == {"n1": ADVICE, "n2": ADVICE}
    text = str(first.whole_files["slurm.conf"])
    there = {**first.facts, "c1": replace(first.facts["c1"], slurm_conf=text)}
    assert dict(counted_by_slurmd(plan_input(first.cluster, there))) == {}
    before = {**there, "c1": replace(there["c1"], slurm_conf=text.replace("CPUs=4", "CPUs=8"))}
    assert list(dict(counted_by_slurmd(plan_input(first.cluster, before)))) == ["n1", "n2"]


def test_another_count_without_efficiency_cores_is_told_in_numbers() -> None:
    assert counted_otherwise(replace(HARDWARE, SocketsPerBoard=4, CoresPerSocket=1), HARDWARE, "") == (
        "slurm.conf has its processors as slurmd counts them, which is not the kernel's count: SocketsPerBoard=4 and "
        "not 2, CoresPerSocket=1 and not 2"
    )
    assert counted_otherwise(HARDWARE, None, "4-7") == ""
    assert counted_otherwise(HARDWARE, replace(HARDWARE, RealMemory=1), "") == ""
