"""crun's records of running containers, in memory: made for each task, removed at a step's end."""

from __future__ import annotations

import os
import pwd

PLACE = "/dev/shm"  # noqa: S108 - each record has a random name and is closed to others
PREFIX = "slurmfab-oci-"
LONGEST = 10.0  # seconds for the removal of one record; the step ends after that


def make(task: str) -> str:
    """Make the directory for the record of a task, such as 12.0.3 (job, step, task); OSError if it cannot."""
    path = "%s/%s%s-%s" % (PLACE, PREFIX, task, os.urandom(8).hex())
    os.mkdir(path, 0o700)
    return path


def delete(step: str, user: str) -> int:
    """Become the user, and remove the records of a step's containers.

    The user can fill a record with anything, and exchange it at any moment, so root does not do that. `step`: numbers
    of job and step, as 12.0. `user`: the user's name; records of others stay. Returns the exit code: 1 if there is no
    such user.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        return 1
    become(account.pw_uid, account.pw_gid)
    remove(step, account.pw_uid)
    return 0


def remove(step: str, uid: int, directory: str = PLACE) -> None:
    """Remove a step's (12.0) records of its user; only containers that were killed left some."""
    with os.scandir(directory) as entries:
        found = [entry for entry in entries if entry.name.startswith("%s%s." % (PREFIX, step))]
    for path in (entry.path for entry in found if entry.stat(follow_symlinks=False).st_uid == uid):
        try:
            os.rmdir(path)
        except OSError:
            clear(path)


def become(uid: int, gid: int) -> None:
    """Give up root's rights and groups for those of a user; nothing where this process has none."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def clear(path: str) -> None:
    """Remove a record with something in it, as its user; what cannot be removed stays."""
    import time

    from slurmfab.on_hosts.agent.core import removal
    from slurmfab.on_hosts.agent.core.safe_paths import open_parent

    folder, name = open_parent(path)
    with folder:
        try:
            with folder.enter(name) as record:
                removal.remove_all(record, time.monotonic() + LONGEST)
            os.rmdir(name, dir_fd=folder.descriptor)
        except OSError:
            return
