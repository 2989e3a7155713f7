"""What the NFS server of this host serves, as slurmfab's file says it."""

from __future__ import annotations

from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.mounts import exports_file
from slurmfab.on_hosts.agent.mounts.exports_file import EXPORTS, LOADED, TABLE
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK
from slurmfab.on_hosts.agent.services.service import LOADED as STATE

EXPORTFS = ("exportfs", "-ra")
TOLD = 4  # how many hosts are named


class ExportsLoaded(Resource):
    """The NFS server has loaded slurmfab's present file, and serves nothing of a former one."""

    kind: ClassVar[str] = "exports-loaded"
    UNSHOWN = ("away",)
    # Address and name of each host that may still have former exports mounted: with one, nothing is loaded.
    away: Tuple[Tuple[str, str], ...] = ()

    def name(self) -> str:
        """The same on each host."""
        return "nfs"

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The note of what was loaded."""
        return ()

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """As the file on disk."""
        return {STATE: AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """Whether the file is the one that was loaded, and the server's table has all of it."""
        if EXPORTS in context.touched and context.dry_run:
            return {STATE: "%s before its change" % EXPORTS}
        text = read_text(context.path(EXPORTS))
        table = exports_file.entries(read_text(context.path(TABLE)))
        is_right = text == loaded(context) and not exports_file.missing(exports_file.entries(text), table)
        return {STATE: AS_ON_DISK if is_right else "older"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Let exportfs read all files of exports again, and note what it read.

        Raises:
            ResourceFailed: an entry is not served then, with the words of exportfs.
            LeftAsItWas: a host that is away may have a former export mounted.
        """
        text = read_text(context.path(EXPORTS))
        wanted = exports_file.entries(text)
        names = dict(self.away)
        held = [names[client] for path, client in exports_file.entries(loaded(context)) if client in names
                and (path, client) not in wanted]  # fmt: skip
        if held:
            raise LeftAsItWas(
                "former exports are served until exportfs -ra runs here: %s may have them mounted"
                % ", ".join(dict.fromkeys(held[:TOLD]))
            )
        words = ""
        try:
            words = context.run(EXPORTFS).stderr.decode(errors="replace")
        except ResourceFailed:
            if wanted:
                raise
        lacking = exports_file.missing(wanted, exports_file.entries(read_text(context.path(TABLE))))
        for path, clients in lacking.items():
            last = " | ".join(words.strip().splitlines()[-3:]) or "exportfs left no message"
            raise ResourceFailed("%s is not exported to %s: %s" % (path, ", ".join(clients[:TOLD]), last))
        host_records.write(context, LOADED, {"text": text} if text else {})


def loaded(context: Context) -> str:
    """The text of slurmfab's file that exportfs read last; empty for none."""
    return str(host_records.read(context, LOADED).get("text", ""))
