"""The archive of a support bundle: the same files give the same bytes, and only its owner can read it."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.on_hosts.agent.core import replace

SUFFIX = ".tar.gz"
OWNER_ONLY = 0o600
DIRECTORY_MODE = 0o700


def place(cluster_file: Path, name: str, to: str) -> Path:
    """The path of a new archive.

    `cluster_file`: the cluster file, beside which the default directory is. `name`: name of the archive without its
    suffix. Raises InputError if it exists already, or its directory cannot be made.
    """
    path = Path(to) if to else cluster_file.with_name(f"{cluster_file.stem}.support")
    if not to or path.is_dir() or to.endswith(os.sep):
        path /= name + SUFFIX
    if os.path.lexists(path):
        raise InputError(f"{path} exists already; nothing was overwritten. Name another file, or a directory.")
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"{path}: you may not write there. Name another directory with --to.")
    except OSError as error:
        raise InputError(f"{path}: no support bundle can be written there: {error.strerror}.") from error
    return path


def write(path: Path, folder: str, files: Mapping[str, str], made: int) -> int:
    """Write the archive, files in one folder with one time, in one step; its size, or InputError."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=made, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, text in sorted(files.items()):
            data = text.encode(errors="replace")
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(data), made, OWNER_ONLY
            tar.addfile(member, io.BytesIO(data))
    try:
        replace.exchange(str(path.resolve()), packed.getvalue(), mode=OWNER_ONLY)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error
    return packed.tell()
