"""`fab restore`: from the words on the command line to a cluster that goes on where a backup left it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurmfab import atomic_file, deploy, inventory, operations
from slurmfab import lock as locks
from slurmfab.agent import backup_archive as parts
from slurmfab.agent.backup_archive import stamp
from slurmfab.asking import apply_request, gather, require_claim
from slurmfab.backup import archive, new_keys, refusals
from slurmfab.backup.archive import Backup
from slurmfab.backup.refusals import Present
from slurmfab.backup.road import Road
from slurmfab.errors import AgentFailed, HostError, InputError, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.nodes import admission
from slurmfab.operations import Output
from slurmfab.promises.keeping import Promise
from slurmfab.run import Run
from slurmfab.situation import Situation
from slurmfab.ssh.fan_out import on_each

PIECE = 512 * 1024
"""Bytes of a part that go to a host at a time."""


@dataclass(frozen=True)
class Wish:
    """What a restoration may do besides what is always safe.

    Args:
        accept_new_keys: whether controllers and slurmdbd's host may show other SSH host keys than before.
        overwrite: whether jobs that came after the backup may be forgotten.
        abandon_jobs: whether running jobs may be ended that the backup does not know.
        database: another archive, whose accounting database is taken; empty for the backup's own.
    """

    accept_new_keys: bool = False
    overwrite: bool = False
    abandon_jobs: bool = False
    database: str = ""


def restore(cluster: str, file: str, wish: Wish, output: Output) -> int:
    """Bring a cluster back from a backup.

    Args:
        cluster: the cluster file's path, empty for the default one; where there is none, the backup's is put there.
        file: the archive.
        wish: what may be done.
        output: what to tell.

    Returns:
        The exit code.

    Raises:
        InputError: the archive is damaged or another cluster's; nothing was changed.
    """
    backup = archive.verified(Path(file))
    if wish.database:
        backup = archive.joined(backup, archive.verified(Path(wish.database)))
    path = Path(cluster) if cluster else inventory.default_path()
    known = belonging(backup, path)
    output.progress().line(archive.described(backup))
    may_be_new = tuple(dict.fromkeys((*known.cluster.controllers, *known.cluster.database_hosts)))
    met = new_keys.acquainted(known, may_be_new, output, accept=wish.accept_new_keys)
    run = operations.start(met, "", output, command="restore", accept_new=wish.accept_new_keys)
    return operations.perform(run, output, lambda begun: carry_out(begun, backup, wish))


def belonging(backup: Backup, path: Path) -> Inventory:
    """The cluster that a backup is restored to: by the files here, else by those in the backup.

    Raises:
        InputError: the backup is another cluster's, or nothing says how to reach the hosts.
    """
    if path.exists():
        known = inventory.load(path)
    elif parts.CLUSTER_FILE in backup.parts:
        known = Inventory(inventory.parse(cluster_text(backup), f"{backup.path}: {parts.CLUSTER_FILE}"), Lock(), path)
    else:
        raise InputError(f"There is no cluster file {path}, and none in {backup.path}. Name one by --cluster.")
    if known.cluster.name != backup.cluster:
        raise InputError(
            f"{backup.path} is a backup of the cluster {backup.cluster}, and {path} is about {known.cluster.name}. "
            "Nothing was changed."
        )
    if parts.STATE not in backup.parts:
        raise InputError(f"{backup.path} holds no state of slurmctld's, so there is no way back by it.")
    lock = inventory.lock_path(path)
    if not lock.exists() and parts.LOCK in backup.parts:
        known = replace(known, lock=lock_from(backup))
    return known


def cluster_text(backup: Backup) -> str:
    """The cluster file in a backup."""
    return backup.read(parts.CLUSTER_FILE).decode()


def lock_from(backup: Backup) -> Lock:
    """The lock in a backup."""
    import json  # noqa: PLC0415 - for the rare case

    return locks.from_values(json.loads(backup.read(parts.LOCK)), Path(f"{backup.path}: {parts.LOCK}"))


def carry_out(run: Run, backup: Backup, wish: Wish) -> None:
    """Deploy, with the backup's data put in their places before the daemons start.

    Raises:
        SlurmfabError: it is refused, or the controller could not go on.
    """
    deploy.under_promise(run, lambda promise: bring_back(run, backup, wish, promise))
    admission.admit(run)
    last = f"the next job is {backup.next_job_id}" if backup.next_job_id else "it had no jobs yet"
    run.progress.line(f"{backup.cluster} goes on as of {backup.made}; {last}.")


def bring_back(run: Run, backup: Backup, wish: Wish, promise: Promise) -> None:
    """Look, refuse, and then go through all phases."""
    keep, run.keep = run.keep, lambda _: None
    situation, steps = deploy.survey(run, may_prepare=True)
    refuse(run, situation, backup, wish)
    promise.refuse(situation, steps)
    require_claim(run)
    run.keep = keep
    put_own_files(run, backup)
    road = Road(backup, stamp(run.started.timestamp()))
    for host in run.well(run.hosts):
        if road.parts_of(situation, host):
            bring(run, host, road, road.parts_of(situation, host))
    deploy.converge(run, situation, road.preparing)
    situation = deploy.situate(run, gather(run, run.well(run.hosts)))
    run.keep(run.inventory)
    deploy.converge(run, situation, road.rest)
    for host in run.well(run.hosts):
        if road.parts_of(situation, host):
            tell(run, host, backup, {"do": "clear"})


def refuse(run: Run, situation: Situation, backup: Backup, wish: Wish) -> None:
    """Stop before anything is replaced that would be missed.

    Raises:
        SlurmfabError: it is refused; nothing was changed.
    """
    cluster = situation.cluster
    away = [host for host in cluster.database_hosts if host in run.lost]
    if away:
        raise SlurmfabError(f"{fold(away)}: without the database's host nothing is restored. Nothing was changed.")
    why = refusals.version_refusal(backup.slurm, situation.slurm_version)
    if why:
        raise SlurmfabError(f"{run.controller}: {why} Nothing was changed.")
    if cluster.database and not cluster.database.external and parts.DATABASE not in backup.parts:
        why = backup.left_out.get(parts.DATABASE, "it was made on another host")
        run.progress.line(f"The backup has no accounting database ({why}); what is on {cluster.database.host} stays.")
    present = look(run, situation, Road(backup, ""))
    if present.silent:
        run.progress.line(
            f"{fold(present.silent)}: nobody knows which jobs run there; those that the backup does not know are ended "
            "when they come back."
        )
    words = refusals.refusal(backup, present, run.controller, overwrite=wish.overwrite, abandon=wish.abandon_jobs)
    if words:
        run.is_refused = True
        raise SlurmfabError(words)
    lost = refusals.orphans(backup, present)
    if lost:
        run.progress.line(f"Ended by slurmctld, since the backup does not know it: {refusals.orphan_words(lost)}.")


def look(run: Run, situation: Situation, road: Road) -> Present:
    """What the hosts have; of what this restoration has put in its place already, nothing counts any more."""
    cluster = situation.cluster
    state = ask(run, run.controller, {"directory": cluster.state_directory}, road, parts.STATE)
    newest = 0
    if cluster.database and parts.DATABASE in road.parts_of(situation, cluster.database.host):
        request = {"database": cluster.database.name}
        newest = ask(run, cluster.database.host, request, road, parts.DATABASE).get("newest_job", 0)
    nodes = run.well(situation.compute_nodes)
    answers = {} if not state else dict(on_each(nodes, lambda node: run.transport.call(node, {"op": "job-processes"})))
    steps = {
        node: next(line["job_processes"]["steps"] for line in lines if "job_processes" in line)
        for node, lines in answers.items()
        if not isinstance(lines, SlurmfabError)
    }
    silent = tuple(node for node in situation.compute_nodes if node not in steps) if state else ()
    return Present(state.get("next_job_id", 0), bool(state.get("is_running")), newest, steps, silent)


def ask(run: Run, host: str, request: Mapping[str, Any], road: Road, name: str) -> Mapping[str, Any]:
    """What a host has of a part; nothing if this restoration has put it there, before it was cut off.

    Raises:
        HostError: the host does not answer.
    """
    place, sha256 = road.staged(name)
    lines = run.transport.call(host, {"op": "backup", **request, "staged": place, "sha256": sha256})
    answer = next((line["backup"] for line in lines if "backup" in line), None)
    if answer is None:
        raise AgentFailed(host, "the agent answered without a word; please report this.")
    return {} if answer["is_done"] else dict(answer)


def put_own_files(run: Run, backup: Backup) -> None:
    """Write the cluster file and the lock here, where there are none; tell where the backup has others."""
    path = run.inventory.path
    if not path.exists():
        atomic_file.write(path, cluster_text(backup))
        run.progress.line(f"Wrote {path}, from the backup.")
    elif parts.CLUSTER_FILE in backup.parts and inventory.read_text(path) != cluster_text(backup):
        run.progress.line(f"{path} is not as it was at the time of the backup; it counts as it is now.")
    run.keep(run.inventory)


def bring(run: Run, host: str, road: Road, names: tuple[str, ...]) -> None:
    """Bring parts of a backup to a host, whole, before anything is replaced there.

    Raises:
        HostError: they cannot be brought there.
    """
    run.progress.begin("bringing the backup", (host,))
    tell(run, host, road.backup, {"do": "begin"})
    for name in names:
        part = road.backup.parts[name]
        with part.path.open("rb") as file:
            file.seek(part.at)
            at = 0
            while at < part.size:
                data = file.read(min(PIECE, part.size - at))
                if not data:
                    raise InputError(f"{part.path} has become shorter meanwhile. Nothing was replaced.")
                step = {"do": "write", "name": name, "at": at, "data": base64.b64encode(data).decode()}
                tell(run, host, road.backup, step)
                at += len(data)
    run.progress.host_done(host)


def tell(run: Run, host: str, backup: Backup, step: Mapping[str, Any]) -> None:
    """Have a host do a step of the staging.

    Raises:
        HostError: it cannot.
    """
    try:
        run.transport.call(host, {"op": "stage", "who": apply_request(run, (), dry_run=False)["who"],
                                  "backup": backup.digest, **step})  # fmt: skip
    except HostError as error:
        run.lose(host, error)
        raise
