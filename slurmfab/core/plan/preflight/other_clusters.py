"""Whether hosts belong to another cluster: judged from facts, for every host that is new to the lock.

A host that is in use is not ours, even if both clusters have one name: a sign counts as ours only if it names this
cluster and its controller. So hosts that an interrupted run set up, or whose lock was lost, stay ours.
"""

from __future__ import annotations

import hashlib
from binascii import a2b_base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from slurmfab.base.errors import InputError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import NO_ADDRESS, canonical, family, is_loopback
from slurmfab.base.objections import Objection, objected
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import ClusterMark, HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock, is_new_to
from slurmfab.core.impact.disruptive_changes import HOST_IN_USE
from slurmfab.on_hosts.agent.core.listing import listed

UNSET_CONTROLLER = "linux0"  # the controller in the slurm.conf of Slurm's examples

SHOWN_JOBS = 8
DAEMONS = ("slurmctld", "slurmd")
RUNNING = ("active", "activating", "reloading")
WAYS_OUT = (
    "Nothing was changed. A deployment would take these hosts from their cluster, and their jobs would be lost. Either "
    f"deploy with the cluster file of that cluster, which names its controller ({FAB} import --hosts CONTROLLER writes "
    "one); or remove the hosts there first "
    f"({FAB} remove-node, or disable the daemons and delete these files); or take them all the same: add "
    f"--allow {HOST_IN_USE}."
)


@dataclass(frozen=True)
class Identity:
    """What tells a cluster from others: its names, and where its controllers are."""

    names: frozenset[str]  # values of ClusterName, in lower case
    controllers: frozenset[str]  # short host names of its controllers
    addresses: frozenset[str]  # IP addresses of its controllers, and their names with a domain
    # SHA-256 of its munge key in hexadecimal digits; empty if it has none, `None` if nobody has asked the controller
    # yet
    munge_key: str | None = None

    def has_key(self, munge_key: str) -> bool:
        """Whether the munge key of a host may be that of the cluster."""
        return self.munge_key is None or (bool(munge_key) and munge_key == self.munge_key)

    def has_controller(self, mark: ClusterMark, munge_key: str) -> bool:
        """Whether the primary controller that a sign names is one of this cluster.

        A name alone does not tell it, since many controllers have the same: the address does, or else the munge key.
        `mark`: the sign; it names a controller. `munge_key`: SHA-256 of the munge key on its host.
        """
        name, address = split_controller(mark.controllers[0])
        if {name, address} & self.addresses:
            return True
        return short(name) in self.controllers and self.has_key(munge_key)

    def owns(self, mark: ClusterMark, munge_key: str) -> bool:
        """Whether a sign is one of this cluster. `munge_key`: SHA-256 of the munge key on its host."""
        if mark.cluster and mark.cluster.lower() not in self.names:
            return False
        if mark.controllers:
            return self.has_controller(mark, munge_key)
        return bool(mark.cluster) or self.has_key(munge_key)


def identity(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> Identity:
    """What tells the cluster from others, also its name in the controller's slurm.conf of now."""
    names = [*cluster.controllers, *(cluster.addresses.get(name, "") for name in cluster.controllers)]
    locked = [lock.hosts[name] for name in cluster.controllers if name in lock.hosts]
    names += [name for host in locked for name in (host.hostname, *host.addresses)]
    return identity_of(cluster.name, names, [facts[name] for name in cluster.controllers if name in facts])


def identity_of(cluster: str, names: Iterable[str], controllers: Sequence[HostFacts]) -> Identity:
    """What tells a cluster from others: controllers' names and addresses, and their facts, primary first."""
    known = {canonical(name.lower()) for name in (*names, *(fact.hostname for fact in controllers)) if name}
    addresses = {name for name in known if is_address(name) or "." in name}
    addresses |= {canonical(address) for fact in controllers for address in fact.addresses}
    key = munge_key_of(controllers[0]) if controllers else None
    ours = Identity(frozenset({cluster}), frozenset(map(short, known)), frozenset(addresses), key)
    marks = controllers[0].slurm_use.marks if controllers else ()
    named = [mark for mark in marks if mark.cluster and mark.controllers]
    own = {mark.cluster.lower() for mark in named if ours.has_controller(mark, key or "")}
    return replace(ours, names=ours.names | own)


def munge_key_of(fact: HostFacts) -> str:
    """The SHA-256 of a host's munge key in hexadecimal digits; empty if it has none or was not asked for it."""
    if fact.munge_key:
        return hashlib.sha256(a2b_base64(fact.munge_key)).hexdigest()
    return fact.slurm_use.munge_key


def refuse_in_use(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()) -> None:
    """Refuse, by InputError with ways out, other clusters' hosts, and a controller beside a living one."""
    ours = identity(cluster, lock, facts)
    refuse_others(ours, {host: fact for host, fact in facts.items() if is_new_to(lock, host)}, allowed)
    left = left_controllers(cluster, facts, ours)
    if left and HOST_IN_USE not in allowed and not has_controller_at_work(cluster, facts):
        raise InputError(
            f"{fold(left)}: slurmctld runs there as the controller of this cluster, and the cluster file says "
            f"{fold(cluster.controllers)}, which would begin with an empty state: all jobs would be lost. Nothing was "
            f"changed. If the cluster's jobs are on {fold(left)} (squeue), name it in `controllers`; or, to give them "
            "up, stop it there: systemctl disable --now slurmctld."
        )


def left_controllers(cluster: Cluster, facts: Mapping[str, HostFacts], ours: Identity) -> tuple[str, ...]:
    """The hosts that call themselves controllers of this cluster, and are none of its file's."""
    return tuple(
        host for host, fact in facts.items() if host not in cluster.controllers and has_left_controller(ours, fact)
    )


def has_controller_at_work(cluster: Cluster, facts: Mapping[str, HostFacts]) -> bool:
    """Whether slurmctld runs on a controller of the cluster file: it has the jobs, whatever another host says."""
    return any(facts[host].services.get("slurmctld") in RUNNING for host in cluster.controllers if host in facts)


def has_left_controller(ours: Identity, fact: HostFacts) -> bool:
    """Whether slurmctld runs on a host for controllers of which the cluster file names none."""
    if fact.services.get("slurmctld") not in RUNNING:
        return False
    marks = [mark for mark in fact.slurm_use.marks[:1] if mark.cluster.lower() in ours.names and not is_unset(mark)]
    each = [replace(mark, controllers=(one,)) for mark in marks for one in mark.controllers]
    return bool(each) and not any(ours.has_controller(one, ours.munge_key or "") for one in each)


def refuse_others(ours: Identity, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()) -> None:
    """Refuse hosts that belong to another cluster than this one; see `refuse_in_use`."""
    if HOST_IN_USE in allowed:
        return
    found = grouped((reason, host) for host, fact in facts.items() if (reason := other_use(ours, fact)))
    objected((Objection((*hosts,), reason) for reason, hosts in found.items()), (WAYS_OUT,))


def other_use(ours: Identity, fact: HostFacts) -> str:
    """What shows that a host belongs to another cluster, as a sentence; empty if nothing does."""
    use = fact.slurm_use
    signs = [mark for mark in use.marks if not is_unset(mark)]
    others = [mark for mark in signs if not ours.owns(mark, munge_key_of(fact))]
    if not others and (signs or not use.jobs):
        return ""
    what = format_mark(others[0]) if others else "no file says to which cluster it belongs"
    running = list(use.daemons) + ["slurmstepd"] * bool(use.jobs)
    if not running:
        return f"{what}. No daemon of Slurm runs there now."
    jobs = f", with {format_jobs(use.jobs)}" if use.jobs else ""
    return f"{what}; {format_running(running)}{jobs}."


def hosts_taken(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str]
) -> dict[str, str]:
    """The hosts of the lock that another cluster has taken meanwhile: names and reasons."""
    if HOST_IN_USE in allowed:
        return {}
    ours = identity(cluster, lock, facts)
    known = {host: fact for host, fact in facts.items() if not is_new_to(lock, host)}
    beside = left_controllers(cluster, facts, ours) if has_controller_at_work(cluster, facts) else ()
    taken = {
        host: f"{reason} So the host was left as it is. If it is no longer a node of this cluster: {FAB} remove-node "
        f"{host}. To take it back: add --allow {HOST_IN_USE}."
        for host, reason in used_elsewhere(cluster, lock, known, ours).items()
    }
    told = f"it says that slurmctld runs there for this cluster, beside {fold(cluster.controllers)}. So it was left as "
    told += "it is. Stop that one: systemctl disable --now slurmctld; then run again."
    return {**dict.fromkeys(beside, told), **taken}


def used_elsewhere(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], ours: Identity | None = None
) -> dict[str, str]:
    """Hosts, known or new, that belong to another cluster than `ours` (or the file's), and what shows it."""
    ours = ours or identity(cluster, lock, facts)
    reasons = {
        host: other_use(ours, fact) if is_new_to(lock, host) else taken_by(ours, fact) for host, fact in facts.items()
    }
    return {host: reason for host, reason in reasons.items() if reason}


def taken_by(ours: Identity, fact: HostFacts) -> str:
    """What shows that a host of the lock works for another cluster by now, as a sentence; empty if nothing does.

    Another name alone is no sign of that, nor is another controller alone: this cluster may have changed them. `ours`:
    the cluster whose lock has the host.
    """
    at_work = [daemon for daemon in DAEMONS if fact.services.get(daemon) in RUNNING]
    for mark in fact.slurm_use.marks[:1]:
        is_other = bool(mark.controllers) and mark.cluster.lower() not in ours.names and not is_unset(mark)
        if at_work and is_other and not ours.has_controller(mark, ours.munge_key or ""):
            return f"{format_mark(mark)}; {format_running(at_work)}."
    return ""


def is_unset(mark: ClusterMark) -> bool:
    """Whether a slurm.conf is an example or has the machine itself as its only host, so that it is no cluster."""
    return bool(mark.controllers) and all(
        short(name) == UNSET_CONTROLLER or is_loopback(name) or is_loopback(address)
        for name, address in map(split_controller, mark.controllers)
    )


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    return family(text) != NO_ADDRESS


def split_controller(value: str) -> tuple[str, str]:
    """Host name and address of a value of SlurmctldHost, in lower case; the address is empty if it is not there.

    >>> split_controller("Ctl(10.0.0.1)"), split_controller("ctl.example.org")
    (('ctl', '10.0.0.1'), ('ctl.example.org', ''))
    """
    name, _, address = value.lower().rstrip(")").partition("(")
    return canonical(name), canonical(address)


def short(name: str) -> str:
    """A host name without its domain; an IP address as it is."""
    return name if is_address(name) else name.partition(".")[0]


def format_mark(mark: ClusterMark) -> str:
    """A sign as the beginning of a sentence about its host."""
    if not mark.cluster and not mark.controllers:
        return f"it belongs to a cluster whose slurm.conf was not found ({mark.place})"
    if not mark.controllers:
        return f"it has the state of the cluster {mark.cluster} ({mark.place})"
    name = mark.cluster or "without a known name"
    return f"it belongs to the cluster {name}, whose controller is {mark.controllers[0]} ({mark.place})"


def format_running(daemons: Sequence[str]) -> str:
    """`slurmd runs there`, `slurmctld and slurmd run there`."""
    return f"{' and '.join(daemons)} {'runs' if len(daemons) == 1 else 'run'} there"


def format_jobs(jobs: tuple[int, ...]) -> str:
    """Jobs as text, the first of many by their ids."""
    return f"job{'' if len(jobs) == 1 else 's'} {listed(map(str, jobs), SHOWN_JOBS)}"
