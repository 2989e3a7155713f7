"""`fab backup`: fetches the parts of a backup from the hosts and writes them into an archive; a failure leaves none."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from slurmfab.base import archive as archives
from slurmfab.base import atomic_file, signatures
from slurmfab.base.errors import AgentFailed, InputError, SlurmfabError, Unreachable
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.backup import archive, trust
from slurmfab.commands.backup.archive import PART_TITLES, Backup
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import gather
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line, answer_value, piece_of
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup import encryption
from slurmfab.on_hosts.agent.backup.archive import Archive
from slurmfab.on_hosts.agent.core.resource import ResourceFailed
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH as SLURMDBD_CONF


def backup(cluster: str, to: str, output: Output) -> int:
    """Back up everything of a cluster that a deployment could not make again, and print what the backup has.

    Raises InputError if the archive cannot be written there, or exists already. Raises SlurmfabError if nothing is
    deployed, or a part cannot be fetched; no archive is left.
    """
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("backup"))
    archive_file: Archive | None = None
    try:
        with session.ending(run):
            archive_file = new_archive(run, to)
            path = save(run, archive_file)
    except OSError as error:
        raise SlurmfabError(f"The backup cannot be written: {error.strerror}. No file of it is left.") from error
    finally:
        if archive_file:
            archive_file.abandon()
    saved = archive.verified(path)
    if saved.seal.signature:
        trust_own_key(known)
    print(summary(saved))  # noqa: T201 - the output of the command
    return 0


def trust_own_key(known: Inventory) -> None:
    """Save this user's public signing key in the lock, so that colleagues trust what it has signed."""
    path, keys = loading.lock_path(known.path), signatures.own_keys()
    if set(keys) <= set(known.lock.signers):
        return
    with shared_files.exclusively(known.path):
        locks.save(locks.with_signers(locks.load(path), keys), path)


def new_archive(run: Run, to: str) -> Archive:
    """Make an empty archive named by the run's start; InputError if it exists, or age or room is missing."""
    name = f"{run.inventory.cluster.name}-{parts.stamp(run.started.timestamp())}"
    path = Path(to)
    is_file = bool(to) and not path.is_dir() and not to.endswith(os.sep)
    if is_file and os.path.lexists(path):
        raise InputError(f"{path} exists already; nothing was overwritten. Name another file, or a directory.")
    try:
        if not to:
            path = archive.make_directory(run.inventory.path)
        wanted = run.inventory.cluster.backup
        recipients = wanted.encrypt_to if wanted else ()
        if recipients and not shutil.which(encryption.PROGRAM):
            raise InputError(
                "backup.encrypt_to in the cluster file needs the program age on this machine (Debian: age). No backup "
                "was made."
            )
        named, suffix = (path.name, "") if is_file else (name, parts.SUFFIX)
        place = path.parent if is_file else path
        if to:
            folder = atomic_file.opened(place, archive.OWNER_ONLY)
        else:
            folder = atomic_file.opened_own(place, run.inventory.path)
        folder.path = str(place)  # as it was named
        parts.sweep_in(folder)
        return Archive(folder, named, suffix, recipients)
    except (OSError, ResourceFailed) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: no backup can be written there: {why}.") from error


def save(run: Run, archive_file: Archive, dump: BinaryIO | None = None) -> Path:
    """Fetch all parts into the archive, the database also into `dump`, not encrypted; its path, or SlurmfabError."""
    try:
        return save_parts(run, archive_file, dump)
    except ResourceFailed as error:
        raise SlurmfabError(f"The backup cannot be encrypted: {error}. No file of it is left.") from error


def save_parts(run: Run, archive_file: Archive, dump: BinaryIO | None) -> Path:
    """As `save`; it raises `ResourceFailed` if age fails."""
    cluster = run.inventory.cluster
    asked = tuple(dict.fromkeys((run.controller, *cluster.database_hosts)))
    facts = gather(run, asked, may_prepare=False)
    if run.remaining(asked) != asked:
        raise SlurmfabError("Without these hosts the backup would be incomplete; no file of it is left.")
    controller = facts[run.controller]
    if not (controller.slurm_conf and controller.munge_key and controller.slurm_version):
        raise SlurmfabError(f"{run.controller}: nothing is deployed there yet. First: {FAB} deploy.")
    state = parse(controller.slurm_conf).settings.get("statesavelocation", cluster.state_directory)
    archive_file.add(parts.CLUSTER_FILE, loading.read_text(run.inventory.path).encode())
    path = loading.lock_path(run.inventory.path)
    locks.load(path)
    with suppress(FileNotFoundError):
        archive_file.add(parts.LOCK, path.read_bytes())
    archive_file.add(parts.KEY, base64.b64decode(controller.munge_key))
    fetch(run, archive_file, run.controller, parts.FILES, {"part": "files", "directory": SLURM_DIRECTORY})
    job_ids = fetch(run, archive_file, run.controller, parts.STATE, {"part": "state", "directory": state})
    left_out = save_database(run, archive_file, cluster, dump)
    sign = signatures.signer(archive.KIND.name, run.progress.line)
    return Path(archive_file.finish(manifest(run, controller, job_ids, left_out), sign))


def manifest(
    run: Run, controller: HostFacts, job_ids: Mapping[str, Any], left_out: Mapping[str, str]
) -> dict[str, Any]:
    """The values of the manifest besides its list of parts.

    Args:
        job_ids: `next_job_id` and `jobs`, as the agent reads them from slurmctld's state.
        left_out: reasons why parts are missing, by name of the part.
    """
    cluster = run.inventory.cluster
    return {
        "cluster": cluster.name,
        **archives.origin(run.started),
        "slurm": controller.slurm_version,
        "controllers": list(cluster.controllers),
        "database": list(cluster.database_hosts),
        "hosts": list(cluster.hosts),
        **job_ids,
        "left_out": dict(left_out),
    }


def save_database(run: Run, archive_file: Archive, cluster: Cluster, dump: BinaryIO | None) -> dict[str, str]:
    """Add the accounting database, and /etc/slurm of the slurmdbd host, if the cluster has them.

    `dump`: gets a copy of the database of this cluster's own server. Returns reasons why parts are missing, by name of
    the part. Raises HostError if a part cannot be fetched.
    """
    if cluster.database is None:
        return {parts.DATABASE: "the cluster file has no database"}
    host = cluster.database.host
    if host != run.controller:
        fetch(run, archive_file, host, parts.DATABASE_FILES, {"part": "files", "directory": SLURM_DIRECTORY})
    request = {"part": "database", "name": cluster.database.name}
    if not cluster.database.external:
        fetch(run, archive_file, host, parts.DATABASE, request, copy=dump)
        return {}
    try:
        fetch(run, archive_file, host, parts.DATABASE, {**request, "settings": SLURMDBD_CONF})
    except AgentFailed as error:
        archive_file.drop()
        return {parts.DATABASE: f"it is on {cluster.database.external}, and could not be read from {error}"}
    return {}


def fetch(
    run: Run, archive_file: Archive, host: str, name: str, request: Mapping[str, Any], *, copy: BinaryIO | None = None
) -> dict[str, Any]:
    """Fetch a part from a host, piece by piece, and add it to the archive; `copy` gets the same bytes.

    Returns what the agent reports about the part: `next_job_id` and `jobs` for slurmctld's state, otherwise nothing.
    Raises HostError if the host does not send all of it.
    """
    run.progress.begin(f"saving {PART_TITLES[name]}", (host,))
    archive_file.begin()

    def on_line(line: Line) -> None:
        if "piece" in line:
            piece = piece_of(host, line)
            archive_file.write(piece)
            if copy:
                copy.write(piece)

    try:
        lines = run.transport.call(host, {"op": "save", **request}, on_line)
    except Unreachable as error:
        raise SlurmfabError(f"{error} No file of this backup is left.") from error
    about = answer_value(host, lines, "saved")
    archive_file.end(name, {"host": host})
    run.progress.host_done(host)
    return dict(about)


def summary(backup: Backup) -> str:
    """The text that the command ends with."""
    of_encrypted = ("  Only the private key of one of these reads it: keep it off the cluster, and try it.",)
    of_plain = (
        "  It is not encrypted, and holds secrets (the munge key, job scripts, users and their jobs): only its owner",
        "  may read it. Protect copies in the same way.",
    )
    identity = " --identity FILE" if backup.encrypted_to else ""
    return "\n".join((
        archive.description(backup),
        *(of_encrypted if backup.encrypted_to else of_plain),
        f"To restore the cluster from it: {FAB} restore {backup.path}{identity}",
    ))  # fmt: skip


def list_backups(cluster: str) -> int:
    """Describe and verify the backups beside the cluster file, oldest first; returns 1 if one of them is damaged."""
    path = loading.named_path(cluster)
    place = archive.directory(path)
    found = archive.all_in(place)
    if not found:
        print(f"There are no backups in {place}.")  # noqa: T201 - the output of the command
    return archives.print_descriptions(found, lambda one: describe(archive.verified(one), path))


def describe(backup: Backup, path: Path) -> str:
    """A description of a backup, with whether it is signed by a trusted key."""
    return f"{archive.description(backup)}\n{trust.standing(backup, path)}"
