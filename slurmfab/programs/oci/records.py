"""crun's records of running containers: made for each task, removed at the end of its step.

They are in memory, because they are gone when the host is. Root runs `delete` at each end of a step, so this module
imports little.
"""

from __future__ import annotations

import os
import pwd

PLACE = "/dev/shm"  # noqa: S108 - each record has a random name and is closed to others
PREFIX = "slurmfab-oci-"


def make(task: str) -> str:
    """Make the directory for the record of a task's container.

    Args:
        task: numbers of job, step and task, as 12.0.3.

    Raises:
        OSError: it cannot be made.
    """
    path = "%s/%s%s-%s" % (PLACE, PREFIX, task, os.urandom(8).hex())
    os.mkdir(path, 0o700)
    return path


def delete(step: str, user: str, directory: str = PLACE) -> int:
    """Remove the records of a step's containers; only those of containers that were killed have something in them.

    Args:
        step: numbers of job and step, as 12.0.
        user: the user's name; records of others stay.
        directory: where records are.
    """
    uid = pwd.getpwnam(user).pw_uid
    with os.scandir(directory) as entries:
        found = [entry for entry in entries if entry.name.startswith("%s%s." % (PREFIX, step))]
    for path in (entry.path for entry in found if entry.stat(follow_symlinks=False).st_uid == uid):
        try:
            os.rmdir(path)
        except OSError:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
    return 0
