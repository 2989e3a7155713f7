"""The plan of an upgrade, from what the hosts say; pure."""

from __future__ import annotations

from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade import hints, refusals, steps
from slurmfab.commands.upgrade.asked import Asked
from slurmfab.commands.upgrade.changes import Changes
from slurmfab.commands.upgrade.conversion import estimate
from slurmfab.commands.upgrade.plan import Conversion, HostVersions, Target, UpgradePlan, UpgradeStep


def make(asked: Asked, at_once: str = "10%", *, drain: bool = False) -> UpgradePlan:
    """The plan of an upgrade of `at_once` nodes (or percent) at a time, which are drained before, or not."""
    hosts = versions_of(asked)
    to = target_series(asked, hosts)
    have = refusals.oldest(asked, hosts) or to
    cluster, state = asked.cluster.model_copy(update={"slurm": asked.target}), state_directory(asked)
    there = Changes(cluster, hosts, str(to), state, at_once=at_once, drain=drain)
    todo = tuple(map(there.told, steps.steps(asked.cluster, hosts, is_under_way=asked.is_under_way)))
    reasons = list(refusals.refusals(asked, hosts, to))
    if todo or reasons:
        reasons += [*hints.key_refusals(asked, to), *hints.plugin_refusals(asked)]
    if not to.is_known:
        reasons.insert(0, f"slurmfab does not know Slurm {to} and its rules yet. Upgrade slurmfab first.")
    changed = conversion(asked, to)
    return UpgradePlan(
        Target(asked.version, asked.suite, to),
        have,
        hosts,
        todo,
        tuple(dict.fromkeys(reasons)),
        tuple(dict.fromkeys(hints.warnings(asked, hosts) if todo else hints.of_users(hosts))),
        changed,
        way_back(todo, changed) if todo and not reasons else (),
        dict(asked.silent),
        jobs=job_counts(asked),
        batches=sum(len(list(there.batches(step.hosts))) for step in todo if step.what == "nodes"),
    )


def state_directory(asked: Asked) -> str:
    """StateSaveLocation, as slurmctld has it now."""
    return parse(asked.slurm_conf).settings.get("statesavelocation", asked.cluster.state_directory)


def versions_of(asked: Asked) -> dict[str, HostVersions]:
    """What each host has, and would get."""
    found = {}
    for host, state in asked.hosts.items():
        offer = asked.offer(host)
        new = {name: offer.versions[name] for name in state.packages if name in offer.versions}
        offered = {name: version for name, version in new.items() if version != state.packages[name]}
        others = dict(offer.others) if offered else {}
        found[host] = HostVersions(state.packages, state.programs, state.running, offered, others, state.users)
    return found


def target_series(asked: Asked, hosts: dict[str, HostVersions]) -> SlurmVersion:
    """The series that the hosts would get; the wanted one where no source has it."""
    offered = [version for versions in hosts.values() for version in versions.offered.values()]
    for version in (*offered, asked.version, *(versions.slurm for versions in hosts.values())):
        if found := refusals.series(version):
            return found
    return asked.target.series or SlurmVersion(0, 0)


def conversion(asked: Asked, to: SlurmVersion) -> Conversion | None:
    """What slurmdbd would convert; `None` without a database that could be asked."""
    for host in asked.cluster.database_hosts:
        state = asked.hosts.get(host)
        if state is None or not state.bytes:
            continue
        have = refusals.series(state.running.get("slurmdbd", state.programs.get("slurmdbd", "")))
        if have:
            return estimate(have, to, state.rows, state.bytes)
    return None


def job_counts(asked: Asked) -> dict[str, int]:
    """Number of jobs by state, such as `RUNNING`; empty where slurmctld could not be asked."""
    state = asked.hosts.get(asked.cluster.controller)
    counts: dict[str, int] = {}
    for _, _, word, *_ in (state.jobs or ()) if state else ():
        counts[word] = counts.get(word, 0) + 1
    return counts


def way_back(todo: tuple[UpgradeStep, ...], changed: Conversion | None) -> tuple[str, ...]:
    """How each stage can be undone, in order."""
    starts = {daemon for step in todo for daemons in step.daemons.values() for daemon in daemons}
    told = []
    if changed and "slurmdbd" in starts:
        told.append("Until slurmdbd has converted its database: nothing but packages has changed, and nothing is lost.")
        told.append("After the conversion: jobs that were submitted since the backup are lost.")
    if "slurmctld" in starts:
        told.append("After the new slurmctld has written its state: likewise, and those of them that run are ended.")
    told.append(f"{FAB} upgrade --back BACKUP, which lies beside the cluster file, does it at any time.")
    return tuple(told)
