"""What slurmctld counts of limits, as Slurm 22.05 and 24.11 print it, and which limits hold for a user."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.programs.user_tools import use

ASSOCIATIONS = """\
Current Association Manager state

Association Records

ClusterName=lab Account=physics UserName= Partition= Priority=0 ID=3
    ParentAccount=root(1) Lineage=/physics/ DefAssoc=Yes
    GrpJobs=20(2) GrpJobsAccrue=N(1)
    GrpTRES=cpu=N(2),mem=N(100),gres/gpu=8(2),gres/gpu:a100=N(2)
    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=
    Comment=ClusterName=lab Account=physics UserName=ada GrpJobs=1(1)
ClusterName=lab Account=physics UserName=ada(4001) Partition= Priority=0 ID=6
    GrpJobs=N(2) GrpJobsAccrue=N(1)
    GrpTRES=cpu=4(2),mem=N(100),gres/gpu=N(2)
"""
QOS = """\

QOS Records

QOS=gpus(2)
    UsageRaw=0.000000
    GrpJobs=N(1) GrpJobsAccrue=N(0) GrpSubmitJobs=N(3) GrpWall=N(0.00)
    GrpTRES=cpu=N(1),gres/gpu=N(2)
    MaxWallPJ=
    Account Limits
      physics
        MaxJobsPA=N(1) MaxJobsAccruePA=N(0) MaxSubmitJobsPA=N(3)
        MaxTRESPA=cpu=N(1),gres/gpu=6(2)
    User Limits
      {other}
        MaxTRESPU=cpu=N(1),gres/gpu=3(3)
      {user}
        MaxJobsPU=N(1) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(3)
        MaxTRESPU=cpu=N(1),gres/gpu=3(2)
QOS=urgent(3)
    GrpTRES=cpu=N(0),gres/gpu=N(0)
    Account Limits
        No Accounts
    User Limits
        No Users
"""
RECENT, OLD = QOS.format(other="bob(4002)", user="ada(4001)"), QOS.format(other="4002", user="4001")


@pytest.mark.parametrize("qos", [RECENT, OLD])
@pytest.mark.parametrize("limits", [{"MaxTRESPU": "gres/gpu=3"}, {}])
def test_use_of_a_qos_is_that_of_the_user_in_each_form_of_slurm(qos: str, limits: dict[str, str]) -> None:
    records = use.read(ASSOCIATIONS + qos)
    found = list(use.of_named_qos("gpus", "on partition gpu", limits, records, ("ada", "4001", ["physics"])))
    assert [one.text for one in found] == [
        "Using 2/3 GPUs allowed on partition gpu",
        "Account physics: using 2/6 GPUs allowed on partition gpu",
    ]
    assert [one.is_used_up for one in found] == [False, False]


def test_a_qos_that_nobody_uses_has_the_limits_of_slurmdbd() -> None:
    limits = {"MaxTRESPU": "gres/gpu:a100=4,cpu=8", "MaxJobsPU": "2", "GrpTRES": "node=10", "MaxWall": "01:00:00"}
    found = use.of_named_qos("urgent", "with QOS urgent", limits, use.read(RECENT), ("ada", "4001", ["physics"]))
    assert [one.text for one in found] == [
        "Using 0/4 a100 GPUs allowed with QOS urgent",
        "Using 0/8 CPUs allowed with QOS urgent",
        "Using 0/2 jobs allowed with QOS urgent",
        "All users together: using 0/10 nodes allowed with QOS urgent",
    ]


def test_limits_of_accounts_are_those_of_the_user_and_of_the_account() -> None:
    records = use.read(ASSOCIATIONS + RECENT)
    assert [one.text for one in use.of_associations(records, "ada", ["physics"])] == [
        "Account physics: using 2/8 GPUs allowed in all",
        "Account physics: using 2/20 jobs allowed in all",
        "Using 2/4 CPUs allowed in account physics",
    ]
    assert list(use.of_associations(records, "ada", ["maths"])) == []


def test_limits_of_an_association_when_they_can_hold_a_job_then_all_are_told() -> None:
    shown = """\
ClusterName=lab Account=physics UserName= Partition= Priority=0 ID=3
    GrpJobs=N(2) GrpSubmitJobs=50(3) GrpWall=600(12.50)
    GrpTRES=cpu=N(2) GrpTRESMins=cpu=1000(40),mem=N(9) GrpTRESRunMins=gres/gpu=500(20)
    MaxJobs=9(2) MaxSubmitJobs=N(3)
ClusterName=lab Account=physics UserName=ada(4001) Partition= Priority=0 ID=6
    MaxJobs=1(1) MaxJobsAccrue=N(0) MaxSubmitJobs=4(1) MaxWallPJ=
"""
    assert [one.text for one in use.of_associations(use.read(shown), "ada", ["physics"])] == [
        "Account physics: using 20/500 minutes of GPUs by running jobs allowed in all",
        "Account physics: using 40/1000 minutes of CPUs allowed in all",
        "Account physics: using 12/600 minutes of run time allowed in all",
        "Account physics: using 3/50 jobs in the queue allowed in all",
        "Using 1/1 jobs allowed in account physics",
        "Using 1/4 jobs in the queue allowed in account physics",
    ]


@pytest.mark.parametrize("shown", ["", "Current Association Manager state\n\nNo QOS\n", "slurm_load: error\n"])
def test_without_accounting_nothing_is_counted(shown: str) -> None:
    assert use.read(shown) == ()
