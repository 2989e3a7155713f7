"""`fab upgrade --back`: the packages, the state and the accounting of before an upgrade, from its backup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from slurmfab.base.errors import DeployFailed, HostlistError, InputError
from slurmfab.base.exit_codes import DONE
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.slurm_key import with_slurm, with_versions
from slurmfab.cluster.slurm import platform
from slurmfab.commands.backup import archive, decryption, restoring, trust
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.upgrade import asking, under_way
from slurmfab.commands.upgrade.plan import HostVersions
from slurmfab.core.engine import file_writing, requests, session
from slurmfab.core.engine.node_changes import change_each, work_on_each
from slurmfab.core.engine.requests import require_claim
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.package_managers import kinds
from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, LOCK
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.upgrade.slurm_users import OWN


@dataclass(frozen=True)
class Options:
    """The options of `fab upgrade --back`."""

    is_alone: bool  # whether none of those of an upgrade was given
    abandon_jobs: bool  # whether running jobs that are not in the backup may be ended
    identity: str  # path of a file with the private key that decrypts the backup; empty for none
    yes: bool  # whether to begin without a question


def back(cluster: str, file: str, output: Output, options: Options) -> int:
    """Go back to the Slurm of before an upgrade: its packages first, then a restore of the backup.

    Raises InputError if that is no upgrade's, or not trusted; SlurmfabError if a host fails: the command goes on.
    """
    if not file:
        raise InputError("--abandon-jobs and --identity are for --back: an upgrade ends no job and reads no backup.")
    if not options.is_alone:
        raise InputError("--back takes no other options than --abandon-jobs, --identity and --yes.")
    known = loading.load_named(cluster)
    given = archive.verified(Path(file))
    trust.require_before_decryption([given], known.path, "", trust=False)
    with ExitStack() as stack:
        backup = decryption.decrypted(given, options.identity, stack)
        trust.require([backup], known, "", trust=False)
        before = packages_before(backup)
        run = session.start(known, "", output, RunOptions("upgrade", asks=not options.yes))
        code = session.perform(run, output, lambda begun: put_back(begun, backup, before))
        if code != DONE:
            return code
        to_restore = restoring.RestoreOptions(overwrite=True, abandon_jobs=options.abandon_jobs, yes=True)
        return restoring.restore_to(restoring.inventory_for(backup, known.path), backup, to_restore, output)


def packages_before(backup: Backup) -> dict[str, Mapping[str, str]]:
    """Slurm's versions on each host before the upgrade, of its backup's lock; InputError for other backups."""
    record = restoring.lock_from(backup).upgrade if LOCK in backup.parts else None
    if record is None or CLUSTER_FILE not in backup.parts:
        raise InputError(f"{backup.path} was not made by {FAB} upgrade. Nothing was changed.")
    try:
        return {host: packages for hosts, packages in record.packages.items() for host in expand(hosts)}
    except HostlistError as error:
        raise InputError(f"{backup.path}: its lock names hosts wrongly: {error}. Nothing was changed.") from error


def put_back(run: Run, backup: Backup, before: Mapping[str, Mapping[str, str]]) -> None:
    """Give back packages and the key `slurm` of before, daemons stopped; SlurmfabError if a host fails."""
    facts = requests.gather(run, run.hosts, may_prepare=False)
    there = asking.ask_hosts(run, facts, run.inventory.cluster.state_directory)
    wanted = {host: older(HostVersions(state.packages), before.get(host, {})) for host, state in there.items()}
    wanted = {host: texts for host, texts in wanted.items() if texts}
    missing = [host for host in before if host not in there]
    if missing:
        raise InputError(f"{fold(missing)}: no answer. All hosts go back together, so nothing was changed.")
    run.progress.end()
    if wanted:
        run.confirm(
            f"Slurm's daemons stop on all hosts, {fold(wanted)} gets the packages of before, and slurmctld's state and "
            f"the accounting become those of {backup.made}: what was submitted since is lost.",
            "Go back to the Slurm of before?",
        )
    require_claim(run)
    # A new slurmd would take no messages of the old slurmctld, and an old slurmctld would not read the new state.
    for daemon in OWN:
        some = [host for host in wanted if daemon in there[host].programs]
        change_each(run, "stop", some, Service(daemon, running=False))
    require(run, wanted, "did not stop its daemons")
    exchanged = {host: kinds(platform.wanted(run.inventory.cluster, host)).exchanged for host in wanted}
    work_on_each(run, wanted, lambda host: change_each(run, "packages", (host,), exchanged[host](wanted[host])))
    require(run, wanted, "did not get the packages of before")
    write_key(run, backup)
    under_way.put(run, None)


def require(run: Run, hosts: Iterable[str], what: str) -> None:
    """Stop if a host has failed. `what`: what failed there. Raises DeployFailed if one has."""
    if failed := [host for host in hosts if host in run.failed_hosts]:
        raise DeployFailed(f"{fold(failed)} {what}. Repair that, then run this command again.")


def older(versions: HostVersions, before: Mapping[str, str]) -> tuple[str, ...]:
    """`NAME=VERSION` of each package that a host had before, where any of them has another version now."""
    differs = any(versions.installed.get(name) != version for name, version in before.items())
    return tuple(f"{name}={version}" for name, version in sorted(before.items())) if differs else ()


def write_key(run: Run, backup: Backup) -> None:
    """Put back the key `slurm`, or the whole file if nothing else has changed; InputError if that is not safe."""
    path, old = run.inventory.path, restoring.cluster_text(backup)
    now, there = loading.read_text(path), loading.parse(old, str(path))
    here = loading.parse(now, str(path))
    is_same = here.with_slurm(there.slurm).model_dump() == there.model_dump()
    text = old if is_same else with_versions(with_slurm(now, there.slurm), here.with_slurm(there.slurm))
    file_writing.write(run, text)
    run.change_cluster(replace(run.inventory, cluster=loading.parse(text, str(path))), run.hosts)
