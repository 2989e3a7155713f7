"""Each reason of Slurm's has a sentence that says what it means; unknown ones have none."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.programs.user_tools import reasons

LIMITS = [
    # Reasons of limits as Slurm 22.05 to 26.05 name them (squeue(1), slurm.h).
    *(f"{of}Grp{what}" for of in ("QOS", "Assoc") for what in (
        "CpuLimit", "CPUMinutesLimit", "CPURunMinutesLimit", "JobsLimit", "MemLimit", "NodeLimit", "SubmitJobsLimit",
        "WallLimit", "GRES", "GRESMinutes", "GRESRunMinutes", "MemMinutes", "MemRunMinutes", "License", "Billing",
        "BB", "Energy", "Unknown", "NodeMinutes",
    )),
    *(f"{of}Max{what}" for of in ("QOS", "Assoc") for what in (
        "CpuPerJobLimit", "CpuMinutesPerJobLimit", "NodePerJobLimit", "WallDurationPerJobLimit", "GRESPerJob",
        "GRESPerNode", "GRESMinutesPerJob", "MemoryPerJob", "MemoryPerNode", "BillingPerJob",
    )),
    *(f"QOSMax{what}" for what in (
        "CpuPerUserLimit", "JobsPerUserLimit", "NodePerUserLimit", "SubmitJobPerUserLimit", "GRESPerUser",
        "MemoryPerUser", "LicensePerUser",
    )),
    "AssocMaxJobsLimit", "AssocMaxSubmitJobLimit", "QOSMinCpuNotSatisfied", "QOSMinGRES", "QOSMinMemory",
    "MaxCpuPerAccount", "MaxGRESPerAccount", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount", "MaxMemoryPerAccount",
]  # fmt: skip


@pytest.mark.parametrize("reason", [*reasons.REASONS, *LIMITS])
def test_a_reason_has_a_sentence_without_gaps(reason: str) -> None:
    sentence = reasons.explained(reason, "12_[3-4]")
    assert sentence[0].isupper()
    assert not {"{", "}", "%"} & set(sentence.replace("%N %c %m %G %f", "").replace("with % in", ""))
    assert "12_" not in sentence


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "next in line"),
        ("Priority", "scontrol update JobId=7 TimeLimit="),
        ("JobHeldUser", "scontrol release 7"),
        ("QOSMaxGRESPerUser", "you would have more GPUs or other generic resources than allowed at once, by the QOS"),
        ("QOSMaxGRESPerJob", "more GPUs or other generic resources in one job than the QOS"),
        ("AssocGrpCPUMinutesLimit", "The time on CPUs of your account (or your own limit in it) is used up"),
        (
            "AssocGrpCPURunMinutesLimit",
            "may still use as many CPUs, for as long, as your account (or your own limit in it) allows",
        ),
        ("QOSGrpCpuLimit", "all jobs together would use more CPUs than the QOS"),
        (
            "AssocMaxJobsLimit",
            "more running jobs than allowed at once, by your own limit in its account; it starts when",
        ),
        ("AssocMaxWallDurationPerJobLimit", "Its time limit is longer than your own limit in its account allows"),
        ("QOSMinGRES", "asks for less than the QOS"),
        ("MaxGRESPerAccount", "your account would have more GPUs"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "These nodes are down, drained or reserved: n[1-2]."),
        ("ReqNodeNotAvail, Reserved for maintenance", "A maintenance is planned"),
        ("ReqNodeNotAvail, May be reserved for other job", "kept for a job with a higher priority"),
        ("ReqNodeNotAvail, something new", "A node that it needs"),
        ("ReqNodeNotAvail(Unavailable:n1)", "A node that it needs"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", "sinfo -R"),
        ("launch failed requeued held", "Then: scontrol release 7"),
        ("Job's QOS not permitted to use this partition (gpu allows high not normal)", "choose another partition"),
    ],
)
def test_a_sentence_says_what_is_meant_and_what_to_do(reason: str, words: str) -> None:
    assert words in reasons.explained(reason, "7")


@pytest.mark.parametrize("reason", ["", "SomethingNew", "QOSMaxNewThingPerUser", "burst_buffer/lua: odd"])
def test_an_unknown_reason_has_no_sentence(reason: str) -> None:
    assert reasons.explained(reason) == ""
