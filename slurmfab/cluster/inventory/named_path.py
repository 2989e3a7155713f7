"""Files that a cluster file names: each is read only if those alone chose it who may change the cluster file."""

from __future__ import annotations

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
        if place in own:
            continue
        known = foreign.without_rights(found, stat.S_IWGRP) if foreign.is_own_group(found) else found
        if why := foreign.why_foreign(place, trusted, known):
            raise InputError(f"{path} is not read: {why}, who may not change the cluster file.")
    return path
