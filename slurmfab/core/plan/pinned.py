"""The lock as it is after hosts have answered: what is decided once, such as host keys, hardware and IDs."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from slurmfab.base.paths import FORMER_SPOOL, SLURM_SPOOL
from slurmfab.cluster.facts import Hardware, HostFacts
from slurmfab.cluster.inventory import people_ids, trusted_addresses
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock, Spool
from slurmfab.core.impact import hardware_changes
from slurmfab.core.plan import mig
from slurmfab.core.plan.preflight import cgroups
from slurmfab.core.plan.slurm_series import in_lock

MOST_NUMBERS = 256
"""How many numbers of a host count for the others: one that lies cannot have the whole directory refused."""

_SPOOL = re.compile(r"^[ \t]*SlurmdSpoolDir[ \t]*=[ \t]*\"?([^\s\"#]+)", re.IGNORECASE | re.MULTILINE)


def pin(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], *, move_ids: bool = False, may_lose: bool = False
) -> Lock:
    """Complete the lock from facts of hosts that answered; hostname and hardware that it has already stay.

    `may_lose`: whether control groups that limit less replace others. Raises IdConflict with a host's numbers.
    """
    installed = facts[cluster.controller].slurm_version if cluster.controller in facts else ""
    now = installed or lock.slurm
    hosts = of_other_series(lock, now)
    shared = shared_keys(hosts, facts)
    for name, fact in facts.items():
        old = hosts.get(name, HostLock())
        divided = mig.pinned(cluster, name, old, hardware_changes.pinned(cluster, name, old, fact), fact)
        hosts[name] = replace(
            old,
            hostname=old.hostname or fact.hostname,
            host_keys=pinned_keys(old.host_keys, fact.ssh_host_keys, shared),
            hardware=counted(old, fact),
            kernel=kernel_count(old, fact),
            gpus=divided.gpus,
            mig_before=divided.before,
            on_trial=old.on_trial or (divided.differs and old.hardware is not None),
            cgroup=cgroups.pinned(old.cgroup, fact.cgroup, may_lose=may_lose),
            public_key=fact.public_key or old.public_key,
            mail_program=fact.mail_program if name in cluster.controllers else "",
            addresses=tuple(sorted(fact.addresses)) or old.addresses,
            slurm=in_lock("", fact.slurm_version, now, ""),
            own_numbers=fact.own_numbers[:MOST_NUMBERS],
            never_seen=old.never_seen and not is_first_sight(old, fact),
        )
    hosts = with_trusted(hosts, trusted_addresses.decide(cluster, lock.hosts, facts))
    ids = people_ids.decide(cluster, lock.ids, facts, controller=cluster.controller, moving=move_ids)
    leaving = people_ids.still_leaving(cluster, lock, facts)
    spool = pinned_spool(lock, facts.get(cluster.controller))
    return replace(lock, hosts=hosts, ids=ids, leaving=leaving, slurm=now, spool=spool)


def counted(old: HostLock, fact: HostFacts) -> Hardware | None:
    """A host's hardware for the lock, which stays; but where Slurm counts the same processors otherwise, by its count.

    So slurmd's count follows that of sysfs, which is all that is known before slurmd is installed, and other
    SlurmdParameters are followed. Other processors are other hardware, which somebody has to accept.
    """
    if old.hardware is None or fact.hardware is None or is_first_sight(old, fact):
        return old.hardware if fact.hardware is None else fact.hardware
    if not is_same_machine(old, fact) or "slurmd" not in fact.slurm_versions:
        return old.hardware
    return replace(fact.hardware, RealMemory=old.hardware.RealMemory)


def kernel_count(old: HostLock, fact: HostFacts) -> Hardware | None:
    """The kernel's count for the lock, beside that of `counted`."""
    is_new = old.hardware is None or is_first_sight(old, fact)
    is_counted = is_same_machine(old, fact) and "slurmd" in fact.slurm_versions
    return fact.kernel if is_new or is_counted else old.kernel


def is_same_machine(old: HostLock, fact: HostFacts) -> bool:
    """Whether the kernel counts the processors that it counted for the lock; not known of a hand-made slurm.conf's.

    slurmd counts no more than the kernel: more is another machine, or its word.
    """
    known, now = old.kernel or old.hardware, fact.kernel or fact.hardware
    if fact.hardware and now and fact.hardware.CPUs > now.CPUs:
        return False
    return known is not None and now is not None and known.processors == now.processors


def is_first_sight(known: HostLock, fact: HostFacts) -> bool:
    """Whether a node of a hand-made slurm.conf answers for the first time, and has no less than that says."""
    return known.never_seen and fact.hardware is not None and not lacks(known, fact)


def lacks(known: HostLock, fact: HostFacts) -> bool:
    """Whether a node has less than the lock says."""
    if known.hardware is None or fact.hardware is None:
        return False
    wanted, there = known.hardware, fact.hardware
    return there.CPUs < wanted.CPUs or there.RealMemory < wanted.RealMemory or len(fact.gpus) < len(known.gpus)


def with_trusted(
    hosts: Mapping[str, HostLock], trusted: Mapping[str, trusted_addresses.Trusted]
) -> dict[str, HostLock]:
    """The lock's entries with what others trust of each host's addresses."""
    found = dict(hosts)
    for name, known in hosts.items():
        reached, further = trusted.get(name, trusted_addresses.NONE)
        if (known.reached, known.trusted) != (reached, further):
            found[name] = replace(known, reached=reached, trusted=further)
    return found


def pinned_spool(lock: Lock, controller: HostFacts | None) -> Spool:
    """SlurmdSpoolDir where the cluster file names none: the former place only where slurm.conf has it already.

    slurmd finds the running steps of its node by this directory, so a cluster keeps it until somebody moves it.
    `controller`: the facts of the primary controller; `None` if it did not answer.
    """
    if controller is None or lock.spool == SLURM_SPOOL:
        return lock.spool
    found = _SPOOL.findall(controller.slurm_conf)
    now = posixpath.normpath(found[-1]) if found else ""
    if now == SLURM_SPOOL or not (lock.spool or now == FORMER_SPOOL):
        return SLURM_SPOOL
    return FORMER_SPOOL


def of_other_series(lock: Lock, now: str) -> dict[str, HostLock]:
    """The entries of a lock's hosts, with their version of Slurm where that is not of the cluster's series."""
    if now == lock.slurm:
        return dict(lock.hosts)
    there = {name: in_lock(one.slurm, "", now, lock.slurm if one.hostname else "") for name, one in lock.hosts.items()}
    return {
        name: one if one.slurm == there[name] else replace(one, slurm=there[name]) for name, one in lock.hosts.items()
    }


def shared_keys(hosts: Mapping[str, HostLock], facts: Mapping[str, HostFacts]) -> frozenset[tuple[str, str]]:
    """The SSH host keys that several hosts tell of, or have in the lock: at most one of them has it."""
    told = {name: {*one.host_keys.items()} for name, one in hosts.items()}
    for name, fact in facts.items():
        told.setdefault(name, set()).update(fact.ssh_host_keys.items())
    count = Counter(key for keys in told.values() for key in keys)
    return frozenset(key for key, times in count.items() if times > 1)


def pinned_keys(
    old: Mapping[str, str], told: Mapping[str, str], shared: Collection[tuple[str, str]] = ()
) -> Mapping[str, str]:
    """The host keys for the lock, base64 by type: those that a host alone tells of join the pinned one.

    `shared`: those that others tell of, too.
    """
    own = {kind: key for kind, key in told.items() if (kind, key) not in shared or old.get(kind) == key}
    return own if len(old) <= 1 and old.items() <= own.items() and own else old
