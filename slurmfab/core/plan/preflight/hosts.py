"""Hosts that slurmfab cannot deploy to, with the reason: judged from facts alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.hostlist import natural
from slurmfab.base.ip_addresses import family, is_link_local
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock, is_new_to
from slurmfab.cluster.inventory.trusted_addresses import is_source
from slurmfab.cluster.slurm import mixed
from slurmfab.cluster.slurm.platform import (
    DEBIAN,
    DEBIAN_SMD,
    PLATFORMS,
    SOURCE,
    Platform,
    all_installed,
    installed,
    unsupported,
    wanted,
)
from slurmfab.cluster.slurm.versions import DISTRIBUTION, OLDEST, SlurmVersion
from slurmfab.core.plan.preflight.addresses import NAMES
from slurmfab.core.plan.slurm_series import series, version

NO_LOCK = Lock()

CLOCK_SECONDS = 240
"""The greatest clock offset in seconds: munge refuses credentials after 300 s (munged(8), TTL), transfer included."""

STOP = "systemctl stop slurmctld slurmd slurmdbd"
"""What comes before a removal: Debian's package cancels all jobs while slurmctld runs (its prerm script)."""


def unfit(cluster: Cluster, facts: Mapping[str, HostFacts], lock: Lock = NO_LOCK) -> dict[str, str]:
    """The hosts that cannot be deployed to: names and reasons, for hosts whose facts are known."""
    reasons = {}
    controller = facts.get(cluster.controller)
    knows = controller is not None and not wrong_system(controller, cluster)
    for host, fact in facts.items():
        reason = (
            wrong_system(fact, cluster)
            or wrong_packages(fact, cluster, is_new=is_new_to(lock, host))
            or wrong_clock(fact)
            or wrong_slurm_user(cluster, fact, controller)
            or (wrong_node(fact) if "compute" in cluster.roles(host) else "")
            or wrong_address(cluster, host, fact)
        )
        if not reason and controller is not None and knows and host != cluster.controller:
            reason = wrong_slurm(cluster, fact, version(controller, cluster), cluster.roles(fact.name), controller)
        if reason:
            reasons[host] = reason
    return reasons


def wrong_slurm_user(cluster: Cluster, fact: HostFacts, controller: HostFacts | None) -> str:
    """What is wrong with a SlurmUser of the site's own on a host; empty if nothing is."""
    user = cluster.slurm_user
    if user in ("slurm", "root"):
        return ""
    known, wanted = (one.accounts.get(user) if one else None for one in (fact, controller))
    if known is None:
        return f"there is no user {user} (slurm_user). Make it with the UID that it has on all hosts"
    if wanted and known.uid != wanted.uid:
        return f"{user} (slurm_user) has UID {known.uid}, and {wanted.uid} on {cluster.controller}: Slurm needs one UID"
    return ""


def unfit_newcomers(cluster: Cluster, facts: Mapping[str, HostFacts], expected: str) -> dict[str, str]:
    """The hosts that cannot become compute nodes of a cluster: names and reasons.

    `cluster`: the cluster file with them. `facts`: the facts of hosts that are not in the cluster yet.
    `expected`: the cluster's version of Slurm; empty before its first deployment.
    """
    found = {
        host: (wrong_system(fact, cluster) or wrong_packages(fact, cluster, is_new=True) or wrong_clock(fact))
        or wrong_node(fact)
        or (wrong_slurm(cluster, fact, expected, ("compute",)) if expected else "")
        for host, fact in facts.items()
    }
    return {host: reason for host, reason in found.items() if reason}


def renamed(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts of daemons whose hostname is not the lock's, by which slurmd and slurmctld find their entry."""
    known = {host: lock.hosts[host].hostname for host in facts if host in lock.hosts}
    return {
        host: f"its hostname is {facts[host].hostname}, but slurm.conf knows it as {name}; no daemon starts like that. "
        f"Give it that name again: hostnamectl set-hostname {name}"
        for host, name in known.items()
        if name and name.lower() != facts[host].hostname.lower() and set(cluster.roles(host)) - {"login"}
    }


def wrong_system(fact: HostFacts, cluster: Cluster) -> str:
    """Why the host's distribution, or the Slurm on it, is not supported; empty if it is."""
    meant = wanted(cluster, fact.name)
    reason = unsupported(fact.kinds, fact.codename, meant)
    if reason:
        return reason
    try:
        series(fact, cluster)
    except SlurmfabError as error:
        return other_installation(fact, meant) or too_old(fact, meant) or str(error)
    return ""


def too_old(fact: HostFacts, meant: Platform) -> str:
    """How a host gets a newer Slurm than its packages or its distribution have; empty if its release is unknown."""
    found, oldest = installed(fact), f"slurmfab supports {OLDEST} and newer (docs/supported.md)"
    newer = "" if meant.name == DEBIAN_SMD.name else f"; then {DEBIAN_SMD.key('SERIES')} in the cluster file"
    if found and found.core and fact.slurm_version:
        there = sorted(name for name in fact.packages if any(fnmatchcase(name, one) for one in found.slurm_packages))
        return (
            f"its Slurm is {fact.slurm_version} ({', '.join(there)}), and {oldest}. Take these packages away, while no "
            f"job runs there: {STOP}; {found.manager.remove} {' '.join(there)}{newer} (docs/packages.md)"
        )
    if fact.codename not in DISTRIBUTION or fact.slurm_version:
        return ""
    return (
        f"its distribution ({fact.codename}) has Slurm {DISTRIBUTION[fact.codename]}, which is too old: {oldest}. Name "
        f"packages of a newer one in the cluster file: {DEBIAN_SMD.key('SERIES')} (docs/packages.md)"
    )


def wrong_clock(fact: HostFacts) -> str:
    """Why munge would fail with the host's clock; empty if it would not."""
    if abs(fact.clock_offset) <= CLOCK_SECONDS:
        return ""
    direction = "ahead of" if fact.clock_offset > 0 else "behind"
    return (
        f"its clock is {abs(fact.clock_offset):.0f} s {direction} this machine's, and munge would refuse its "
        "credentials. Set the clock (chronyd, timedatectl) on whichever of the two is wrong."
    )


def wrong_node(fact: HostFacts) -> str:
    """Why the host cannot be a compute node; empty if it can."""
    if fact.hardware is not None:
        return ""
    return (
        "its processors and memory could not be read from /sys/devices/system/cpu and /proc/meminfo; "
        "are they mounted there?"
    )


def wrong_address(cluster: Cluster, host: str, fact: HostFacts) -> str:
    """Why the host's own addresses do not fit the one at which others reach it; empty if one does.

    So what one host tells of itself leaves this host out, and never stops the deployment of the others.
    """
    by = cluster.addresses.get(host, "")
    by = by if is_source(by) else fact.reached
    if not is_source(by) or is_link_local(by) or not fact.addresses or family(by) in map(family, fact.addresses):
        return ""
    name = NAMES[family(by)]
    return (
        f"it is reached by {name} ({by}), and says that it has no {name} address of its own ({fact.addresses[0]}). "
        "Slurm's daemons and job steps connect directly from each host to each other. Give it one, or write under "
        "addresses one that it has."
    )


def wrong_slurm(
    cluster: Cluster, fact: HostFacts, expected: str, roles: Collection[str], controller: HostFacts | None = None
) -> str:
    """Why a host's Slurm does not work with slurmctld (`None`: unknown); empty if it does."""

    def way(trouble: str) -> str:
        if controller is None or fact.codename != controller.codename:
            return mixed.chosen(expected)
        if trouble == "newer":
            return back(fact, controller)
        return f"{FAB} upgrade --to {series(controller, cluster)} --hosts {fact.name}"

    found = version(fact, cluster)
    wrong = mixed.wrong(fact.name, roles, (found, expected), cluster.controller, way)
    if not wrong or fact.slurm_version:
        return wrong
    if cluster.slurm_of(fact.name).series:
        having = f"the cluster file (slurm: {{version: …}}) gives it Slurm {found}"
        is_own = cluster.slurm_of(fact.name) != cluster.slurm
        first = "name one of these there" if is_own else f"first, {FAB} upgrade --to {found}"
        return mixed.outside(having, expected, cluster.controller, first)
    having = f"its distribution ({fact.codename}) installs Slurm {found}"
    return mixed.outside(having, expected, cluster.controller, mixed.chosen(expected))


def back(fact: HostFacts, controller: HostFacts) -> str:
    """How a host gets the controller's packages of Slurm, as the end of a sentence."""
    kind = installed(fact) or DEBIAN
    names = kind.slurm_packages
    theirs = {controller.packages[name] for name in names if name in controller.packages}
    words = (f"{name}{kind.manager.joint}{min(theirs, default='')}" for name in sorted(fact.packages) if name in names)
    return mixed.back_to(words, fact.name, libraries=True, manager=kind.manager)


def wrong_packages(fact: HostFacts, cluster: Cluster, *, is_new: bool) -> str:
    """Why a host's Slurm cannot be replaced by that of the cluster file; empty if there is no need, or none there.

    `is_new`: whether the host is new to the cluster; of a member, what works beside remains stays as it is.
    """
    found, meant = all_installed(fact), wanted(cluster, fact.name)
    if found != (SOURCE,) and is_new and (left := other_installation(fact, meant)):
        return left
    if len(found) > 1:
        return two_kinds(fact, found, meant)
    if found == (SOURCE,) and meant != SOURCE:
        return no_package(fact, meant)
    if found and found[0] != meant:
        return another_kind(fact, found[0], meant)
    if not found and meant == SOURCE:
        return (
            "it has no Slurm, and slurmfab builds none (slurm: {packages: none}). Install it there as on the other "
            f"hosts, with its programs or links to them in {SOURCE.programs} and {SOURCE.commands}"
        )
    return ""


def two_kinds(fact: HostFacts, found: tuple[Platform, ...], meant: Platform) -> str:
    """What is wrong with a host that has packages of more than one kind."""
    others = [name for one in found if one != meant for name in names(fact, one)]
    each = " and ".join(f"{one.title}: {', '.join(names(fact, one))}" for one in found)
    return (
        f"it has two kinds of Slurm's packages, which have the same files ({each}); the cluster file is for "
        f"{meant.title}. Take the others away first, while no job runs there: {STOP}; {meant.manager.remove} "
        f"{' '.join(others)}"
    )


def another_kind(fact: HostFacts, found: Platform, meant: Platform) -> str:
    """What is wrong with a host that has another kind of packages than the cluster file asks for."""
    there, version = names(fact, found), fact.slurm_version
    series = str(SlurmVersion.parse(version)) if version else "VERSION"
    return (
        f"it has Slurm of {found.title} ({', '.join(there)}), and the cluster file is for {meant.title}; slurmfab "
        f"installs neither over the other. If they are right: {found.key(series)} in the cluster file. If not, take "
        f"them away first, while no job runs there: {STOP}; {found.manager.remove} {' '.join(there)}"
    )


def no_package(fact: HostFacts, meant: Platform) -> str:
    """What is wrong with a host that has Slurm of no known package."""
    if left := other_installation(fact, meant):
        return left
    return (
        f"it has Slurm {fact.slurm_version} of no package that slurmfab knows, and slurmfab installs nothing over it "
        f"(it knows {' and '.join(one.title for one in PLATFORMS.values() if one.core)}).{to_keep(fact)}"
    )


def other_installation(fact: HostFacts, meant: Platform) -> str:
    """What another installation has left that would hide what packages bring, and what removes it; empty for none."""
    if meant == SOURCE or not fact.remains:
        return ""
    units = [path for path in fact.remains if path.endswith(".service")]
    programs = [path for path in fact.remains if path not in units]
    hides = ["programs in /usr/local come before theirs on PATH"] * any("/usr/local/" in path for path in programs)
    hides += ["a unit in /etc/systemd/system hides theirs"] * bool(units)
    names = " ".join(path.rpartition("/")[2].removesuffix(".service") for path in units)
    commands = [f"systemctl disable --now {names}"] * bool(units) + [f"rm -r {' '.join(fact.remains)}"]
    commands += ["systemctl daemon-reload"] * bool(units) + ["ldconfig"] * any("/lib" in path for path in programs)
    which = f"Slurm {fact.slurm_version} of no package" if all_installed(fact) == (SOURCE,) else "what it has"
    return (
        f"another installation of Slurm is there, {which}: {', '.join(fact.remains)}. It would stand in the way of "
        f"{meant.title} ({' and '.join(hides) or 'which have the same files'}).{to_keep(fact)} To remove it, while no "
        f"job runs there: {'; '.join(commands)}"
    )


def to_keep(fact: HostFacts) -> str:
    """How a Slurm of no package is kept, as a sentence; empty for one that slurmfab does not support."""
    with suppress(SlurmfabError):
        if fact.slurm_version and all_installed(fact) == (SOURCE,):
            return f" To keep it: {SOURCE.key(str(SlurmVersion.parse(fact.slurm_version)))} in the cluster file."
    return ""


def names(fact: HostFacts, one: Platform) -> list[str]:
    """The packages of a kind that a host has, of those that tell it."""
    return sorted({*one.telling} & fact.packages.keys(), key=natural)
