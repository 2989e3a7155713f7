"""The files of an imported cluster on the deployer: all of them are written, or none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from slurmfab.base.errors import ClusterFileError, InputError, SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading, schema_file, shared_files
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.import_cluster.found import Takeover

PLAIN, EXECUTABLE = 0o644, 0o755


def refuse_existing(path: Path) -> None:
    """Refuse, before a host is asked, to import where there is a cluster file or a lock, by InputError."""
    there = shared_files.existing(path)
    if there:
        raise InputError(
            f"{' and '.join(there)} {'exists' if len(there) == 1 else 'exist'} already, and an import writes new files "
            f"only. To import into another one: {FAB} import --cluster configs/NAME.yaml. Nothing was written."
        )


def write(path: Path, takeover: Takeover, lock_of: Callable[[Inventory], Lock]) -> Inventory:
    """Write the cluster file, lock, schema and the files beside them, after all were read back and found right.

    `takeover`: what is written. Returns the new cluster, as the files have it. Raises InputError if one of the files
    exists already, or cannot be written; then none is.
    """
    target = Path(os.path.realpath(path))
    with shared_files.exclusively(path), staging(target.parent) as directory:
        contents = {target.name: (schema_file.modeline(target) + takeover.text).encode(), **takeover.files}
        for name, content in contents.items():
            put(directory / safe(name), content, EXECUTABLE if name in takeover.programs else PLAIN)
        known = read_back(directory / target.name, path)
        text = locks.text_of(lock_of(known))
        names = [*contents, loading.lock_path(target).name]
        put(directory / names[-1], text.encode(), PLAIN)
        loading.load(directory / target.name)
        move_all(directory, target.parent, names)
        known = loading.load(path)
        schema_file.provide(path, known.lock)
    return known


class staging:
    """A new directory beside the files that are to be written, in a `with` block; it is removed at its end."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent

    def __enter__(self) -> Path:
        try:
            self.directory = Path(tempfile.mkdtemp(prefix=".slurmfab-import-", dir=self.parent))
        except OSError as error:
            raise InputError(f"{self.parent} cannot be written: {error.strerror}. Nothing was written.") from error
        return self.directory

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)


def safe(name: str) -> str:
    """The path of a file relative to the cluster file; SlurmfabError if it leads out of its directory."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise SlurmfabError(f"{name!r} is no path beside the cluster file. This is a bug; please report it.")
    return name


def put(path: Path, content: bytes, mode: int) -> None:
    """Write a new file. Raises InputError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    except OSError as error:
        raise InputError(f"{path.name} cannot be written: {error.strerror}. Nothing was written.") from error


def read_back(staged: Path, path: Path) -> Inventory:
    """Read a new cluster file, with the path where it will be in messages; SlurmfabError for mistakes."""
    try:
        return loading.load(staged)
    except ClusterFileError as error:
        lines = "\n".join(line.replace(str(staged), str(path)) for line in error.complaints)
        raise SlurmfabError(
            f"The cluster file that was made of this cluster has mistakes:\n{lines}\nThis is a bug; please report it, "
            "with slurm.conf but without passwords. Nothing was written."
        ) from error


def move_all(source: Path, target: Path, names: list[str]) -> None:
    """Move files within a file system, all or none, replacing none; InputError if one exists or cannot move."""
    there = [str(target / name) for name in names if os.path.lexists(target / name)]
    if there:
        raise InputError(
            f"{', '.join(there)}: there already, and an import writes new files only. Move it away, or import into "
            f"another directory: {FAB} import --cluster DIRECTORY/cluster.yaml. Nothing was written."
        )
    moved: list[Path] = []
    made: list[Path] = []
    try:
        for name in names:
            made += new_folders(target / name, target)
            (source / name).rename(target / name)
            moved.append(target / name)
    except BaseException as error:
        for path in moved:
            path.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise InputError(f"{target} cannot be written: {error.strerror}. Nothing was written.") from error
        raise


def new_folders(path: Path, top: Path) -> list[Path]:
    """Make the directories above a file, and return those that were missing, the uppermost first."""
    missing = [folder for folder in path.parents if folder.is_relative_to(top) and not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir()
    return missing[::-1]


def file_names(path: Path, files: Mapping[str, bytes]) -> list[Path]:
    """The paths of all files of an import, the cluster file first."""
    return [path, loading.lock_path(path), schema_file.schema_path(path), *(path.parent / name for name in files)]
