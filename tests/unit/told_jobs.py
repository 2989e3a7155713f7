"""What Slurm 22.05 and 24.11 have told of jobs in the lab, as a controller's answer and as lines of logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from slurmfab.commands.explain.evidence import Evidence, evidence
from slurmfab.commands.logs.asking import Told
from slurmfab.on_hosts.agent.logs.evidence import MEMORY_FIELDS, RECORD_FIELDS

NOW = datetime(2026, 11, 27, 15, 0, 0).timestamp()
NODES = """\
NodeName=n1 CPUTot=2 RealMemory=23382 State=IDLE Partitions=main Version=24.11.5
NodeName=n2 CPUTot=2 RealMemory=23382 State=IDLE Partitions=main Version=24.11.5
"""
PARTITIONS = "PartitionName=main AllowAccounts=ALL QoS=N/A Default=YES State=UP MaxTime=UNLIMITED Nodes=n[1-2]\n"
LIMITS = """\
ClusterName=t Account=physics UserName= Partition= Priority=0 ID=5
    SharesRaw/Norm/Level/Factor=1/0.50/1/0.00
    ParentAccount=root(1) Lft=2 Rgt=5 DefAssoc=No
    GrpJobs=N(1) GrpJobsAccrue=N(0)
ClusterName=t Account=maths UserName=bob(4002) Partition= Priority=0 ID=6
    MaxJobs=1(1) MaxJobsAccrue=N(0) MaxSubmitJobs=N(1) MaxWallPJ=
QOS=narrow(3)
    GrpJobs=N(1) GrpJobsAccrue=N(0) GrpSubmitJobs=N(2) GrpWall=N(0.00)
    Account Limits
      physics
        MaxJobsPA=N(1)
    User Limits
      ann(4001)
        MaxJobsPU=N(1) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(2)
        MaxTRESPU=cpu=1(1),mem=N(50),energy=N(0),node=N(1)
"""
LOGS = {"ctl": {"slurmctld": "/var/log/slurm/slurmctld.log"}, "n1": {"slurmd": "/var/log/slurmd/slurmd.log"}}


def at(clock: str) -> int:
    """Seconds since 1970 of a time of the day."""
    hour, minute, second = map(int, clock.split(":"))
    return int(datetime(2026, 11, 27, hour, minute, second).timestamp())


def seconds(value: str) -> str:
    """A time of the day as sacct prints it in seconds; other words as they are."""
    return str(at(value)) if re.fullmatch("[0-9]{2}:[0-9]{2}:[0-9]{2}", value) else value


def record(**fields: str) -> list[str]:
    """A row of sacct."""
    usual = {
        "JobID": "3", "User": "ann", "Account": "physics", "QOS": "normal", "Partition": "main", "State": "COMPLETED",
        "ExitCode": "0:0", "Reason": "None", "Submit": "14:00:00", "Eligible": "14:00:00", "Start": "14:00:01",
        "End": "14:30:00", "NodeList": "n1", "NCPUS": "1", "ReqMem": "60M", "Timelimit": "UNLIMITED",
        "AllocTRES": "billing=1,cpu=1,mem=60M,node=1", "MaxRSS": "", "JobName": "job.sh", "SubmitLine": "sbatch job.sh",
        "AdminComment": "",
    }  # fmt: skip
    row = {**usual, **fields}
    times = {name: seconds(row[name]) for name in ("Submit", "Eligible", "Start", "End")}
    row = {**row, **times, "JobIDRaw": fields.get("JobIDRaw", row["JobID"])}
    return [row[name] for name in RECORD_FIELDS]


def remembered(**fields: str) -> list[str]:
    """A row of squeue."""
    usual = {
        "JobArrayID": "3", "UserName": "ann", "Account": "physics", "QOS": "normal", "Partition": "main",
        "State": "PENDING", "exit_code": "0", "Reason": "None", "SubmitTime": "14:00:00", "EligibleTime": "14:00:00",
        "StartTime": "N/A", "EndTime": "N/A", "NodeList": "", "NumCPUs": "1", "MinMemory": "50M",
        "TimeLimit": "UNLIMITED", "tres-alloc": "N/A", "Dependency": "(null)", "ReqNodes": "", "Reservation": "(null)",
        "restartcnt": "0", "Licenses": "(null)", "PriorityLong": "1", "Name": "job.sh", "OverSubscribe": "OK",
        "tres-per-node": "N/A", "tres-per-job": "N/A", "tres-per-task": "N/A",
    }  # fmt: skip
    row = {**usual, **fields}
    times = {name: seconds(row[name]) for name in ("SubmitTime", "EligibleTime", "StartTime", "EndTime")}
    row = {**row, **times, "JobID": fields.get("JobID", row["JobArrayID"])}
    return [row[name] for name in MEMORY_FIELDS]


def line(clock: str, host: str, source: str, text: str) -> Told:
    """A line of a log."""
    return Told((host,), source, text, at(clock), at(clock), 1)


def told(
    *,
    records: Sequence[list[str]] = (),
    memory: Sequence[list[str]] = (),
    others: Sequence[list[str]] = (),
    events: Sequence[list[str]] = (),
    lines: Iterable[Told] = (),
    job: str = "3",
    names: Mapping[str, str] | None = None,
    **answer: Any,
) -> Evidence:
    """The evidence of a controller's answer and of lines of logs."""
    whole = {
        "now": NOW, "missing": [], "records": records, "memory": memory, "others": others, "nodes": NODES,
        "partitions": PARTITIONS, "limits": LIMITS, **answer,
        "events": [[*row[:1], *(seconds(one) for one in row[1:3]), *row[3:]] for row in events],
    }  # fmt: skip
    found = evidence("ctl", whole, job)
    return replace(found, lines=tuple(lines), files=LOGS, names=names or {"0": "root", "4001": "ann"})
