"""`fab restore`: brings a cluster back to the state in a backup."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurmfab.base.errors import HostError, HostKeyChanged, HostKeyUnknown, InputError, SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.paths import MUNGE_KEY, SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import fabfile, loading, schema_file
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.cluster.slurm.window import reached, reaches
from slurmfab.commands.backup import archive, decryption, ended_jobs, trust
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.backup.ended_jobs import format_jobs, numbers, steps_on
from slurmfab.core.engine import acceptance, converge, file_writing, planning, session
from slurmfab.core.engine.job_safety import JobSafety
from slurmfab.core.engine.requests import apply_request, gather, require_claim
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.directories import other_uses, state_directory
from slurmfab.core.plan.phases import database
from slurmfab.core.plan.plan import PHASES, Phase
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts import route
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.host_keys import changed_key_text
from slurmfab.hosts.known_hosts import HostKey, fingerprint
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import SshTransport
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.archive import stamp
from slurmfab.on_hosts.agent.backup.restored_database import RestoredDatabase
from slurmfab.on_hosts.agent.backup.restored_state import RestoredFiles, RestoredState
from slurmfab.on_hosts.agent.backup.staged_parts import staged
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.services.listening import Listening
from slurmfab.on_hosts.agent.services.service import Service


@dataclass(frozen=True)
class PresentState:
    """The state of the hosts that a restoration would replace, but for what it put there before an interruption."""

    next_job_id: int = 0  # the id of the next job by slurmctld's state; 0 if there is no state, or there was no job yet
    is_running: bool = False
    newest_job: int = 0  # the highest job id in the accounting database; 0 if it has none
    has_state: bool = False  # whether there is a state that would be replaced
    # the job steps that run on compute nodes, as `JOB.STEP`, by node
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()  # compute nodes that did not answer, so that their job steps are not known


def version_refusal(written: str, installed: SlurmVersion) -> str:
    """Why the installed Slurm cannot read a backup's state and database (Slurm's upgrade guide); empty if it can."""
    wrote = SlurmVersion.parse(written)
    if wrote == installed:
        return ""
    if wrote > installed:
        return (
            f"the backup is of Slurm {wrote}, and the hosts have {installed}: Slurm cannot read state that a newer "
            f"version wrote. Install Slurm {wrote} or newer."
        )
    if reaches(installed, wrote):
        return ""
    readable = reached(installed)
    return (
        f"the backup is of Slurm {wrote}, and the hosts have {installed}, which reads state of the {len(readable)} "
        f"release series before it ({', '.join(map(str, readable))}). Restore it with a version in between first."
    )


def overwrite_refusal(backup: Backup, present: PresentState, controller: str) -> str:
    """The message about newer jobs that the restoration would delete; empty if there are none."""
    found = []
    if present.next_job_id > 1:
        runs = "slurmctld runs there and has" if present.is_running else "it has the state of"
        found.append(f"{controller}: {runs} jobs up to {present.next_job_id - 1}.")
    if present.newest_job:
        found.append(f"The accounting database has jobs up to {present.newest_job}.")
    if not found:
        return ""
    last = f"the last one is job {backup.next_job_id - 1}" if backup.next_job_id > 1 else "it has no jobs"
    return " ".join((
        *found,
        f"The backup is of {backup.made}, and {last}: Slurm would forget all later jobs and assign their ids again. "
        f"First: {FAB} backup. Then, if this is intended, add --overwrite.",
    ))  # fmt: skip


def orphans(backup: Backup, present: PresentState) -> dict[int, tuple[str, ...]]:
    """The nodes, sorted, of each job that runs and is not in the backup, by job id."""
    found = grouped(
        (number, node)
        for node, steps in present.steps.items()
        for number in numbers(steps)
        if not is_known(backup, number)
    )
    return {number: tuple(sorted(nodes)) for number, nodes in sorted(found.items())}


def is_known(backup: Backup, number: int) -> bool:
    """Whether the backup's state has a job, so that slurmctld knows it after the restoration."""
    return number < backup.next_job_id if backup.jobs is None else number in backup.jobs


def refusal(backup: Backup, present: PresentState, controller: str, *, overwrite: bool, abandon: bool) -> str:
    """The reasons why a backup is not restored, in whole sentences; empty if it may be restored.

    Args:
        overwrite: whether the user allows that Slurm forgets jobs later than the backup.
        abandon: whether the user allows that slurmctld ends running jobs which are not in the backup.
    """
    reasons = []
    newer = "" if overwrite else overwrite_refusal(backup, present, controller)
    if newer:
        reasons.append(newer)
    lost = {} if abandon else orphans(backup, present)
    if lost:
        tellers = {node for nodes in lost.values() for node in nodes}
        reasons.append(
            f"Not in the backup: {format_jobs(lost)}. slurmctld would end {'it' if len(lost) == 1 else 'them'} "
            "when it starts. Wait until no such job runs, or add --abandon-jobs."
            + (
                f" {min(tellers)} alone tells of that: if it is not to be trusted, disconnect it; a host that does not "
                "answer holds up no restore."
                if len(tellers) == 1
                else ""
            )
        )
    return "\n".join([*reasons, "Nothing was changed."]) if reasons else ""


def accept_changed(known: Inventory, hosts: Sequence[str], output: Output, *, accept: bool) -> Inventory:
    """Put the SSH host keys of now of hosts that may be reinstalled into the lock; nothing is written.

    Raises InputError if keys differ from the known ones, and `accept` is false.
    """
    changed = changed_keys(known, hosts)
    if changed and not accept:
        raise InputError(refusal_of_keys(known, changed))
    progress = output.progress()
    for host, (kind, key) in changed.items():
        progress.line(f"{host}: accepted its host key {kind} {fingerprint(key)}.")
        old = known.lock.hosts.get(host, HostLock())
        fresh = replace(old, host_keys={kind: key}, public_key="")
        known = replace(known, lock=locks.with_host(known.lock, host, fresh))
    return known


def changed_keys(known: Inventory, hosts: Sequence[str]) -> dict[str, HostKey]:
    """The SSH host keys of the hosts that show other keys than the known ones; hosts that do not answer are skipped."""
    routes = route.to_hosts(known.cluster)
    policies = session.policies_of(known, hosts)
    transport = SshTransport({host: routes[host] for host in hosts}, {**session.relay_policies(known), **policies})
    with closing(transport):
        results = dict(on_each(hosts, transport.connection))
    others = [host for host in hosts if isinstance(results[host], HostKeyChanged | HostKeyUnknown)]
    return {host: key for host in others if (key := policies[host].shown)}


def refusal_of_keys(known: Inventory, changed: Mapping[str, HostKey]) -> str:
    """The message about host keys that differ from the known ones and are not accepted."""
    return "\n".join((
        *(changed_key_text(host, session.trusted_keys(known, host), key) for host, key in changed.items()),
        "Compare the new keys with the hosts' consoles (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub). If these "
        "hosts were reinstalled, add --accept-new-host-keys. Nothing was changed.",
    ))  # fmt: skip


RENDERED_FILES = ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf")
"""Files of /etc/slurm that a deployment renders from the cluster file, so that they are not restored."""


@dataclass(frozen=True)
class RestorePhases:
    """The phases that restore a backup."""

    backup: Backup
    stamp: str  # time of the restoration, which becomes part of the name of the replaced state directory

    def staged(self, name: str) -> tuple[str, str]:
        """The path of a part that was sent to its host, and its SHA-256 digest."""
        return staged(self.backup.digest, name), self.backup.parts[name].sha256

    def parts_of(self, plan_input: PlanInput, host: str) -> tuple[str, ...]:
        """The names of the parts that are sent to a host."""
        cluster = plan_input.cluster
        wanted: list[str] = []
        if host == cluster.controller:
            wanted += [parts.STATE, parts.FILES]
        elif host in cluster.database_hosts:
            wanted.append(parts.DATABASE_FILES)
        if cluster.database and not cluster.database.external and host == cluster.database.host:
            wanted.append(parts.DATABASE)
        return tuple(name for name in wanted if name in self.backup.parts)

    def halt(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """Stop the daemons that write to the files which are about to be replaced."""
        cluster, needed = plan_input.cluster, self.parts_of(plan_input, host)
        return (
            *((Service("slurmctld", running=False),) if host in cluster.controllers else ()),
            *((Service("slurmdbd", running=False),) if parts.DATABASE in needed else ()),
        )

    def key(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """The munge key of the backup, on the controller; the munge phase copies it to hosts that have another key."""
        if host != plan_input.cluster.controller or parts.KEY not in self.backup.parts:
            return ()
        content = base64.b64encode(self.backup.read(parts.KEY)).decode()
        return (File(MUNGE_KEY, content, owner="munge", group="munge", mode=0o400, secret=True, encoding="base64"),)

    def server(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """The database server without slurmdbd, which would create empty tables before the restored ones are there."""
        return tuple(
            one
            for one in database.resources(plan_input, host)
            if not isinstance(one, Listening) and not (isinstance(one, Service) and one.unit == "slurmdbd")
        )

    def data(self, plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
        """Restore slurmctld's state, the accounting database and the files of /etc/slurm."""
        cluster, needed = plan_input.cluster, self.parts_of(plan_input, host)
        wanted: list[Resource] = []
        if parts.STATE in needed:
            owner, others = plan_input.slurm_owner(host), other_uses(plan_input, host)
            wanted.append(state_directory(cluster.state_directory, owner, others))
            wanted.append(RestoredState(cluster.state_directory, *self.staged(parts.STATE), self.stamp))
        if parts.DATABASE in needed and cluster.database:
            wanted.append(RestoredDatabase(cluster.database.name, *self.staged(parts.DATABASE)))
        for name in (parts.FILES, parts.DATABASE_FILES):
            if name in needed:
                wanted += [
                    Directory(SLURM_DIRECTORY),
                    RestoredFiles(SLURM_DIRECTORY, *self.staged(name), RENDERED_FILES),
                ]
        return tuple(wanted)

    @property
    def preparing(self) -> tuple[Phase, ...]:
        """The phases until the facts are gathered again, beginning with the halt of daemons."""
        phases = [Phase("halt", self.halt, prepares=True)]
        for phase in PHASES:
            if phase.name == "munge key":
                phases.append(Phase("restored key", self.key, prepares=True))
            phases += [phase] if phase.prepares else []
        return tuple(phases)

    @property
    def rest(self) -> tuple[Phase, ...]:
        """The phases after that; the data is restored before slurmdbd and slurmctld start."""
        phases = []
        for phase in PHASES:
            if phase.name == "database":
                phases += [Phase("database server", self.server), Phase("restored data", self.data)]
            phases += [] if phase.prepares else [phase]
        return tuple(phases)


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
    trusted = accept_changed(known, may_be_new, output, accept=options.accept_new_keys)
    run_options = RunOptions("restore", asks=not options.yes)
    run = session.start(trusted, "", output, run_options, accept_new=options.accept_new_keys)
    return session.perform(run, output, lambda begun: carry_out(begun, backup, options))


def inventory_for(backup: Backup, path: Path) -> Inventory:
    """The cluster to restore to, by the files here or the backup's; InputError for another's, or none."""
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
    ended_jobs.tell(run)
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
    reason = version_refusal(backup.slurm, plan_input.slurm_version)
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
    text = refusal(backup, present, run.controller, overwrite=options.overwrite, abandon=options.abandon_jobs)
    if text:
        run.set_job_impact(replace(run.job_impact, is_refused=True))
        raise SlurmfabError(text)
    lost = orphans(backup, present)
    if lost:
        run.progress.line(f"Not in the backup, so slurmctld ends: {format_jobs(lost)}.")


def present_state(run: Run, plan_input: PlanInput, phases: RestorePhases) -> PresentState:
    """Ask for the state that the restoration would replace; HostError without controller or database host."""
    stored = stored_jobs(run, phases.backup)
    nodes = run.remaining(plan_input.compute_nodes)
    steps = steps_on(run, nodes) if stored.has_state else {}
    silent = tuple(node for node in plan_input.compute_nodes if node not in steps) if stored.has_state else ()
    return replace(stored, steps=steps, silent=silent)


def stored_jobs(run: Run, backup: Backup) -> PresentState:
    """Ask for the jobs in the state and the database that a backup would replace; HostError without one's host."""
    cluster, phases = run.inventory.cluster, RestorePhases(backup, "")
    state: Mapping[str, Any] = {}
    if parts.STATE in backup.parts:
        state = ask_part(run, run.controller, {"directory": cluster.state_directory}, phases, parts.STATE)
    newest = 0
    if cluster.database and not cluster.database.external and parts.DATABASE in backup.parts:
        request = {"database": cluster.database.name}
        newest = ask_part(run, cluster.database.host, request, phases, parts.DATABASE).get("newest_job", 0)
    return PresentState(state.get("next_job_id", 0), bool(state.get("is_running")), newest, has_state=bool(state))


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
    """Send parts completely before anything is replaced; HostError, or InputError if the archive shortened."""
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
