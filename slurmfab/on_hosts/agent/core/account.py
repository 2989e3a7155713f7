"""Work that root does with the rights of another user."""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

NO_GROUP = 65534  # the group to work with in place of root's


@contextlib.contextmanager
def acting_as(uid: int, gid: int) -> Iterator[None]:
    """Work on files with a user's rights, without supplementary groups; `NO_GROUP` in place of root's."""
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
