"""Files that a cluster file names: each is read only if those alone chose it who may change the cluster file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from slurmfab.base import foreign
from slurmfab.base.errors import InputError


def named(beside: Path, name: str | Path) -> Path:
    """The path of a file or directory that a cluster file names.

    `beside`: the directory of the cluster file. Raises InputError if somebody could put another file there, or has put
    a link there, who may not change that directory: what this user can read would go to hosts.
    """
    path = beside / Path(name).expanduser()
    trusted = foreign.sharing(beside)
    # Who may change one of these has the cluster file itself.
    own = {*beside.absolute().parents, beside.absolute(), *beside.resolve().parents, beside.resolve()}
    for place, found in foreign.entries(path):
        if place not in own and (why := foreign.why_foreign(place, trusted, harmless(found))):
            raise InputError(f"{path} is not read: {why}, who may not change the cluster file.")
    return path


def harmless(found: os.stat_result) -> os.stat_result:
    """What is known of a file, without rights to write that let nobody else change it."""
    rights = 0
    if stat.S_ISLNK(found.st_mode) or (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
        rights = stat.S_IWGRP | stat.S_IWOTH  # in such a directory, each user may replace their own files alone
    elif foreign.is_own_group(found):
        rights = stat.S_IWGRP
    return os.stat_result((found.st_mode & ~rights, *found[1:10]))
