"""A block of lines between two marker lines, in a file whose other lines belong to others."""

from __future__ import annotations

from typing import List, Optional, Tuple

from slurmfab.on_hosts.agent.core.record import Record


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
