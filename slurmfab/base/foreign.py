"""Whose the files are that belong to a cluster file: who may change it may change them, and nobody else."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurmfab.base.own_directory import own_directory


def why_unsafe(path: Path, cluster_file: Path) -> str:
    """Why code in a file is not run; empty if only those could write it who may change the cluster file.

    Without a cluster file these are this user and root.
    """
    shared = (cluster_file if cluster_file.exists() else Path("/")).stat()
    real = path.resolve()
    for place in (path, path.parent, path.parent / "__pycache__", real, real.parent):
        if place.exists() and (why := why_foreign(place.stat(), shared)):
            return why.format(place)
    return ""


@contextmanager
def compiled_anew() -> Iterator[None]:
    """While in this context, Python compiles modules from their sources, and those compiled before are not loaded.

    What `why_unsafe` looks at is the source, and a `.pyc` beside it may be of somebody else.
    """
    before = sys.pycache_prefix, sys.dont_write_bytecode
    with own_directory("compiled") as empty:
        sys.pycache_prefix, sys.dont_write_bytecode = str(empty), True
        try:
            yield
        finally:
            sys.pycache_prefix, sys.dont_write_bytecode = before


def why_foreign(found: os.stat_result, shared: os.stat_result) -> str:
    """Why a file or directory, `{}` in the text, can be changed by somebody who may not change a shared file."""
    is_shared = bool(shared.st_mode & stat.S_IWGRP)
    if found.st_uid not in {0, os.geteuid(), shared.st_uid} and not (is_shared and is_in(found.st_uid, shared.st_gid)):
        return f"{{}} belongs to another user (UID {found.st_uid})"
    may_write = is_shared and (found.st_gid == shared.st_gid or is_own_group(found))
    group_writes = 0 if may_write else stat.S_IWGRP
    if found.st_mode & (stat.S_IWOTH | group_writes):
        return f"others may write to {{}} (mode {stat.S_IMODE(found.st_mode):04o})"
    return ""


def is_in(uid: int, gid: int) -> bool:
    """Whether a user belongs to a group."""
    try:
        user = pwd.getpwuid(uid)
        return gid in os.getgrouplist(user.pw_name, user.pw_gid)
    except (KeyError, OSError):
        return False


def is_own_group(found: os.stat_result) -> bool:
    """Whether the group of a file is that of its owner alone, as many distributions give each user one."""
    try:
        group = grp.getgrgid(found.st_gid)
        return group.gr_name == pwd.getpwuid(found.st_uid).pw_name and not group.gr_mem
    except KeyError:
        return False
