"""A marked block of lines in a file whose other lines belong to others, such as /etc/hosts."""

from __future__ import annotations

import os
from typing import Any, ClassVar, List, Optional, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.record import Record
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import OTHERS_WRITE
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text, gid_of, uid_of


class DamagedBlock(Exception):
    """The marker lines do not enclose one block.

    Attributes:
        numbers: of the marker lines that were found, from 1.
    """

    def __init__(self, numbers: List[int]) -> None:
        super().__init__(", ".join(map(str, numbers)))
        self.numbers = numbers


class MarkedBlock(Record):
    """The marker lines of a block, and how the block is read from lines and put into them.

    White space around a marker line does not matter, so a marker of a file with CR LF is recognized.
    """

    begin: str  # the line before the block
    end: str  # the line after it

    def content(self, lines: List[str]) -> Optional[str]:
        """The text of the block, or `None`; DamagedBlock if a marker is missing, double, or in the wrong order."""
        span = self._span(lines)
        return "".join(lines[span[0] + 1 : span[1]]) if span else None

    def replaced(self, lines: List[str], content: str) -> List[str]:
        """The lines with a new block in place of the old one, or at the end where there is none.

        `lines`: of the file, each with its newline; the last one may lack it. `content`: of the new block, with
        newlines; empty to remove the block. Raises DamagedBlock as for `content`.
        """
        span = self._span(lines)
        new = [self.begin + "\n", content, self.end + "\n"] if content else []
        if span:
            return [*lines[: span[0]], *new, *lines[span[1] + 1 :]]
        if new and lines and not lines[-1].endswith("\n"):
            lines = [*lines[:-1], lines[-1] + "\n"]
        return [*lines, *new]

    def without_markers(self, lines: List[str]) -> List[str]:
        """The lines without any marker line, for a damaged block that is made anew."""
        return [line for line in lines if line.strip() not in (self.begin, self.end)]

    def _span(self, lines: List[str]) -> Optional[Tuple[int, int]]:
        """The indices of both marker lines, `None` where there is no block. Raises DamagedBlock as for `content`."""
        begins = [index for index, line in enumerate(lines) if line.strip() == self.begin]
        ends = [index for index, line in enumerate(lines) if line.strip() == self.end]
        if not begins and not ends:
            return None
        if len(begins) == 1 and len(ends) == 1 and begins[0] < ends[0]:
            return begins[0], ends[0]
        raise DamagedBlock([index + 1 for index in sorted(begins + ends)])


def split_lines(data: bytes) -> List[str]:
    r"""The lines of a file, each with its newline; only `\n` ends a line, as for glibc and sshd, and not `\r`.

    Bytes that are not UTF-8 become surrogates, so that they can be written back unchanged.
    """
    *lines, last = data.decode("utf-8", "surrogateescape").split("\n")
    return [line + "\n" for line in lines] + ([last] if last else [])


def join_lines(lines: List[str]) -> bytes:
    """The bytes of lines that `split_lines` made."""
    return "".join(lines).encode("utf-8", "surrogateescape")


class Block(Resource):
    """Lines between `# BEGIN slurmfab NAME` and `# END slurmfab NAME`; the rest of the file stays byte for byte."""

    kind: ClassVar[str] = "block"
    file_in: ClassVar[str] = "path"
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
    is_found: bool = False  # whether the file is there by others or not at all: it is never made

    def name(self) -> str:
        """The path and the block's name."""
        return "%s#%s" % (self.path, self.block)

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
        if self.is_found and not found:
            return self.wanted(context)
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
        return access_text(context, status, self.owner, self.group)

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
