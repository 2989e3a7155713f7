"""What a cluster cannot give to a job: partitions, accounts, QOS, sizes, and limits."""

from __future__ import annotations

import re
from typing import Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.client.amounts import UNTYPED, clock, mebibytes_of, number_of, seconds_of, tres_of
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.programs.user_tools.cluster import Cluster, is_for_others, most_gpus
from slurmfab.on_hosts.programs.user_tools.findings import Finding, error, hint, warning
from slurmfab.on_hosts.programs.user_tools.limits import Association
from slurmfab.on_hosts.programs.user_tools.nodes import Node, Partition
from slurmfab.on_hosts.programs.user_tools.sbatch_options import nearest
from slurmfab.on_hosts.programs.user_tools.wanted import (
    GPUS,
    MEMORY,
    SIZE,
    Wanted,
    directive,
    gpu_text,
    memory_text,
    total,
)

DEFAULT_QOS = "normal"
HELD_TO = {
    "MaxTRES": "a job %s",
    "MaxTRESPerNode": "a job %s on each node",
    "MaxTRESPU": "all jobs of one user together %s",
    "MaxTRESPA": "all jobs of one account together %s",
    "GrpTRES": "all its jobs together %s",
}
"""By limit of sacctmgr(1), whom it allows how much."""

WORDS = {"cpu": "CPUs", "mem": "of memory", "node": "nodes", "gres/gpu": "GPUs"}

LINES: Mapping[str, Tuple[str, ...]] = {"node": ("nodes",), "mem": MEMORY, "cpu": SIZE[::-1]}
"""By trackable resource, the options that ask for it."""


def check_limits(wanted: Wanted, cluster: Cluster, partition: Partition) -> Iterator[Finding]:
    """Yield the limits beyond which a job waits for ever, or is refused."""
    if "limits" not in cluster.enforced:
        return
    asked = trackable(wanted)
    on_node = {"cpu": wanted.node_cpus, "mem": wanted.node_memory or 0, "gres/gpu": total(wanted.node_gpus)}
    for limit, span in HELD_TO.items():
        for holder, resource, amount in counting(limit_holders(wanted, cluster, partition, limit)):
            allowed = mebibytes_of(amount) if resource == "mem" else number_of(amount)
            needed = (on_node if limit == "MaxTRESPerNode" else asked).get(resource, 0)
            if allowed is not None and needed > allowed:
                text = "%s allows %s (%s %s=%s)" % (
                    holder,
                    span % amount_text(resource, amount),
                    limit,
                    resource,
                    amount,
                )
                shown = memory_text(needed) if resource == "mem" else str(needed)
                text += "; with %s this job would wait for ever, or is refused" % shown
                yield error(wanted.line(*LINES.get(resource, GPUS)), "limit", text)


def limit_holders(wanted: Wanted, cluster: Cluster, partition: Partition, limit: str) -> Iterator[Tuple[str, str]]:
    """Yield whose named limit counts: QOS before associations, the partition's first unless OverPartQOS."""
    by_name = {one.name: one for one in cluster.qos}
    mine = limit_associations(wanted, cluster)
    default = mine[0].default_qos if len(mine) == 1 else ""
    of_job = by_name.get(wanted.value("qos") or default or DEFAULT_QOS)
    order = [by_name.get(partition.qos), of_job]
    if of_job and "OverPartQOS" in of_job.flags:
        order.reverse()
    for one in order:
        if one and limit in one.limits:
            yield "QOS " + one.name, one.limits[limit]
    # With several accounts, any of which the job may take, none of them forbids it.
    for association in mine if len(mine) == 1 else ():
        if limit in association.limits:
            yield "account " + association.account, association.limits[limit]
        if limit == "GrpTRES":
            for name, amounts in cluster.account_limits.get(association.account, ()):
                yield "account " + name, amounts


def limit_associations(wanted: Wanted, cluster: Cluster) -> List[Association]:
    """The user's associations that the job may run in."""
    asked = wanted.value("account")
    return [one for one in cluster.associations if asked in ("", one.account)]


def counting(held: Iterable[Tuple[str, str]]) -> Iterator[Tuple[str, str, str]]:
    """Yield holder, resource and amount: the first of each, but of accounts above one another all."""
    first: Dict[str, str] = {}
    for holder, amounts in held:
        for resource, amount in tres_of(amounts).items():
            earlier = first.setdefault(resource, holder)
            if earlier == holder or (earlier.startswith("account ") and holder.startswith("account ")):
                yield holder, resource, amount


def amount_text(resource: str, amount: str) -> str:
    """An amount of a trackable resource in words.

    >>> amount_text("gres/gpu", "2"), amount_text("mem", "10G")
    ('2 GPUs', '10G of memory')
    """
    return "%s %s" % (amount, WORDS.get(resource) or "of " + resource)


def trackable(wanted: Wanted) -> Dict[str, int]:
    """What a job asks for of each trackable resource."""
    found = {"cpu": wanted.cpus, "mem": wanted.memory or 0, "node": wanted.nodes, "gres/gpu": total(wanted.gpus)}
    for kind, count in wanted.gpus.items():
        if kind != UNTYPED:
            found["gres/gpu:" + kind] = count
    return found


def check(wanted: Wanted, cluster: Cluster) -> List[Finding]:
    """What of one job the cluster cannot give."""
    found = [*account(wanted, cluster), *quality(wanted, cluster), *array(wanted, cluster), *features(wanted, cluster)]
    names = wanted.partitions or tuple(one.name for one in cluster.partitions if one.is_default)
    if not names and cluster.partitions:
        near = directive("partition", (cluster.usable() or ["NAME"])[0])
        return [*found, error(0, "partition", "no --partition, and the cluster has no default one", near)]
    by_partition = []
    for name in names:
        partition = cluster.partition(name)
        if partition is None:
            found.append(no_partition(name, wanted, cluster))
            likely = cluster.partition(meant(name, cluster.usable()))
            found += [one for one in in_partition(wanted, cluster, likely) if one.severity == "error"] if likely else []
        else:
            by_partition.append(in_partition(wanted, cluster, partition))
    # A job that names several partitions runs in whichever has room first.
    best = min(by_partition, key=lambda some: sum(one.severity == "error" for one in some), default=[])
    return found + best


def meant(name: str, usable: Sequence[str]) -> str:
    """The partition that a name of none stands for; empty if that is not clear."""
    return nearest(name, set(usable)) or (usable[0] if len(usable) == 1 else "")


def no_partition(name: str, wanted: Wanted, cluster: Cluster) -> Finding:
    """A finding for a name that is no partition's."""
    usable = cluster.usable()
    near = meant(name, usable)
    text = 'there is no partition "%s"; there is %s' % (name, listed(usable))
    return error(wanted.line("partition"), "partition", text, directive("partition", near) if near else "")


def in_partition(wanted: Wanted, cluster: Cluster, partition: Partition) -> List[Finding]:
    """What of a job a partition cannot give."""
    nodes = cluster.nodes_of(partition)
    found = [*access(wanted, cluster, partition), *duration(wanted, cluster, partition)]
    sizes = [
        *node_count(wanted, partition, nodes), *processors(wanted, partition, nodes),
        *memory(wanted, partition, nodes), *gpus(wanted, cluster, partition, nodes),
        *temporary(wanted, partition, nodes),
    ]  # fmt: skip
    if not sizes:
        sizes = [*at_once(wanted, partition, nodes)]
    return found + sizes + [*check_limits(wanted, cluster, partition)]


def access(wanted: Wanted, cluster: Cluster, partition: Partition) -> Iterator[Finding]:
    """Yield why a user may not use a partition, or not now."""
    line, name = wanted.line("partition"), partition.name
    usable = [one for one in cluster.usable() if one != name]
    other = directive("partition", usable[0]) if usable else ""
    if cluster.is_closed(partition):
        text = "partition %s is for the groups %s, and you are in none of them" % (name, listed(partition.allow_groups))
        yield error(line, "partition", text, other)
    if not partition.takes_jobs:
        yield error(line, "partition", "partition %s takes no jobs now (it is %s)" % (name, partition.state), other)
    elif not partition.starts_jobs:
        yield warning(line, "partition", "partition %s starts no jobs now (it is %s)" % (name, partition.state), other)
    accounts = [wanted.value("account")] if wanted.value("account") else [one.account for one in cluster.associations]
    if is_for_others(partition, accounts):
        allowed = "is for the accounts %s" % listed(partition.allow_accounts)
        denied = "takes no jobs of account %s" % listed(accounts)
        text = "partition %s %s" % (name, allowed if partition.allow_accounts else denied)
        yield error(line, "partition", text, other)
    used = wanted.value("qos")
    if used and (used in partition.deny_qos or (partition.allow_qos and used not in partition.allow_qos)):
        shown = directive("qos", partition.allow_qos[0]) if partition.allow_qos else ""
        yield error(wanted.line("qos"), "qos", "partition %s takes no jobs with the QOS %s" % (name, used), shown)


def duration(wanted: Wanted, cluster: Cluster, partition: Partition) -> Iterator[Finding]:
    """Yield why a job may not run as long as it asks for."""
    bounds = [(partition.max_seconds, "partition " + partition.name)]
    if "limits" in cluster.enforced:
        for holder, limit in limit_holders(wanted, cluster, partition, "MaxWall"):
            bounds.append((seconds_of(limit), holder))
    known = [(seconds, holder) for seconds, holder in bounds if seconds is not None]
    if not known:
        return
    longest, holder = min(known)
    asked = wanted.value("time")
    if "time" not in wanted.given:
        if partition.default_seconds is None:
            text = "no --time: the job asks for %s, all that %s allows, and may wait longer for it"
            yield hint(0, "time", text % (clock(longest), holder), directive("time", "01:00:00"))
    elif wanted.seconds is None or wanted.seconds > longest:
        text = "%s allows %s at most, and the job asks for %s" % (holder, clock(longest), asked)
        yield error(wanted.line("time"), "time", text, directive("time", clock(longest)))


def node_count(wanted: Wanted, partition: Partition, nodes: List[Node]) -> Iterator[Finding]:
    """Yield why a job cannot have its number of nodes."""
    line, name = wanted.line("nodes"), partition.name
    most = len(nodes) if partition.max_nodes is None else min(len(nodes), partition.max_nodes)
    if wanted.nodes > most and most:
        text = "partition %s gives %d node%s at most" % (name, most, "" if most == 1 else "s")
        yield error(line, "nodes", text, directive("nodes", str(most)))
    elif partition.min_nodes > max(wanted.most_nodes, wanted.nodes) and wanted.most_nodes:
        text = "partition %s is for jobs with %d nodes or more" % (name, partition.min_nodes)
        yield error(line, "nodes", text, directive("nodes", str(partition.min_nodes)))


def processors(wanted: Wanted, partition: Partition, nodes: List[Node]) -> Iterator[Finding]:
    """Yield why a job cannot have its CPUs."""
    largest = max((node.cpus for node in nodes), default=0)
    if partition.max_cpus_per_node is not None:
        largest = min(largest, partition.max_cpus_per_node)
    everything, name = sum(node.cpus for node in nodes), partition.name
    if not largest:
        return
    if wanted.task_cpus > largest:
        text = "no node of partition %s gives more than %d CPUs, and a task wants %d" % (
            name,
            largest,
            wanted.task_cpus,
        )
        line = wanted.line("cpus-per-task", "cpus-per-gpu")
        yield error(line, "cpus", text, directive("cpus-per-task", str(largest)))
    elif wanted.node_cpus > largest:
        text = "no node of partition %s gives more than %d CPUs, and this needs %d on one" % (
            name, largest, wanted.node_cpus,
        )  # fmt: skip
        fewer = max(1, -(-wanted.cpus // largest))
        shown = directive("nodes", str(fewer)) if fewer <= len(nodes) and "ntasks" in wanted.given else ""
        yield error(wanted.line("ntasks-per-node", "ntasks", "cpus-per-task", "mincpus"), "cpus", text, shown)
    elif wanted.cpus > everything:
        text = "partition %s has %d CPUs in all, and the job wants %d" % (name, everything, wanted.cpus)
        tasks = max(1, everything // wanted.task_cpus)
        yield error(wanted.line("ntasks", "cpus-per-task"), "cpus", text, directive("ntasks", str(tasks)))


def memory(wanted: Wanted, partition: Partition, nodes: List[Node]) -> Iterator[Finding]:
    """Yield why a job cannot have its memory."""
    largest = max((node.memory for node in nodes), default=0)
    if partition.max_mem_per_node:
        largest = min(largest, partition.max_mem_per_node)
    if not largest or wanted.node_memory is None or wanted.node_memory <= largest:
        return
    option = next(name for name in MEMORY if name in wanted.given)
    text = "no node of partition %s gives more than %s, and this needs %s on one" % (
        partition.name, memory_text(largest), memory_text(wanted.node_memory),
    )  # fmt: skip
    factor = max(1, wanted.node_memory // (mebibytes_of(wanted.value(option)) or 1))
    yield error(wanted.line(option), "memory", text, directive(option, memory_text(largest // factor)))


def temporary(wanted: Wanted, partition: Partition, nodes: List[Node]) -> Iterator[Finding]:
    """Yield why a job cannot have its disk space by --tmp, which nodes offer as TmpDisk."""
    asked = mebibytes_of(wanted.value("tmp")) or 0
    largest = max((number_of(node.fields.get("TmpDisk", "")) or 0 for node in nodes), default=0)
    if asked <= largest or not nodes:
        return
    text = "--tmp asks for %s of the nodes' disks, and no node of partition %s has more than %s of it" % (
        wanted.value("tmp"), partition.name, memory_text(largest) if largest else "0M",
    )  # fmt: skip
    scratch = max(node.scratch for node in nodes)
    shown = directive("gres", "scratch:%d" % -(-asked // 1024)) if scratch else ""
    yield error(wanted.line("tmp"), "tmp", text, shown)


def gpus(wanted: Wanted, cluster: Cluster, partition: Partition, nodes: List[Node]) -> Iterator[Finding]:
    """Yield why a job cannot have its GPUs."""
    if not wanted.gpus or not nodes:
        return
    option = next((name for name in GPUS if name in wanted.given), GPUS[0])
    line, name = wanted.line(option), partition.name
    here = most_gpus(nodes)
    if not here:
        text = "the nodes of partition %s have no GPUs" % name
        others = [one for one in cluster.usable() if most_gpus(cluster.nodes_of(cluster.partition(one) or partition))]
        yield error(line, "gpus", text, directive("partition", others[0]) if others else "")
        return
    for kind, count in wanted.node_gpus.items():
        if kind != UNTYPED and kind not in here:
            yield no_type(wanted, cluster, partition, option, kind)
            continue
        most = max(total(node.gpus) for node in nodes) if kind == UNTYPED else here[kind]
        if count > most:
            text = "no node of partition %s has more than %s" % (name, gpu_text({kind: most}))
            yield error(line, "gpus", text, with_gpus(option, kind, most))
        everything = sum(total(node.gpus) if kind == UNTYPED else node.gpus.get(kind, 0) for node in nodes)
        if count <= most and wanted.gpus.get(kind, 0) > everything:
            text = "partition %s has %s in all, and the job wants %d" % (
                name, gpu_text({kind: everything}), wanted.gpus[kind],
            )  # fmt: skip
            yield error(line, "gpus", text, with_gpus(option, kind, everything) if option == "gpus" else "")


def no_type(wanted: Wanted, cluster: Cluster, partition: Partition, option: str, kind: str) -> Finding:
    """A finding for a type of GPU that a partition does not have."""
    here = {one for one in most_gpus(cluster.nodes_of(partition)) if one != UNTYPED}
    others = [
        one.name for one in cluster.partitions
        if one.name in cluster.usable() and kind in most_gpus(cluster.nodes_of(one))
    ]  # fmt: skip
    if others:
        text = "partition %s has no GPUs of type %s" % (partition.name, kind)
        return error(wanted.line(option), "gpus", text, directive("partition", others[0]))
    types = listed(sorted(here)) if here else "none with a type"
    text = 'there are no GPUs of type "%s" in partition %s; it has %s' % (kind, partition.name, types)
    near = nearest(kind, here) or next((one for one in sorted(here) if kind.lower() in one.lower()), "")
    near = near or (next(iter(here)) if len(here) == 1 else "")
    shown = with_gpus(option, near, wanted.node_gpus[kind]) if near else ""
    return error(wanted.line(option), "gpus", text, shown)


def with_gpus(option: str, kind: str, count: int) -> str:
    """A directive that asks for GPUs."""
    words = [] if kind == UNTYPED else [kind]
    return directive(option, ":".join([*(["gpu"] if option == "gres" else []), *words, str(count)]))


def at_once(wanted: Wanted, partition: Partition, nodes: List[Node]) -> Iterator[Finding]:
    """Yield that no node has all at once of what some nodes have each."""
    memory = wanted.node_memory or 0
    largest = sum(fits(node, wanted.node_cpus, memory, wanted.node_gpus) for node in nodes)
    enough = sum(fits(node, wanted.each_cpus, memory, wanted.each_gpus) for node in nodes)
    if not nodes or (largest and enough >= wanted.nodes):
        return
    cpus, of_node = (wanted.each_cpus, wanted.each_gpus) if largest else (wanted.node_cpus, wanted.node_gpus)
    needed = ["%d CPU%s" % (cpus, "" if cpus == 1 else "s")]
    needed += [memory_text(memory)] if memory else []
    needed += [gpu_text(of_node)] if of_node else []
    text = "partition %s has no node with %s together" % (partition.name, " and ".join(needed))
    if largest:
        text = "partition %s has %d node%s with %s, and the job wants %d" % (
            partition.name, enough, "" if enough == 1 else "s", " and ".join(needed), wanted.nodes,
        )  # fmt: skip
    yield error(wanted.line(*GPUS, *MEMORY, *SIZE), "together", text)


def fits(node: Node, cpus: int, memory: int, wanted: Mapping[str, int]) -> bool:
    """Whether an empty node has so much. `memory`: in MiB. `wanted`: GPUs by type."""
    of_types = ((total(node.gpus) if kind == UNTYPED else node.gpus.get(kind, 0)) >= wanted[kind] for kind in wanted)
    return node.cpus >= cpus and node.memory >= memory and all(of_types)


def account(wanted: Wanted, cluster: Cluster) -> Iterator[Finding]:
    """Yield that an account is none of the user's."""
    if "associations" not in cluster.enforced or cluster.user == "root":
        return
    mine = sorted({one.account for one in cluster.associations})
    asked = wanted.value("account")
    if not mine:
        text = "you have no account on this cluster, and jobs run on accounts only; ask its administrators for one"
        yield error(wanted.line("account"), "account", text)
    elif asked and asked not in mine:
        near = nearest(asked, set(mine)) or mine[0]
        text = 'you have no account "%s"; yours: %s' % (asked, listed(mine))
        yield error(wanted.line("account"), "account", text, directive("account", near))


def quality(wanted: Wanted, cluster: Cluster) -> Iterator[Finding]:
    """Yield that a QOS does not exist, or is not for the user."""
    asked, known = wanted.value("qos"), {one.name for one in cluster.qos}
    if not asked or not known:
        return
    mine = {name for one in limit_associations(wanted, cluster) for name in one.qos}
    choice = sorted(mine & known or known)
    near = nearest(asked, set(choice)) or (choice[0] if len(choice) == 1 else "")
    shown = directive("qos", near) if near else ""
    if asked not in known:
        text = 'there is no QOS "%s"; you may use %s' % (asked, listed(choice))
        yield error(wanted.line("qos"), "qos", text, shown)
    elif "qos" in cluster.enforced and mine and asked not in mine and cluster.user != "root":
        yield error(wanted.line("qos"), "qos", "you may not use the QOS %s; yours: %s" % (asked, listed(choice)), shown)


def array(wanted: Wanted, cluster: Cluster) -> Iterator[Finding]:
    """Yield that an array has an index which is too high."""
    text = wanted.value("array").partition("%")[0]
    highest = max((int(one) for one in re.findall(r"(?<!:)\b\d{1,12}\b", text, re.ASCII)), default=0)
    if cluster.most_indices and highest >= cluster.most_indices:
        words = "the highest index of an array is %d here" % (cluster.most_indices - 1)
        yield error(wanted.line("array"), "array", words, directive("array", "0-%d" % (cluster.most_indices - 1)))


def features(wanted: Wanted, cluster: Cluster) -> Iterator[Finding]:
    """Yield features that no node has."""
    known = {name for node in cluster.nodes for name in node.features}
    known |= {name for node in cluster.nodes for name in node.fields.get("AvailableFeatures", "").split(",")}
    known -= {"(null)", ""}
    asked = re.split(r"[&|,\[\]()!\s]+", re.sub(r"\*\d+", "", wanted.value("constraint")))
    for name in filter(None, asked if cluster.nodes else ()):
        if name not in known:
            near = nearest(name, known)
            there = "there is %s" % listed(sorted(known)) if known else "nodes have no features here"
            shown = directive("constraint", near) if near else ""
            yield error(wanted.line("constraint"), "feature", 'no node has the feature "%s"; %s' % (name, there), shown)
