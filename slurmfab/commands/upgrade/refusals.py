"""Why an upgrade may not be done, each with what to do instead: nothing is changed before all of them are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from slurmfab.base.archive import format_size
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm import platform, window
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.cluster.slurm.window import Member
from slurmfab.commands.upgrade.asked import Asked, HostState
from slurmfab.commands.upgrade.conversion import ROOM
from slurmfab.commands.upgrade.plan import HostVersions, upstream

_SERIES = re.compile(r"(\d\d)\.(\d\d)")
PACKAGES_ROOM = 600 << 20  # free bytes for new packages before and after they are unpacked


def series(text: str) -> SlurmVersion | None:
    """The series of a version of Slurm or of a package, also of one that slurmfab does not support; `None` for none."""
    found = _SERIES.match(text.rpartition(":")[2])
    return SlurmVersion(int(found[1]), int(found[2])) if found else None


def members(hosts: Mapping[str, HostVersions]) -> dict[Member, list[SlurmVersion]]:
    """The series of Slurm's daemons as they run, and of its commands, on all hosts."""
    found: dict[Member, list[SlurmVersion]] = {}
    for versions in hosts.values():
        for daemon in ("slurmdbd", "slurmctld", "slurmd"):
            version = series(versions.running.get(daemon, versions.programs.get(daemon, "")))
            if version and daemon in versions.programs:
                found.setdefault(daemon, []).append(version)
        if commands := series(versions.slurm):
            found.setdefault("commands", []).append(commands)
    return found


def oldest(asked: Asked, hosts: Mapping[str, HostVersions]) -> SlurmVersion | None:
    """The oldest series that anything has that the new Slurm has to understand: daemons, commands and state."""
    states = [series(state.state) for state in asked.hosts.values()]
    found = [version for versions in members(hosts).values() for version in versions]
    return min((*found, *filter(None, states)), default=None)


def refusals(asked: Asked, hosts: Mapping[str, HostVersions], to: SlurmVersion) -> Iterator[str]:
    """Yield the reasons."""
    yield from of_source(asked, hosts)
    yield from of_window(asked, hosts, to)
    yield from of_room(asked)


def of_source(asked: Asked, hosts: Mapping[str, HostVersions]) -> Iterator[str]:
    """Yield why hosts could not get the new packages, each by its own answer."""
    reasons = ((asked.hosts[host].release, why_none(asked, host), host) for host in asked.hosts if host in asked.offers)
    for (release, why), some in grouped(((release, why), host) for release, why, host in reasons if why).items():
        yield f"{fold(some)} ({release}): {why}"
    yield from of_uneven_offers(hosts)
    bare = [host for host, state in asked.hosts.items() if not state.packages and asked.cluster.roles(host)]
    if bare:
        kind = asked.cluster.slurm_of(bare[0]).packages
        yield (
            f"{fold(bare)}: there is none of Slurm's packages of the kind that the cluster file names (slurm: "
            f"{{packages: {kind}}}). Deploy first: {FAB} deploy; an upgrade does not change the kind."
        )


def why_none(asked: Asked, host: str) -> str:
    """Why a host could not get the new packages; empty if it could, or has them."""
    wanted = f"Slurm {asked.version}" if asked.version else f"Slurm from the suite {asked.suite}"
    offer, manager = asked.offer(host), platform.wanted(asked.cluster, host).manager.name
    if offer.trouble:
        return f"{manager} would not install {wanted}: {offer.trouble}"
    if offer.removed:
        return (
            f"with {wanted}, {manager} would remove {', '.join(offer.removed)}. Remove or replace these first, if "
            "nothing needs them."
        )
    pattern = asked.version.removesuffix("*")
    if offer.versions or all(upstream(one).startswith(pattern) for one in asked.hosts[host].packages.values()):
        return ""
    there = f"; they have {', '.join(offer.offered[:5])}" if offer.offered else ""
    return (
        f"none of the package sources has {wanted}{there}. Name a source in the cluster file (slurm: {{source: …}}), "
        f"or another suite: {FAB} upgrade --suite NAME."
    )


def of_uneven_offers(hosts: Mapping[str, HostVersions]) -> Iterator[str]:
    """Yield where hosts would get different series, as when their releases have different sources."""
    found: dict[SlurmVersion, list[str]] = {}
    for host, versions in hosts.items():
        new = series(next(iter(versions.offered.values()), versions.slurm))
        if new:
            found.setdefault(new, []).append(host)
    if len(found) > 1 and any(versions.offered for versions in hosts.values()):
        told = "; ".join(f"{fold(some)}: {version}" for version, some in sorted(found.items()))
        yield f"The hosts would not have the same Slurm afterwards ({told}). Name a source that has it for all of them."


def of_window(asked: Asked, hosts: Mapping[str, HostVersions], to: SlurmVersion) -> Iterator[str]:
    """Yield what Slurm's own rules forbid: downgrades, too large steps, and members that do not work together."""
    newer = {host: there for host, versions in hosts.items() if (there := series(versions.slurm)) and there > to}
    if newer:
        yield (
            f"{fold(newer)}: Slurm {max(newer.values())} is newer than {to}. Slurm cannot go back: an older one does "
            f"not read the state and the database of a newer one. Upgrade the others to it, or restore a backup that "
            f"was made before ({FAB} restore)."
        )
        return
    have = oldest(asked, hosts)
    if have and not window.reaches(to, have):
        yield too_far(have, to, bool(asked.cluster.database))
    for member, version, reason in window.mismatches(members(hosts)):
        if have and window.reaches(to, have) and "too old" in reason:
            yield f"{member} {version} {reason}. See {FAB} check-cluster."


def too_far(have: SlurmVersion, to: SlurmVersion, has_database: bool) -> str:
    """Why a step from the oldest series is too large, the series between, and the way with an empty queue."""
    way = window.way(have, to)
    reads = ", ".join(map(str, window.reached(to)))
    steps = " -> ".join(map(str, (have, *way)))
    between = " and ".join(map(str, way[:-1])) or "none that slurmfab knows"
    database = (
        " The accounting database does not come along either: slurmdbd refuses it (“Database schema is too old”). Keep "
        "a dump of it, and let slurmdbd make a new one; accounts and QOS come from the cluster file."
        if has_database
        else ""
    )
    return (
        f"From Slurm {have} to {to} is further than Slurm allows: {to} reads the state, the database and the messages "
        f"of {reads} alone. Series between: {between}, so the way is {steps}, each for all hosts before the next one: "
        f"{FAB} upgrade --to {way[0] if way else to}. Or with an empty queue: let all jobs end, back up ({FAB} "
        f"backup), install the hosts' new release, and deploy with a new StateSaveLocation.{database}"
    )


def of_room(asked: Asked) -> Iterator[str]:
    """Yield where there is too little room for the packages, or for the conversion of the database."""
    for host, state in asked.hosts.items():
        short = [path for path, free in state.free.items() if 0 <= free < PACKAGES_ROOM and path != state.place]
        if short and (asked.offer(host).versions or asked.offer(host).others):
            yield (
                f"{host}: {format_size(state.free[short[0]])} are free for {short[0]}; an upgrade needs "
                f"{format_size(PACKAGES_ROOM)} there. Make room first."
            )
        yield from of_database_room(host, state)


def of_database_room(host: str, state: HostState) -> Iterator[str]:
    """Yield that the database has too little room to be converted."""
    free = state.free.get(state.place.rstrip("/") or "/var/lib/mysql", -1)
    needed = int(state.bytes * ROOM)
    if state.bytes and 0 <= free < needed:
        yield (
            f"{host}: the accounting database has {format_size(state.bytes)}, and {format_size(free)} are free beside "
            f"it; its conversion may need {format_size(needed)}. Make room, or let slurmdbd purge old records "
            "(PurgeJobAfter and PurgeStepAfter in slurmdbd_conf)."
        )
