"""The files of an imported cluster on the deployer: all of them are written, or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from slurmfab.base import atomic_file
from slurmfab.base.errors import ClusterFileError, InputError, SlurmfabError
from slurmfab.base.own_directory import own_directory
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
    with atomic_file.refusing(path, "Nothing was written."):
        folder, name = atomic_file.opened_parent(path, through_link=True, make=True)
    with folder:
        atomic_file.refuse_open_to_all(folder)
        with shared_files.exclusively(path):
            with atomic_file.refusing(path, "Nothing was written."), own_directory("import") as staged:
                target = Path(folder.place(name))
                contents = {name: (schema_file.modeline(target) + takeover.text).encode(), **takeover.files}
                modes = {one: EXECUTABLE if one in takeover.programs else PLAIN for one in contents}
                for one, content in contents.items():
                    (staged / safe(one)).parent.mkdir(parents=True, exist_ok=True)
                    (staged / one).write_bytes(content)
                    (staged / one).chmod(modes[one])
                lock = loading.lock_path(staged / name)
                contents[lock.name] = locks.text_of(lock_of(read_back(staged / name, path))).encode()
                lock.write_bytes(contents[lock.name])
                loading.load(staged / name)
                there = [str(target.parent / one) for one in contents if os.path.lexists(target.parent / one)]
                if there:
                    raise InputError(
                        f"{', '.join(there)}: there already, and an import writes new files only. Move it away, or "
                        f"import into another directory: {FAB} import --cluster DIRECTORY/cluster.yaml. Nothing was "
                        "written."
                    )
                atomic_file.write_new(
                    folder, ((one, content, modes.get(one, PLAIN)) for one, content in contents.items())
                )
            known = loading.load(path)
            schema_file.provide(path, known.lock)
    return known


def safe(name: str) -> str:
    """The path of a file relative to the cluster file; SlurmfabError if it leads out of its directory."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise SlurmfabError(f"{name!r} is no path beside the cluster file. This is a bug; please report it.")
    return name


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


def file_names(path: Path, files: Mapping[str, bytes]) -> list[Path]:
    """The paths of all files of an import, the cluster file first."""
    return [path, loading.lock_path(path), schema_file.schema_path(path), *(path.parent / name for name in files)]
