"""`fab backup`: from the words on the command line to an archive that is whole, or none."""

from __future__ import annotations

import base64
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from getpass import getuser
from pathlib import Path
from typing import Any

from slurmfab import __version__, inventory, operations
from slurmfab import lock as locks
from slurmfab.agent import backup_archive as parts
from slurmfab.agent.backup_archive import Archive
from slurmfab.agent.slurmdbd_conf import PATH as SLURMDBD_CONF
from slurmfab.asking import gather
from slurmfab.backup import archive
from slurmfab.backup.archive import Backup
from slurmfab.cluster import Cluster
from slurmfab.errors import AgentFailed, InputError, SlurmfabError, Unreachable
from slurmfab.facts import HostFacts
from slurmfab.operations import Output
from slurmfab.phases.slurm_conf import CONFIGURATION
from slurmfab.run import Run
from slurmfab.slurm.conf_text import parse
from slurmfab.ssh.session import Line


def backup(cluster: str, to: str, output: Output) -> int:
    """Save what a deployment could not make anew, and tell what that is.

    Args:
        cluster: the cluster file's path, empty for the default one.
        to: a directory, or the file itself; empty for the directory beside the cluster file.
        output: what to tell.

    Returns:
        The exit code.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    run = operations.start(known, "", output, command="backup")
    made: Archive | None = None
    try:
        made = begun(run, to)
        path = save(run, made)
    except SlurmfabError:
        operations.say_failures(run)
        raise
    except OSError as error:
        raise SlurmfabError(f"The backup cannot be written: {error.strerror}. Nothing is left of it.") from error
    finally:
        if made:
            made.abandon()
        run.progress.end()
        run.transport.close()
    print(told(archive.verified(path)))  # noqa: T201 - the last word of the command
    return 0


def begun(run: Run, to: str) -> Archive:
    """The archive, where it was asked for, with nothing in it yet.

    Raises:
        InputError: it cannot be written there, or is there already.
    """
    name = f"{run.inventory.cluster.name}-{parts.stamp(run.started.timestamp())}"
    path = Path(to)
    is_file = bool(to) and not path.is_dir() and not to.endswith(os.sep)
    if is_file and os.path.lexists(path):
        raise InputError(f"{path} is there already; nothing was overwritten. Name another file, or a directory.")
    try:
        if not to:
            path = archive.make_directory(run.inventory.path)
        place = path.parent if is_file else path
        place.mkdir(mode=archive.OWNER_ONLY, parents=True, exist_ok=True)
        parts.sweep(str(place))
        return Archive(str(place), path.name, "") if is_file else Archive(str(place), name)
    except OSError as error:
        raise InputError(f"{path}: no backup can be written there: {error.strerror}.") from error


def save(run: Run, made: Archive) -> Path:
    """Ask the hosts for all parts, one after the other.

    Raises:
        SlurmfabError: there is nothing to save yet, or a part cannot be had.
    """
    cluster = run.inventory.cluster
    facts = gather(run, tuple(dict.fromkeys((run.controller, *cluster.database_hosts))), may_prepare=False)
    if run.lost:
        raise SlurmfabError("Without them the backup would not be whole; nothing is left of it.")
    controller = facts[run.controller]
    if not (controller.slurm_conf and controller.munge_key and controller.slurm_version):
        raise SlurmfabError(f"{run.controller}: nothing is deployed there that could be saved. First: fab deploy.")
    state = parse(controller.slurm_conf).settings.get("statesavelocation", cluster.state_directory)
    add_own_files(run, made)
    made.add(parts.KEY, base64.b64decode(controller.munge_key))
    fetch(run, made, run.controller, parts.FILES, {"part": "files", "directory": CONFIGURATION})
    about = fetch(run, made, run.controller, parts.STATE, {"part": "state", "directory": state})
    left_out = save_database(run, made, cluster)
    return Path(made.finish(manifest(run, controller, about, left_out)))


def manifest(run: Run, controller: HostFacts, about: Mapping[str, Any], left_out: Mapping[str, str]) -> dict[str, Any]:
    """What the manifest says besides the parts."""
    cluster = run.inventory.cluster
    return {
        "cluster": cluster.name,
        "made": run.started.isoformat(timespec="seconds"),
        "by": f"{getuser()}@{socket.gethostname()}",
        "slurmfab": __version__,
        "slurm": controller.slurm_version,
        "controllers": list(cluster.controllers),
        "database": list(cluster.database_hosts),
        "hosts": list(cluster.hosts),
        **about,
        "left_out": dict(left_out),
    }


def add_own_files(run: Run, made: Archive) -> None:
    """Add the cluster file, and the lock as it is on the disk."""
    made.add(parts.CLUSTER_FILE, inventory.read_text(run.inventory.path).encode())
    path = inventory.lock_path(run.inventory.path)
    locks.load(path)
    with suppress(FileNotFoundError):
        made.add(parts.LOCK, path.read_bytes())


def save_database(run: Run, made: Archive, cluster: Cluster) -> dict[str, str]:
    """Add the accounting database, and /etc/slurm of slurmdbd's host, if there are any.

    Returns:
        Why a part is left out, by its name.

    Raises:
        HostError: it should be there, and cannot be had.
    """
    if cluster.database is None:
        return {parts.DATABASE: "the cluster file has no database"}
    host = cluster.database.host
    if host != run.controller:
        fetch(run, made, host, parts.DATABASE_FILES, {"part": "files", "directory": CONFIGURATION})
    request = {"part": "database", "name": cluster.database.name}
    if not cluster.database.external:
        fetch(run, made, host, parts.DATABASE, request)
        return {}
    try:
        fetch(run, made, host, parts.DATABASE, {**request, "settings": SLURMDBD_CONF})
    except AgentFailed as error:
        made.drop()
        return {parts.DATABASE: f"it is on {cluster.database.external}, and could not be read from {error}"}
    return {}


def fetch(run: Run, made: Archive, host: str, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Add a part of a host's, piece by piece.

    Returns:
        What the host says of it.

    Raises:
        HostError: the host does not send it to its end.
    """
    run.progress.begin(f"saving {archive.WORDS[name]}", (host,))
    made.begin()

    def heard(line: Line) -> None:
        if "piece" in line:
            made.write(base64.b64decode(line["piece"]))

    try:
        lines = run.transport.call(host, {"op": "save", **request}, heard)
    except Unreachable as error:
        raise SlurmfabError(f"{error} Nothing is left of this backup.") from error
    about = next((line["saved"] for line in lines if "saved" in line), None)
    if about is None:
        raise AgentFailed(host, "the agent ended a part of the backup without a word; please report this.")
    made.end(name, {"host": host})
    run.progress.host_done(host)
    return dict(about)


def told(backup: Backup) -> str:
    """What to say of a new backup."""
    return "\n".join((
        archive.described(backup),
        "  It holds secrets (the munge key, job scripts, who runs what) and is not encrypted: only its owner may read",
        "  it, and where you copy it to, see to that as well.",
        f"To bring the cluster back from it: fab restore {backup.path}",
    ))  # fmt: skip


def listing(cluster: str) -> int:
    """Tell which backups lie beside the cluster file, oldest first; each is read as a whole, so that it can be trusted.

    Returns:
        The exit code: 1 when one of them is damaged.
    """
    path = Path(cluster) if cluster else inventory.default_path()
    place, code = archive.directory(path), 0
    found = archive.all_in(place)
    for one in found:
        try:
            print(archive.described(archive.verified(one)))  # noqa: T201 - the answer
        except InputError as error:
            print(error)  # noqa: T201 - the answer
            code = 1
    if not found:
        print(f"There are no backups in {place}.")  # noqa: T201 - the answer
    return code
