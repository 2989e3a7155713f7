"""Work that root does with the rights of another user."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

NO_GROUP = 65534  # the group to work with in place of root's


@contextlib.contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """Read and write files with the rights of a user, without supplementary groups; as before if this is not root.

    `uid`: UID; that of root changes nothing. `gid`: GID; `NO_GROUP` takes the place of root's group.
    """
    if os.geteuid() != 0 or uid == 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(gid or NO_GROUP)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
