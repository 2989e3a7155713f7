"""The files of the site's own in Slurm's directory: their digests, and which of them slurmfab has written."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable

from slurmfab.on_hosts.agent.core.host_paths import SITE_FILES, SLURM_DIRECTORY
from slurmfab.on_hosts.agent.core.reading import read_bytes, read_text


def read(root: str, asked: Iterable[str]) -> Dict[str, Any]:
    """SHA-256 (hexadecimal) by name of the files that are here, and the names of those that slurmfab has written.

    `asked`: names below Slurm's directory; the files that slurmfab has written are told of besides.
    """
    written = read_text(root + SITE_FILES).split()
    paths = {name: "%s%s/%s" % (root, SLURM_DIRECTORY, name) for name in sorted({*asked, *written})}
    there = {name: path for name, path in paths.items() if os.path.isfile(path)}
    return {"site_files": digests(there) if there else {}, "written_site_files": written}


def digests(paths: Dict[str, str]) -> Dict[str, str]:
    """SHA-256 (hexadecimal) of files, by the names of their paths."""
    import hashlib  # few hosts have such files

    return {name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in paths.items()}
