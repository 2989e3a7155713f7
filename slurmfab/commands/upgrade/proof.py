"""The backup before an upgrade, with proof that it restores: read back as a whole, its dump loaded and counted."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from slurmfab.base.archive import Part, format_size
from slurmfab.base.errors import DeployFailed, SlurmfabError
from slurmfab.commands.backup import archive, restoring, saving
from slurmfab.commands.backup.archive import Backup
from slurmfab.core.engine.requests import apply_step
from slurmfab.core.engine.run import Run
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.backup.archive import DATABASE, PIECE
from slurmfab.on_hosts.agent.backup.staged_parts import staged
from slurmfab.on_hosts.agent.upgrade.proved_dump import ProvedDump


def proved_backup(run: Run, wanted: ProvedDump) -> Path:
    """Back the cluster up, and prove, as a step, that the backup restores; returns the archive's path.

    `wanted`: how the dump is proved, without its place. Raises SlurmfabError if it cannot be made, or is not proved.
    """
    before = rows(run)
    archive_file = saving.new_archive(run, "")
    with tempfile.TemporaryFile() as dump:
        try:
            path = saving.save(run, archive_file, dump if archive_file.recipients else None)
        except OSError as error:
            raise SlurmfabError(f"The backup cannot be written: {error.strerror}. Nothing was changed.") from error
        finally:
            archive_file.abandon()
        backup = archive.verified(path)
        proved = proof(run, with_plain_dump(backup, dump), before, wanted)
    run.progress.line(f"Backup: {path} ({format_size(path.stat().st_size)}), read back as a whole; {proved}.")
    return path


def with_plain_dump(backup: Backup, dump: BinaryIO) -> Backup:
    """A backup whose dump can be read: nobody here may be able to decrypt the one that is in it.

    `dump`: the file without a name that got the dump on its way into the archive.
    """
    if not backup.encrypted_to or DATABASE not in backup.parts:
        return backup
    size = dump.tell()
    dump.seek(0)
    sha256 = hashlib.sha256()
    for piece in iter(lambda: dump.read(PIECE), b""):
        sha256.update(piece)
    part = Part(size, sha256.hexdigest(), 0, Path(f"/dev/fd/{dump.fileno()}"))
    return replace(backup, parts={**backup.parts, DATABASE: part})


def rows(run: Run) -> dict[str, int]:
    """Rows of each table of our accounting database, empty for none or another server; HostError if silent."""
    database = run.inventory.cluster.database
    if database is None or database.external:
        return {}
    lines = run.transport.call(database.host, {"op": "upgrade-rows", "database": database.name})
    return dict(answer_value(database.host, lines, "upgrade_rows"))


def proof(run: Run, backup: Backup, before: dict[str, int], wanted: ProvedDump) -> str:
    """Load the dump beside the database, and count its rows; what that proved, in words.

    `before`: rows of each table before the dump. Raises SlurmfabError if it cannot be loaded, or differs from the
    database.
    """
    database = run.inventory.cluster.database
    if database is None:
        return "there is no accounting database"
    if DATABASE not in backup.parts:
        return f"WITHOUT the accounting database: {backup.left_out.get(DATABASE, 'it was left out')}"
    if database.external:
        return f"the dump of the database on {database.external} was not loaded, since slurmfab may make none there"
    host, sha256 = database.host, backup.parts[DATABASE].sha256
    restoring.send_parts(run, host, backup, (DATABASE,))
    try:
        place, rows_before = staged(backup.digest, DATABASE), tuple(sorted(before.items()))
        wanted = replace(wanted, staged=place, sha256=sha256, before=rows_before)
        run.progress.begin("proving the backup", (host,))
        step = apply_step(run, "proof", host, (wanted,))
        run.record_steps(step)
        run.progress.host_done(host, step)
    finally:
        restoring.request_step(run, host, backup, {"do": "clear"})
    (outcome,) = step.outcomes
    if outcome.status == "failed":
        raise DeployFailed(f"{host}: the backup is not proved: {outcome.message}. Nothing was upgraded.")
    if outcome.status == "ok" and outcome.message:
        return f"its dump was NOT loaded on {host}: {outcome.message}"
    tried = f"; {outcome.message}" if outcome.message else ""
    return f"its dump was loaded on {host} and has the rows of all {len(before)} tables{tried}"
