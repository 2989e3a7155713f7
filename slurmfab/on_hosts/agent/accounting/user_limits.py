"""Accounts, QOS and limits of one user in slurmdbd, and what QOS have in use, returned as text."""

from __future__ import annotations

import re
from typing import Collection, Dict, Iterable, List

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities.users_and_groups import find_user

OF_ALL, OF_ACCOUNT, OF_USER = "all", "account", "user"  # whose use a row is about

# Texts, not compiled patterns: most requests use none.
_PARTITION_QOS = r"^PartitionName=.* QoS=(\S+)"
_RECORD = r"QOS=(\S+)\(\d+\)"
_SECTIONS: Dict[str, str] = {"Account Limits": OF_ACCOUNT, "User Limits": OF_USER, "No Accounts": "", "No Users": ""}
_KEYS = ("GrpJobs", "GrpTRES", "MaxJobsPA", "MaxTRESPA", "MaxJobsPU", "MaxSubmitJobsPU", "MaxTRESPU")
"""The limits that hold jobs back until others have ended, by scontrol's names."""

USAGE_TIMEOUT = 20.0


def read_qos_usage(user: str, accounts: Collection[str], partitions: str, context: Context) -> List[List[str]]:
    """The rows about the QOS of partitions; none if no partition has one, or slurmctld does not tell.

    `partitions`: what `scontrol show partition` printed. Returns QOS, whose use, account or empty, limit's name, limit
    and use as in `cpu=N(3),gres/gpu=4(2)` or `2(1)`.
    """
    names = sorted({*re.findall(_PARTITION_QOS, partitions, re.MULTILINE)} - {"N/A"})
    found = find_user(context, user)
    try:
        shown = context.must(commands.show_qos_usage(names), seconds=USAGE_TIMEOUT) if names else ""
    except ResourceFailed:
        return []
    return rows_of(shown.split("\n"), str(found.pw_uid) if found else "", accounts)


def rows_of(lines: Iterable[str], uid: str, accounts: Collection[str]) -> List[List[str]]:
    """The rows in `scontrol show assoc_mgr`, by `read_qos_usage`; users are `4001`, later `ann(4001)`."""
    rows: List[List[str]] = []
    qos, scope, who, is_meant = "", OF_ALL, "", True
    for line in map(str.strip, lines):
        record = re.fullmatch(_RECORD, line)
        if record:
            qos, scope, who, is_meant = record[1], OF_ALL, "", True
        elif line in _SECTIONS:
            scope, is_meant = _SECTIONS[line], False
        elif "=" not in line:
            who = line if scope == OF_ACCOUNT else ""
            is_meant = line in accounts if scope == OF_ACCOUNT else line.split("(")[-1].rstrip(")") == uid
        elif is_meant and qos:
            pairs = (word.split("=", 1) for word in line.split() if "=" in word)
            rows += [[qos, scope, who, key, value] for key, value in pairs if key in _KEYS]
    return rows


ASSOCIATION_FIELDS = (
    "Account", "Partition", "DefaultQOS", "QOS", "MaxJobs", "MaxSubmitJobs", "MaxWall", "MaxTRES", "GrpJobs", "GrpTRES",
)  # fmt: skip
QOS_FIELDS = (
    "Name", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPU", "MaxJobsPA", "MaxTRESPA", "MaxWall", "MaxTRES", "GrpJobs",
    "GrpTRES",
)  # fmt: skip
"""The fields to print, as sacctmgr(1) of 22.05 to 26.05 names them; a user's limits include inherited ones."""

LIMITS_TIMEOUT = 20.0


def read(user: str, context: Context) -> Dict[str, str]:
    """The user's `associations` and all `qos` as texts of sacctmgr; empty if slurmdbd does not answer."""
    queries = {
        "associations": commands.accounts("associations", ASSOCIATION_FIELDS, "where", "user=" + user),
        "qos": commands.accounts("qos", QOS_FIELDS),
    }
    try:
        return {name: context.must(argv, seconds=LIMITS_TIMEOUT) for name, argv in queries.items()}
    except ResourceFailed:
        return {}


def accounts_in(associations: str) -> List[str]:
    """The accounts in what sacctmgr printed of a user's associations."""
    return [line.split("|")[0] for line in associations.split("\n") if line]
