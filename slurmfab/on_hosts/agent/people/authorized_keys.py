"""The SSH keys of a user of the cluster: a marked block in ~/.ssh/authorized_keys.

The user can change anything below the home at any moment, so `home_files` reads and writes there as the user, and
nothing that is found there fails a run: it gives a remark.
"""

from __future__ import annotations

import os
from typing import ClassVar, FrozenSet, List, Tuple

from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.files.marked_block import DamagedBlock, MarkedBlock, join_lines, split_lines
from slurmfab.on_hosts.agent.people.home_worker import DEAD, HomeTrouble, worker

BEGIN, END = "# BEGIN slurmfab keys", "# END slurmfab keys"
BLOCK = MarkedBlock(BEGIN, END)


class AuthorizedKeys(Resource):
    """A marked block of ~/.ssh/authorized_keys with these keys; the user's other lines stay byte for byte."""

    kind: ClassVar[str] = "authorized-keys"
    named_by: ClassVar[str] = "user"
    # Hosts that share homes replace the file at the same time. On a file system such as GlusterFS a name can be missing
    # for a moment while another host renames a file to it.
    settling_seconds: ClassVar[float] = 3.0
    user: str
    uid: int
    gid: int
    home: str
    keys: Tuple[str, ...]  # lines of authorized_keys (sshd(8)); empty to remove the block

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The keys, one per line."""
        return {"keys": "".join(key + "\n" for key in self.keys) or None}

    def actual(self, context: Context) -> State:
        """The keys in the block; a file that cannot be read or replaced counts as right and gives a remark."""
        try:
            lines, obstacle = self.read(context)
        except LeftAsItWas as remark:
            context.remark = str(remark)
            return self.wanted(context)
        try:
            keys = BLOCK.content(lines) or None
        except DamagedBlock:
            keys = None
        wanted = self.wanted(context)
        if obstacle and keys != wanted["keys"]:
            context.remark = self.remark(obstacle)
            return wanted
        return {"keys": keys}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Replace the file as the user, a damaged block at its end; LeftAsItWas if it cannot be read or replaced."""
        lines, _ = self.read(context)
        keys = self.wanted(context)["keys"] or ""
        try:
            new = BLOCK.replaced(lines, keys)
        except DamagedBlock:
            new = BLOCK.replaced(BLOCK.without_markers(lines), keys)
        temporary = ".slurmfab-keys-%s" % os.uname().nodename
        try:
            worker.ask("write keys", (self.uid, self.gid), context.path(self.home), join_lines(new), temporary)
        except HomeTrouble as trouble:
            raise LeftAsItWas(self.remark(str(trouble))) from None

    def read(self, context: Context) -> Tuple[List[str], str]:
        """The lines of the file, each with its newline, and why the user cannot replace it; empty for no reason.

        Raises:
            LeftAsItWas: the file cannot be read.
            ResourceFailed: its file system does not work, so that no job of the user does.
        """
        try:
            data, obstacle = worker.ask("read keys", (self.uid, self.gid), context.path(self.home))
        except HomeTrouble as trouble:
            if trouble.errno in DEAD:
                raise ResourceFailed(self.remark(str(trouble))) from None
            raise LeftAsItWas(self.remark(str(trouble))) from None
        return split_lines(data), obstacle

    def remark(self, cause: str) -> str:
        """The remark about keys that cannot be read or written."""
        return "slurmfab did not write %s's SSH keys: %s/.ssh/authorized_keys: %s Mend it and deploy again" % (
            self.user, self.home, cause if cause.endswith("?") else cause.rstrip(".") + "."
        )  # fmt: skip
