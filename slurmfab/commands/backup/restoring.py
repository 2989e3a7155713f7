"""`fab restore`: brings a cluster back to the state in a backup."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurmfab.base.errors import HostError, InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import fabfile, loading, schema_file
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.backup import archive, decryption, new_keys, refusals, trust
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.backup.refusals import PresentState
from slurmfab.commands.backup.restore_phases import RestorePhases
from slurmfab.core.engine import acceptance, converge, file_writing, planning, session
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.requests import apply_request, gather, require_claim
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.archive import stamp

PIECE_BYTES = 512 * 1024  # bytes of a part that one request sends to a host


@dataclass(frozen=True)
class RestoreOptions:
    """The options of `fab restore`."""

    accept_new_keys: bool = False
    overwrite: bool = False  # whether Slurm may forget jobs that are later than the backup
    abandon_jobs: bool = False  # whether slurmctld may end running jobs that are not in the backup
    database: str = ""  # path of another archive with the accounting database; empty for the backup's own
    trust_archive: bool = False  # whether to trust archives that no trusted key has signed
    signed_by: str = ""  # path of a file with public keys whose archives are trusted; empty for none
    identity: str = ""  # path of a file with the private key that decrypts the archives; empty for none
    yes: bool = False  # whether to begin without a question


def restore(cluster: str, file: str, options: RestoreOptions, output: Output) -> int:
    """Restore a cluster from a backup, also its cluster file if there is none.

    Raises InputError if the archive is damaged, not trusted, encrypted to others, or another cluster's: nothing was
    changed; SlurmfabError if the restoration is refused, or the controller failed.
    """
    given = [archive.verified(Path(one)) for one in (file, options.database) if one]
    path = loading.named_path(cluster)
    trust.require_before_decryption(given, path, options.signed_by, trust=options.trust_archive)
    with ExitStack() as stack:
        backups = [decryption.decrypted(one, options.identity, stack) for one in given]
        backup = archive.joined(*backups) if options.database else backups[0]
        known = inventory_for(backup, path)
        trust.require(backups, known, options.signed_by, trust=options.trust_archive)
        return restore_to(known, backup, options, output)


def restore_to(known: Inventory, backup: Backup, options: RestoreOptions, output: Output) -> int:
    """Restore a cluster from a trusted, readable backup; SlurmfabError if it is refused, or the controller failed."""
    output.progress().line(archive.description(backup))
    may_be_new = tuple(dict.fromkeys((*known.cluster.controllers, *known.cluster.database_hosts)))
    trusted = new_keys.accept_changed(known, may_be_new, output, accept=options.accept_new_keys)
    run_options = RunOptions("restore", asks=not options.yes)
    run = session.start(trusted, "", output, run_options, accept_new=options.accept_new_keys)
    return session.perform(run, output, lambda begun: carry_out(begun, backup, options))


def inventory_for(backup: Backup, path: Path) -> Inventory:
    """The cluster that a backup is restored to: from the cluster file and lock here, or else from the backup's.

    Raises InputError if the backup is of another cluster, has no state of slurmctld, or there is no cluster file.
    """
    if path.exists():
        known = loading.load(path)
    elif parts.CLUSTER_FILE in backup.parts:
        known = Inventory(loading.parse(cluster_text(backup), f"{backup.path}: {parts.CLUSTER_FILE}"), Lock(), path)
    else:
        raise InputError(f"There is no cluster file {path}, and none in {backup.path}. Name one with --cluster.")
    if known.cluster.name != backup.cluster:
        raise InputError(
            f"{backup.path} is a backup of the cluster {backup.cluster}, and {path} describes {known.cluster.name}. "
            "Nothing was changed."
        )
    if parts.STATE not in backup.parts:
        raise InputError(f"{backup.path} holds no state of slurmctld, so it cannot be restored.")
    lock = loading.lock_path(path)
    if not lock.exists() and parts.LOCK in backup.parts:
        known = replace(known, lock=lock_from(backup))
    return known


def cluster_text(backup: Backup) -> str:
    """The text of the cluster file in a backup."""
    return loading.text_of(backup.read(parts.CLUSTER_FILE), f"{backup.path}: {parts.CLUSTER_FILE}")


def lock_from(backup: Backup) -> Lock:
    """The lock in a backup."""
    return locks.parse(backup.read(parts.LOCK), Path(f"{backup.path}: {parts.LOCK}"))


def carry_out(run: Run, backup: Backup, options: RestoreOptions) -> None:
    """Deploy, with the backup's data restored before the daemons start; raises as `restore_to`."""
    converge.with_job_safety(run, lambda job_safety: restore_hosts(run, backup, options, job_safety))
    acceptance.accept_new_nodes(run)
    last = f"the next job is {backup.next_job_id}" if backup.next_job_id else "it had no jobs yet"
    run.progress.line(f"{backup.cluster} is restored to its state of {backup.made}; {last}.")


def restore_hosts(run: Run, backup: Backup, options: RestoreOptions, job_safety: JobSafety) -> None:
    """Compare the hosts, refuse if necessary, and then go through all phases; raises as `restore_to`."""
    plan_input, steps = converge.survey(run, may_prepare=True)
    refuse(run, plan_input, backup, options)
    job_safety.refuse(plan_input, steps)
    run.confirm(consequences(backup), f"Restore {backup.cluster}?")
    require_claim(run)
    put_own_files(run, backup)
    phases = RestorePhases(backup, stamp(run.started.timestamp()))
    for host in run.remaining(run.hosts):
        if phases.parts_of(plan_input, host):
            send_parts(run, host, backup, phases.parts_of(plan_input, host))
    converge.converge(run, plan_input, phases.preparing)
    plan_input = planning.exclude_unfit_hosts(run, gather(run, run.remaining(run.hosts)))
    run.save_lock()
    converge.converge(run, plan_input, phases.rest)
    for host in run.remaining(run.hosts):
        if phases.parts_of(plan_input, host):
            request_step(run, host, backup, {"do": "clear"})


def consequences(backup: Backup) -> str:
    """What a restoration replaces, for the user's decision."""
    database = ", accounting database" if parts.DATABASE in backup.parts else ""
    return (
        f"slurmctld's state{database} and munge key of {backup.cluster} become those of {backup.made}. What they hold "
        "since then, such as jobs, is lost; only another backup brings it back."
    )


def refuse(run: Run, plan_input: PlanInput, backup: Backup, options: RestoreOptions) -> None:
    """Stop before the restoration would replace newer state, by SlurmfabError; nothing was changed then."""
    cluster = plan_input.cluster
    unreachable = [host for host in cluster.database_hosts if host in run.failed_hosts]
    if unreachable:
        raise SlurmfabError(f"{fold(unreachable)}: {FAB} restore needs the database host. Nothing was changed.")
    reason = refusals.version_refusal(backup.slurm, plan_input.slurm_version)
    if reason:
        raise SlurmfabError(f"{run.controller}: {reason} Nothing was changed.")
    if cluster.database and not cluster.database.external and parts.DATABASE not in backup.parts:
        reason = backup.left_out.get(parts.DATABASE, "it was made on another host")
        run.progress.line(
            f"The backup has no accounting database ({reason}); the one on {cluster.database.host} stays as it is."
        )
    present = present_state(run, plan_input, RestorePhases(backup, ""))
    if present.silent:
        run.progress.line(
            f"{fold(present.silent)}: no answer, so the jobs that run there are not known. slurmctld ends jobs that "
            "are not in the backup when these nodes are back."
        )
    text = refusals.refusal(backup, present, run.controller, overwrite=options.overwrite, abandon=options.abandon_jobs)
    if text:
        run.set_job_impact(replace(run.job_impact, is_refused=True))
        raise SlurmfabError(text)
    lost = refusals.orphans(backup, present)
    if lost:
        run.progress.line(f"Not in the backup, so slurmctld ends: {refusals.format_orphans(lost)}.")


def present_state(run: Run, plan_input: PlanInput, phases: RestorePhases) -> PresentState:
    """Ask for the state that the restoration would replace; HostError without controller or database host."""
    cluster = plan_input.cluster
    state = ask_part(run, run.controller, {"directory": cluster.state_directory}, phases, parts.STATE)
    newest = 0
    if cluster.database and parts.DATABASE in phases.parts_of(plan_input, cluster.database.host):
        request = {"database": cluster.database.name}
        newest = ask_part(run, cluster.database.host, request, phases, parts.DATABASE).get("newest_job", 0)
    nodes = run.remaining(plan_input.compute_nodes)

    def ask_steps(node: str) -> Any:
        return answer_value(node, run.transport.call(node, {"op": "job-processes"}), "job_processes")["steps"]

    answers = {} if not state else dict(on_each(nodes, ask_steps))
    steps = {node: found for node, found in answers.items() if not isinstance(found, SlurmfabError)}
    silent = tuple(node for node in plan_input.compute_nodes if node not in steps) if state else ()
    return PresentState(state.get("next_job_id", 0), bool(state.get("is_running")), newest, steps, silent)


def ask_part(run: Run, host: str, request: Mapping[str, Any], phases: RestorePhases, name: str) -> Mapping[str, Any]:
    """Ask a host for the present state of a part; empty if this restoration put it there before an interruption."""
    place, sha256 = phases.staged(name)
    lines = run.transport.call(host, {"op": "backup", **request, "staged": place, "sha256": sha256})
    answer = answer_value(host, lines, "backup")
    return {} if answer["is_done"] else dict(answer)


def put_own_files(run: Run, backup: Backup) -> None:
    """Write the cluster file and the lock on this machine if missing; print a note if the backup's file differs."""
    path = run.inventory.path
    if not path.exists():
        text = cluster_text(backup)
        file_writing.write(run, text)
        if text.startswith(schema_file.modeline(path)):
            schema_file.provide(path, run.inventory.lock)
        run.progress.line(f"Wrote {path}, from the backup.")
        written = fabfile.provide(path)
        if written:
            run.progress.line(written)
    elif parts.CLUSTER_FILE in backup.parts and loading.read_text(path) != cluster_text(backup):
        run.progress.line(f"{path} differs from the one in the backup; {FAB} restore uses {path}.")
    run.save_lock()


def send_parts(run: Run, host: str, backup: Backup, names: tuple[str, ...]) -> None:
    """Send parts of a backup to a host, completely, before anything is replaced there.

    `names`: names of the parts. Raises HostError if the host cannot be reached, or cannot store them. Raises InputError
    if the archive has become shorter.
    """
    run.progress.begin("sending the backup", (host,))
    request_step(run, host, backup, {"do": "begin"})
    for name in names:
        for offset, data in backup.parts[name].pieces(PIECE_BYTES, "Nothing was replaced."):
            step = {"do": "write", "name": name, "at": offset, "data": base64.b64encode(data).decode()}
            request_step(run, host, backup, step)
    run.progress.host_done(host)


def request_step(run: Run, host: str, backup: Backup, step: Mapping[str, Any]) -> None:
    """Ask a host to store or remove parts of a backup; a host that fails is excluded from the run.

    `step`: `do` is `begin`, `write` or `clear`; with `write` come `name`, `at` and `data`. Raises HostError if the host
    cannot be reached, or the step failed.
    """
    try:
        run.transport.call(host, {"op": "stage", "who": apply_request(run, (), dry_run=False)["who"],
                                  "backup": backup.digest, **step})  # fmt: skip
    except HostError as error:
        run.exclude(host, error)
        raise
