"""A marked block of lines in a file whose other lines belong to others, such as /etc/hosts."""

from __future__ import annotations

from typing import Any, ClassVar, List

from slurmfab.agent.core import replace
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.files.marked_block import DamagedBlock, MarkedBlock, join_lines, split_lines
from slurmfab.agent.identities.users_and_groups import gid_of, uid_of


class Block(Resource):
    """Lines between `# BEGIN slurmfab NAME` and `# END slurmfab NAME`; the rest of the file stays byte for byte.

    Args:
        path: absolute path of the file.
        block: the NAME.
        content: the lines; empty to remove the block.
        owner: user name for a file that has to be made; an existing file keeps its owner.
        group: group name, likewise.
        mode: permission bits, likewise.
    """

    kind: ClassVar[str] = "block"
    path: str
    block: str
    content: Any
    owner: str = "root"
    group: str = "root"
    mode: int = 0o644

    def name(self) -> str:
        """The path and the block's name."""
        return "%s#%s" % (self.path, self.block)

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:  # noqa: ARG002
        """The file."""
        return (self.path,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The lines, each with a newline."""
        text = str(self.content)
        return {"content": text + "\n" if text and not text.endswith("\n") else text or None}

    def actual(self, context: Context) -> State:
        """The lines that are in the block now.

        Raises:
            ResourceFailed: the markers are damaged.
        """
        try:
            return {"content": self.marked().content(self.lines(context)) or None}
        except DamagedBlock as error:
            raise self.damaged(error) from None

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Put the block where the old one was, or at the end of the file.

        Raises:
            ResourceFailed: the markers are damaged.
        """
        path = context.path(self.path)
        found = replace.find(path)
        try:
            lines = self.marked().replaced(
                split_lines(found[1] if found else b""), self.wanted(context)["content"] or ""
            )
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

    def lines(self, context: Context) -> List[str]:
        """The lines of the file, each with its newline; none where there is no file."""
        return split_lines(replace.read(context.path(self.path)) or b"")

    def damaged(self, error: DamagedBlock) -> ResourceFailed:
        """The failure to report for damaged markers."""
        marked = self.marked()
        return ResourceFailed(
            "the block %s in %s is damaged: it needs one line '%s' and one line '%s' below it, but the marker lines "
            "are: %s; repair or remove them" % (self.block, self.path, marked.begin, marked.end, error)
        )
