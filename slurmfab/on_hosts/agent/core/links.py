"""Links that root has made, and that only root can change."""

from __future__ import annotations

import os
import stat

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.safe_paths import Folder, open_parent


def link_target(path: str) -> str:
    """Where a link of root alone leads, which stays when the link is replaced; empty for anything else."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return ""
    with folder:
        status = folder.find(name)
        if folder.others or status is None or not stat.S_ISLNK(status.st_mode):
            return ""
        return os.readlink(name, dir_fd=folder.descriptor)


def put_link(folder: Folder, name: str, target: str) -> None:
    """Make a link in one step in a directory that only root can change, in place of a file or another link."""
    replace.clear(folder, name)
    temporary = replace.temporary_name(name, os.urandom(replace.DIGITS // 2).hex())
    os.symlink(target, temporary, dir_fd=folder.descriptor)
    try:
        folder.rename(temporary, name)
    except OSError:
        folder.unlink(temporary)
        raise
