"""What a user may have on a cluster, as Slurm tells it."""

from __future__ import annotations

import grp
import os
import re
from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.client.amounts import number_of
from slurmfab.on_hosts.programs.user_tools import limits, nodes
from slurmfab.on_hosts.programs.user_tools.asking import Answer
from slurmfab.on_hosts.programs.user_tools.findings import Finding, hint
from slurmfab.on_hosts.programs.user_tools.limits import Association, Qos
from slurmfab.on_hosts.programs.user_tools.nodes import Node, Partition


class Cluster(NamedTuple):
    """What a user may have on a cluster."""

    partitions: Tuple[Partition, ...]  # all, also those that the user may not use
    nodes: Tuple[Node, ...]  # all
    associations: Tuple[Association, ...] = ()  # of the user; none where Slurm keeps no accounts
    qos: Tuple[Qos, ...] = ()  # all
    groups: FrozenSet[str] = frozenset()  # names of the user's groups
    user: str = ""
    # what jobs are held to, such as `limits` (slurm.conf(5), AccountingStorageEnforce)
    enforced: FrozenSet[str] = frozenset()
    version: str = ""  # of Slurm, as in `24.11`
    most_indices: int = 0  # the highest index of an array, and one more; 0 if it is not known
    # by account, GrpTRES of the account or of one above it
    account_limits: Mapping[str, Tuple[Tuple[str, str], ...]] = {}

    def partition(self, name: str) -> Optional[Partition]:
        """A partition by its name."""
        return next((one for one in self.partitions if one.name == name), None)

    def usable(self) -> List[str]:
        """Names of the partitions that take the user's jobs."""
        return [
            one.name
            for one in self.partitions
            if one.takes_jobs
            and one.fields.get("Hidden") != "YES"
            and not self.is_closed(one)
            and not is_for_others(one, [association.account for association in self.associations])
        ]

    def is_closed(self, partition: Partition) -> bool:
        """Whether the user is in none of the partition's groups."""
        allowed = partition.allow_groups
        return bool(allowed) and self.user != "root" and not self.groups & set(allowed)

    def nodes_of(self, partition: Partition) -> List[Node]:
        """The nodes of a partition."""
        return [node for node in self.nodes if partition.name in node.partitions]


def is_for_others(partition: Partition, accounts: List[str]) -> bool:
    """Whether a partition takes jobs of none of these accounts; `False` if there are none."""
    allowed, denied = set(partition.allow_accounts), set(partition.deny_accounts)
    return bool(accounts) and (bool(allowed and not allowed & set(accounts)) or set(accounts) <= denied)


def most_gpus(of: List[Node]) -> Dict[str, int]:
    """By type, the number of GPUs of the node that has most of them."""
    found: Dict[str, int] = {}
    for node in of:
        for kind, count in node.gpus.items():
            found[kind] = max(found.get(kind, 0), count)
    return found


def read(answers: Mapping[str, Answer], user: str, notes: List[Finding]) -> Cluster:
    """What Slurm answered, by question, noting what it did not; Silent if slurmctld does not answer."""
    config = dict(re.findall(r"^(\w+) += (.*)$", answers["config"].must, re.MULTILINE))
    enforced = frozenset(config.get("AccountingStorageEnforce", "").strip().lower().split(","))
    accounts = [answers[name] for name in ("associations", "qos") if name in answers]
    if enforced & {"associations", "limits", "qos"} and any(one.code for one in accounts):
        text = "slurmdbd does not answer (%s), so accounts and their limits were not checked"
        notes.append(hint(0, "accounts", text % next(one.trouble for one in accounts if one.code)))
        enforced = frozenset()
    known = {name: answers[name].text for name in ("associations", "qos", "use") if name in answers}
    most = config.get("MaxArraySize", "").strip()
    return Cluster(
        partitions=nodes.read_partitions(answers["partitions"].must),
        nodes=nodes.read(answers["nodes"].must),
        associations=limits.associations(known.get("associations", "")),
        qos=limits.qos(known.get("qos", "")),
        groups=groups(),
        user=user,
        enforced=enforced,
        version=".".join(config.get("SLURM_VERSION", "").strip().split(".")[:2]),
        most_indices=number_of(most) or 0,
        account_limits=account_limits(known.get("use", "")),
    )


def groups() -> FrozenSet[str]:
    """Names of the user's groups."""
    found = set()
    for number in {os.getegid(), *os.getgroups()}:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(found)


def account_limits(shown: str) -> Dict[str, Tuple[Tuple[str, str], ...]]:
    """By account, GrpTRES of it and those above it, and whose limit it is, from the output of `questions.use`."""
    parents: Dict[str, str] = {}
    own: Dict[str, str] = {}
    for block in re.split(r"^ClusterName=\S* ", shown, flags=re.MULTILINE):
        head = re.match(r"Account=(\S+) UserName= ", block)
        if not head:
            continue
        parent = re.search(r"\bParentAccount=([^\s(]*)", block)
        amounts = re.search(r"\bGrpTRES=(\S*)", block)
        parents[head[1]] = parent[1] if parent else ""
        set_ones = re.findall(r"([a-z][\w/:.-]*)=(\d+)\(", amounts[1]) if amounts else []
        own[head[1]] = ",".join("%s=%s" % (name, amount + "M" * (name == "mem")) for name, amount in set_ones)
    found: Dict[str, Tuple[Tuple[str, str], ...]] = {}
    for account in parents:
        chain: List[str] = []
        above = account
        while above and above not in chain:
            chain.append(above)
            above = parents.get(above, "")
        found[account] = tuple((one, own[one]) for one in chain if own.get(one))
    return found
