"""A marked block of lines in a file whose other lines belong to others, such as /etc/hosts."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import OTHERS_WRITE
from slurmfab.on_hosts.agent.files.marked_block import DamagedBlock, MarkedBlock, join_lines, split_lines
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, gid_of, uid_of


class Block(Resource):
    """Lines between `# BEGIN slurmfab NAME` and `# END slurmfab NAME`; the rest of the file stays byte for byte."""

    kind: ClassVar[str] = "block"
    path: str  # absolute path of the file
    block: str
    content: Any  # the lines; empty to remove the block
    owner: str = "root"  # user name for a file that has to be made; an existing file keeps its owner unless `strict`
    group: str = "root"
    mode: int = 0o644
    # Whether an existing file has to be the owner's, and has all permission bits of `mode` and gives no others the
    # right to write. More rights to read and another group are no difference.
    strict: bool = False
    first: str = ""  # what a file begins with that has to be made, or is empty

    def name(self) -> str:
        """The path and the block's name."""
        return "%s#%s" % (self.path, self.block)

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:  # noqa: ARG002
        """The file."""
        return (self.path,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The lines, each with a newline, and whose the file is."""
        text = str(self.content)
        content = text + "\n" if text and not text.endswith("\n") else text or None
        return {"content": content, "access": self.access if content and self.strict else None}

    @property
    def access(self) -> str:
        """Owner, group and mode of a file that is made, such as `slurm:slurm 0600`."""
        return "%s:%s %04o" % (self.owner, self.group, self.mode)

    def actual(self, context: Context) -> State:
        """The lines that are in the block now, and whose the file is; ResourceFailed if markers are damaged."""
        found = replace.find(context.path(self.path))
        access = self.wanted(context)["access"]
        try:
            content = self.marked().content(split_lines(found[1] if found else b"")) or None
        except DamagedBlock as error:
            raise self.damaged(error) from None
        return {"content": content, "access": self.found_access(context, found[0]) if found and access else access}

    def found_access(self, context: Context, status: os.stat_result) -> str:
        """The access of the file as `wanted` has it if it is as good, or as it is."""
        is_owned = status.st_uid == uid_of(context, self.owner)
        if is_owned and not self.mode & ~status.st_mode and not status.st_mode & OTHERS_WRITE:
            return self.access
        return "%(owner)s:%(group)s %(mode)s" % access_of(context, status, self.owner, self.group)

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put the block where the old one was, or at the file's end; ResourceFailed if markers are damaged."""
        path = context.path(self.path)
        found = replace.find(path)
        if found and "access" in differing:
            replace.change_access(path, uid_of(context, self.owner), gid_of(context, self.group), self.mode)
            found = replace.find(path)
        try:
            text = found[1] if found and found[1].strip() else self.first.encode()
            lines = self.marked().replaced(split_lines(text), self.wanted(context)["content"] or "")
        except DamagedBlock as error:
            raise self.damaged(error) from None
        if found:
            status = found[0]  # of the very file that was read; without set-user-ID, which belongs to no text
            replace.put(path, join_lines(lines), status.st_uid, status.st_gid, status.st_mode & 0o777)
        else:
            uid, gid = uid_of(context, self.owner), gid_of(context, self.group)
            replace.put(path, join_lines(lines), uid, gid, self.mode)

    def marked(self) -> MarkedBlock:
        """The marker lines of the block."""
        return MarkedBlock("# BEGIN slurmfab %s" % self.block, "# END slurmfab %s" % self.block)

    def damaged(self, error: DamagedBlock) -> ResourceFailed:
        """The failure to report for damaged markers."""
        marked = self.marked()
        return ResourceFailed(
            "the block %s in %s is damaged: it needs one line '%s' and one line '%s' below it, but the marker lines "
            "are: %s; repair or remove them" % (self.block, self.path, marked.begin, marked.end, error)
        )
