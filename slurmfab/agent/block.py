"""A marked block of lines in a file whose rest belongs to others."""

from __future__ import annotations

from typing import Any, ClassVar, List, Optional, Tuple

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, uid_of
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State


class Block(Resource):
    """Lines between `# BEGIN slurmfab NAME` and `# END slurmfab NAME`; the rest of the file stays byte for byte.

    Args:
        path: absolute.
        block: the NAME.
        content: the lines; when empty, the block goes.
        owner: user name for a file that has to be made; one that is there keeps its own.
        group: likewise.
        mode: likewise.
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
        """The lines, each with its end."""
        return {"content": "".join(line + "\n" for line in self.content.splitlines()) or None}

    def actual(self, context: Context) -> State:
        """The lines that are in the block now.

        Raises:
            ResourceFailed: the markers are damaged.
        """
        lines = self.lines(context)
        span = self.find(lines)
        return {"content": "".join(lines[span[0] + 1 : span[1]]) or None if span else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Put the block where it was, or at the end of the file."""
        path = context.path(self.path)
        lines, status = self.lines(context), replace.regular(path)
        content = self.wanted(context)["content"]
        new = [self.marker("BEGIN") + "\n", content, self.marker("END") + "\n"] if content else []
        span = self.find(lines)
        if span:
            lines[span[0] : span[1] + 1] = new
        else:
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            lines += new
        data = "".join(lines).encode("utf-8", "surrogateescape")
        if status:
            replace.put(path, data, status.st_uid, status.st_gid, status.st_mode & 0o7777)
        else:
            replace.put(path, data, uid_of(context, self.owner), gid_of(context, self.group), self.mode)

    def marker(self, which: str) -> str:
        """The line before (`BEGIN`) or after (`END`) the block."""
        return "# %s slurmfab %s" % (which, self.block)

    def lines(self, context: Context) -> List[str]:
        """The lines of the file with their ends; only newlines end one."""
        data = replace.read(context.path(self.path)) or b""
        return [line.decode("utf-8", "surrogateescape") for line in data.splitlines(keepends=True)]

    def find(self, lines: List[str]) -> Optional[Tuple[int, int]]:
        """The places of both markers, `None` when there is no block.

        Raises:
            ResourceFailed: one is missing, they are in the wrong order, or there is a second block.
        """
        begins = [place for place, line in enumerate(lines) if line.strip() == self.marker("BEGIN")]
        ends = [place for place, line in enumerate(lines) if line.strip() == self.marker("END")]
        if not begins and not ends:
            return None
        if len(begins) == 1 and len(ends) == 1 and begins[0] < ends[0]:
            return begins[0], ends[0]
        where = ", ".join("%d" % (place + 1) for place in sorted(begins + ends))
        raise ResourceFailed(
            "the block %s in %s is damaged: it needs one line '%s' and after it one line '%s', but such lines are: %s; "
            "mend or remove them" % (self.block, self.path, self.marker("BEGIN"), self.marker("END"), where)
        )
