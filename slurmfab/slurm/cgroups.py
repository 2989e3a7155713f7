"""Control groups in words: what a host has, what keeps Slurm from using it, what that costs, and what to change.

Sources: cgroup.conf(5), the cgroup v2 page of Slurm's documentation, systemd(1) on `systemd.unified_cgroup_hierarchy`,
and the kernel's list of parameters (`cgroup_disable`, `cgroup_enable`, `cgroup_no_v1`, `swapaccount`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from slurmfab.agent.cgroups import NO_BUS
from slurmfab.facts import Cgroup, HostFacts, weakest
from slurmfab.hostlist import fold
from slurmfab.promises.dangers import LOST_LIMITS
from slurmfab.slurm.versions import SlurmVersion

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.lock import Lock

V1_DEPRECATED = SlurmVersion(25, 5)
"""From here on slurmd warns of the plugin for version 1 (RELEASE_NOTES of 25.05)."""

ONLY_V2 = "systemd.unified_cgroup_hierarchy=1"
ONLY_V1 = "systemd.unified_cgroup_hierarchy=0"
SWAP = "swapaccount=1"
WHERE = "on the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and a reboot)"

ABOUT_ALL = {
    "hybrid": "version 1 beside a version 2 at /sys/fs/cgroup/systemd, which Slurm would choose and cannot use",
    "nothing mounted": "nothing is mounted at /sys/fs/cgroup",
    "no systemd": "version 1 without /sys/fs/cgroup/systemd, by which Slurm knows it",
    "read-only": "version 2, mounted read-only",
    NO_BUS: "version 2, and no D-Bus system bus, over which Slurm asks systemd for its place",
}
"""What is the matter where it is not a matter of single controllers."""

OF_ONE = {
    "off": "{} switched off at boot",
    "missing": "{} missing from /sys/fs/cgroup/cgroup.controllers",
    "on v1": "{} taken by version 1",
    "not mounted": "{} not mounted",
    "read-only": "{} mounted read-only",
}
"""What is the matter with a controller, or with some."""


def described(cgroup: Cgroup) -> str:
    """What a host has, as far as it is of no use to Slurm: `version 2 with cpuset and memory taken by version 1`."""
    about_all = [ABOUT_ALL[words] for words in _worst(cgroup) if words in ABOUT_ALL]
    if about_all:
        return "; ".join(about_all)
    if cgroup.version not in ("v1", "v2"):
        return ABOUT_ALL["hybrid" if cgroup.version == "hybrid" else "nothing mounted"]
    number = cgroup.version.removeprefix("v")
    by_trouble = _by_trouble(cgroup)
    if by_trouble:
        some = " and ".join(OF_ONE.get(why, "{} " + why).format(_all_of(names)) for why, names in by_trouble.items())
        return f"version {number} with {some}"
    if cgroup.is_usable:
        return f"version {number}" + ("" if cgroup.swap else " without accounting of swap space")
    return f"version {number} with {_all_of(cgroup.controllers)} alone" if cgroup.controllers else f"version {number}"


def repair(cgroup: Cgroup, like: str = "") -> str:
    """What to change on a host, so that Slurm can use its control groups.

    Args:
        cgroup: what it has.
        like: the version that the other nodes have, `v1` or `v2`; empty where none has any.
    """
    version = ONLY_V1 if like == "v1" else ONLY_V2
    whys = _by_trouble(cgroup)
    if "read-only" in cgroup.troubles or "read-only" in whys:
        places = " ".join(f"/sys/fs/cgroup/{name}" for name in whys.get("read-only", ())) or "/sys/fs/cgroup"
        mounts = "; ".join(f"mount -o remount,rw {place}" for place in places.split())
        return f"{mounts} (in a container, have its manager mount it writable)"
    if _worst(cgroup) == (NO_BUS,):
        return "apt-get install dbus && systemctl start dbus.socket"
    if "off" in whys:
        arguments = " ".join(f"cgroup_enable={name}" for name in whys["off"])
        swap = f" {SWAP}" if "memory" in whys["off"] else ""
        return f"{arguments}{swap} instead of cgroup_disable=… {WHERE}"
    if cgroup.is_usable:
        return f"{SWAP} {WHERE}"
    if "missing" in whys:
        return (
            f"cgroup_enable=memory {WHERE}; in a container, have its manager hand the controllers down "
            "(cgroup.subtree_control)"
        )
    return f"{version} {WHERE}"


def lacks(cgroup: Cgroup, needed: Cgroup) -> bool:
    """Whether control groups can do less than is needed."""
    return (needed.is_usable and not cgroup.is_usable) or (needed.swap and not cgroup.swap)


def kept(before: Cgroup | None, now: Cgroup, *, may_lose: bool = False) -> Cgroup:
    """What the lock holds of a host's control groups from now on.

    What they can do now is taken up at once, unless it is less: one host would then take the limits from the jobs of
    all nodes, without a word.

    Args:
        before: what it held.
        now: what the host has.
        may_lose: whether somebody has agreed to less.
    """
    return before if before is not None and lacks(now, before) and not may_lose else now


def others(cluster: Cluster, lock: Lock, host: str = "") -> tuple[Cgroup, ...]:
    """What the lock holds of all compute nodes but one."""
    known = ((name, lock.hosts.get(name)) for name in cluster.compute_nodes if name != host)
    return tuple(member.cgroup or Cgroup("none") for _, member in known if member and member.hardware)


def uses_them(cluster: Cluster) -> bool:
    """Whether it is slurmfab that says what Slurm does with control groups, and not the cluster file."""
    return not {"proctracktype", "taskplugin"} & {key.lower() for key in cluster.slurm_conf}


def losing(
    cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], allowed: Collection[str] = ()
) -> dict[str, str]:
    """The compute nodes with which all would lose their limits, with the reason: a deployment leaves them out.

    slurmd would not start there with the slurm.conf that the others need, and that is not changed for one of them.

    Args:
        cluster: the cluster file.
        lock: as it was before these facts.
        facts: of the hosts that answered.
        allowed: names of dangers that are accepted.
    """
    if LOST_LIMITS in allowed or not lock.slurm or not uses_them(cluster):
        return {}
    members = others(cluster, lock)
    if not members or not weakest(members).is_usable:
        return {}
    return {
        host: f"{words(facts[host].cgroup, like(members))} Until then the host is left as it is. {consent()}"
        for host in cluster.compute_nodes
        if host in facts and not facts[host].cgroup.is_usable
    }


def words(cgroup: Cgroup, version: str) -> str:
    """What speaks against a host whose control groups can do less than Slurm counts on.

    Args:
        cgroup: what it has.
        version: that the others have.
    """
    return (
        f"its control groups ({described(cgroup)}) can do less than Slurm counts on, which has one setting for all "
        f"nodes: no job would be held to its {_loss(cgroup)} on any of them. Change there: "
        f"{repair(cgroup, version)}."
    )


def consent() -> str:
    """What to say to have it all the same."""
    return f"If no node is to have these limits any more: --allow {LOST_LIMITS}."


def like(members: Collection[Cgroup]) -> str:
    """The version that most of these have, of those that Slurm can use; empty where none has any."""
    usable = [member.version for member in members if member.is_usable]
    return max(sorted(set(usable)), key=usable.count, default="")


def remarks(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts], version: SlurmVersion) -> Iterator[str]:
    """What somebody should know of the compute nodes' control groups, a line for each group of equal hosts.

    Args:
        cluster: the cluster file.
        lock: with what these facts add to it.
        facts: of the hosts that answered.
        version: of the installed Slurm.
    """
    if not uses_them(cluster):
        return
    there = ((name, _now(lock, facts, name)) for name in cluster.compute_nodes if name in lock.hosts)
    nodes = {name: cgroup for name, cgroup in there if cgroup is not None}
    wanted, most = weakest(others(cluster, lock)), like(tuple(nodes.values()))
    poor = {name: cgroup for name, cgroup in nodes.items() if not cgroup.is_usable}
    for hosts, cgroup in _alike(poor):
        cost = "" if wanted.is_usable else f" So no node holds its jobs to {_loss(cgroup)}; slurm.conf is one for all."
        change = repair(cgroup, most) + (f"; the other nodes have version {most.removeprefix('v')}" if most else "")
        yield f"{hosts}: no control groups that Slurm can use: {described(cgroup)}.{cost} Change there: {change}."
    busless = [name for name, cgroup in nodes.items() if cgroup.is_usable and NO_BUS in cgroup.troubles]
    if busless:
        cgroup = nodes[busless[0]]
        yield f"{fold(busless)}: {described(cgroup)}. A deployment installs dbus, which has to run then."
    swapless = {name: cgroup for name, cgroup in nodes.items() if cgroup.is_usable and not cgroup.swap}
    if not poor and len(swapless) < len(nodes):
        for hosts, cgroup in _alike(swapless):
            cost = " So jobs may grow into the swap space of every node." if not wanted.swap else ""
            yield f"{hosts}: the kernel accounts no swap space.{cost} Change there: {repair(cgroup)}."
    old = [name for name, cgroup in nodes.items() if cgroup.is_usable and cgroup.version == "v1"]
    if old and version >= V1_DEPRECATED:
        yield (
            f"{fold(old)}: control groups of version 1, which Slurm {version} takes with a warning. For version 2: "
            f"{ONLY_V2} {WHERE}."
        )


def _now(lock: Lock, facts: Mapping[str, HostFacts], name: str) -> Cgroup | None:
    """What a host has now, or else what the lock holds of it."""
    return facts[name].cgroup if name in facts else lock.hosts[name].cgroup


def _alike(hosts: Mapping[str, Cgroup]) -> Iterator[tuple[str, Cgroup]]:
    """Hosts with equal trouble together, folded."""
    groups: dict[str, list[str]] = {}
    for name, cgroup in hosts.items():
        groups.setdefault(described(cgroup), []).append(name)
    for names in groups.values():
        yield fold(names), hosts[names[0]]


def _loss(cgroup: Cgroup) -> str:
    """What jobs are not held to for a host with these control groups."""
    return "swap space" if cgroup.is_usable else "cores, memory and devices"


def _worst(cgroup: Cgroup) -> tuple[str, ...]:
    """What is in the way; the bus, which is a package away, only where there is nothing worse."""
    return tuple(words for words in cgroup.troubles if words != NO_BUS) or cgroup.troubles


def _by_trouble(cgroup: Cgroup) -> dict[str, list[str]]:
    """The controllers that have something the matter with them, by what it is."""
    found: dict[str, list[str]] = {}
    for text in _worst(cgroup):
        name, _, why = text.partition(" ")
        if text not in ABOUT_ALL:
            found.setdefault(why, []).append(name)
    return found


def _all_of(names: Collection[str]) -> str:
    """Names in a sentence."""
    return " and ".join(filter(None, (", ".join(list(names)[:-1]), *list(names)[-1:])))
