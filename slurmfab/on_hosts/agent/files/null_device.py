"""/dev/null, which every shell and daemon writes to."""

from __future__ import annotations

import os
import stat
from typing import ClassVar

from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

NULL = "/dev/null"
DEVICE = (1, 3)  # major and minor number (null(4))

MODE = 0o666
TEMPORARY = NULL + ".slurmfab"


class NullDevice(Resource):
    """The device that everybody can write to, and no file that somebody has put in its place."""

    kind: ClassVar[str] = "null-device"
    only_name: ClassVar[str] = NULL
    wanted_state: ClassVar[State] = {"type": "device 1, 3", "mode": "%04o" % MODE}

    def actual(self, context: Context) -> State:
        """What is there; nothing in a root without devices."""
        try:
            found = os.lstat(context.path(NULL))
        except FileNotFoundError:
            return {"type": None} if os.path.isdir(context.path("/dev")) else self.wanted(context)
        device = (os.major(found.st_rdev), os.minor(found.st_rdev))
        is_device = stat.S_ISCHR(found.st_mode)
        shown = "device %d, %d" % device if is_device else "no device"
        return {"type": shown, "mode": "%04o" % stat.S_IMODE(found.st_mode)}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Correct the mode, or put a new device in its place in one step."""
        path, temporary = context.path(NULL), context.path(TEMPORARY)
        if "type" in differing:
            os.mknod(temporary, stat.S_IFCHR | MODE, os.makedev(*DEVICE))
            os.chmod(temporary, MODE)
            os.rename(temporary, path)
        else:
            os.chmod(path, MODE)
