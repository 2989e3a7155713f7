"""NFS exports: the lines of exports(5), what the kernel serves, and the resources that set both."""

from __future__ import annotations

import os
import re
import stat
from typing import ClassVar, Dict, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.core.reading import read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_folder
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK
from slurmfab.on_hosts.agent.services.service import LOADED as STATE

OF = "exports"  # the capability's name in the records of files

EXPORTS = "/etc/exports.d/slurmfab.exports"
"""exportfs(8) reads all files of this directory with this ending, beside /etc/exports."""

SETTINGS = "/etc/nfs.conf.d/slurmfab.conf"
LOADED_OF = "exports-loaded"
LOADED = "%s/%s.json" % (OWNED, LOADED_OF)
"""What exportfs has loaded from slurmfab's file; facts of the host have it among `owned` until that is nothing."""

TABLE = "/var/lib/nfs/etab"  # the NFS server's table of exports (exportfs(8))

LINE = re.compile(r"^(/\S+)\s+(\S+?)\(([^()\s]*)\)$", re.MULTILINE)
"""A line of exports(5), or of the table: directory, client and options."""

ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]+")

Entry = Tuple[str, str]  # a directory and a client: an address, or a name that the server resolves


def exports_entries(text: str) -> Dict[Entry, str]:
    """The options of all entries in a file or the table, by directory and client."""
    return {(path, client): options for path, client, options in LINE.findall(text)}


def exports_missing(wanted: Mapping[Entry, str], table: Mapping[Entry, str]) -> Dict[str, List[str]]:
    """The clients that a table lacks, by directory; of a client that is a name, the table has another spelling."""
    served = {path for path, _ in table}
    lacking: Dict[str, List[str]] = {}
    for path, client in wanted:
        is_there = (path, client) in table if ADDRESS.fullmatch(client) else path in served
        if not is_there:
            lacking.setdefault(path, []).append(client)
    return lacking


EXPORTFS = ("exportfs", "-ra")
LOADED_TOLD = 4  # how many hosts are named


class ExportsLoaded(Resource):
    """The NFS server has loaded slurmfab's present file, and serves nothing of a former one."""

    kind: ClassVar[str] = "exports-loaded"
    only_name: ClassVar[str] = "nfs"
    wanted_state: ClassVar[State] = {STATE: AS_ON_DISK}
    UNSHOWN = ("away",)
    # Address and name of each host that may still have former exports mounted: with one, nothing is loaded.
    away: Tuple[Tuple[str, str], ...] = ()

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The note of what was loaded."""
        return ()

    def actual(self, context: Context) -> State:
        """Whether the file is the one that was loaded, and the server's table has all of it."""
        if EXPORTS in context.touched and context.dry_run:
            return {STATE: "%s before its change" % EXPORTS}
        text = read_text(context.path(EXPORTS))
        table = exports_entries(read_text(context.path(TABLE)))
        is_right = text == loaded(context) and not exports_missing(exports_entries(text), table)
        return {STATE: AS_ON_DISK if is_right else "older"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Let exportfs read all again, and note what it read; ResourceFailed of it, LeftAsItWas of silent hosts."""
        text = read_text(context.path(EXPORTS))
        wanted = exports_entries(text)
        names = dict(self.away)
        held = [names[client] for path, client in exports_entries(loaded(context)) if client in names
                and (path, client) not in wanted]  # fmt: skip
        if held:
            raise LeftAsItWas(
                "former exports are served until exportfs -ra runs here: %s may have them mounted"
                % ", ".join(dict.fromkeys(held[:LOADED_TOLD]))
            )
        words = ""
        try:
            words = context.run(EXPORTFS).stderr.decode(errors="replace")
        except ResourceFailed:
            if wanted:
                raise
        lacking = exports_missing(wanted, exports_entries(read_text(context.path(TABLE))))
        for path, clients in lacking.items():
            last = " | ".join(words.strip().splitlines()[-3:]) or "exportfs left no message"
            raise ResourceFailed("%s is not exported to %s: %s" % (path, ", ".join(clients[:LOADED_TOLD]), last))
        host_records.write(context, LOADED, {"text": text} if text else {})


def loaded(context: Context) -> str:
    """The text of slurmfab's file that exportfs read last; empty for none."""
    return str(host_records.read(context, LOADED).get("text", ""))


HEAD = "# Made by slurmfab from the cluster file; edits here are overwritten.\n"
DIRECTORY = "directory "
MODULE_LISTS = ("modules.dep", "modules.builtin")
FILES_TOLD = 4  # how many hosts are named


class ExportFiles(Resource):
    """The exported directories, and the files of the NFS server for them; the server loads them afterwards.

    An entry that the cluster file no longer has goes in a later phase than others come, once the hosts have unmounted
    it. One for a host that had no part in the run stays: its mount would hang, and jobs with it.
    """

    kind: ClassVar[str] = "export-files"
    UNSHOWN = ("exports", "settings", "away")
    directories: Tuple[str, ...]  # made if they are missing; what exists is not changed
    exports: Tuple[Tuple[str, str, str], ...]  # directory, client and options of each entry
    settings: str = ""  # text of the server's own settings; empty for none
    drops: bool = False  # whether former entries go now
    away: Tuple[Tuple[str, str], ...] = ()  # address and name of each host that may still have former ones mounted

    def name(self) -> str:
        """The same on each host, besides the phase."""
        return "former" if self.drops else "nfs"

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:
        """The files that differ."""
        return OwnedFiles(OF, ()).touches(frozenset(one for one in differing if not one.startswith(DIRECTORY)))

    def wanted(self, context: Context) -> State:
        """The directories, and the files with their record."""
        return {**self.files(context).wanted(context), **{DIRECTORY + path: "there" for path in self.directories}}

    def actual(self, context: Context) -> State:
        """The same as found; ResourceFailed if the kernel cannot serve NFS, or a path is no directory."""
        if self.exports and not has_server(context):
            raise ResourceFailed(
                "the kernel of this host (%s) has no NFS server: it neither has nfsd nor a module of that name. "
                "Install a kernel that does, or name another host in exports" % os.uname().release
            )
        former = [entry for entry in self.entries(context) if entry not in self.own()]
        if self.drops and former:
            context.remark = self.held(former)
        there = {DIRECTORY + path: "there" for path in self.directories if is_directory(context.path(path))}
        return {**self.files(context).actual(context), **there}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make the directories, and write the files."""
        for path in self.directories:
            if DIRECTORY + path in differing:
                open_folder(context.path(path), make=True).close()
        others = frozenset(one for one in differing if not one.startswith(DIRECTORY))
        if others:
            self.files(context).converge(context, others)

    def own(self) -> Dict[Entry, str]:
        """The wanted entries."""
        return {(path, client): options for path, client, options in self.exports}

    def entries(self, context: Context) -> Dict[Entry, str]:
        """The wanted entries, and the former ones that stay."""
        away, own = {address for address, _ in self.away}, self.own()
        present = exports_entries(read_text(context.path(EXPORTS)))
        stay = {one: text for one, text in present.items() if one not in own and (not self.drops or one[1] in away)}
        return {**own, **stay}

    def files(self, context: Context) -> OwnedFiles:
        """The files, as they are to be."""
        entries = self.entries(context)
        if not entries:
            return OwnedFiles(OF, ())
        text = HEAD + "".join("%s %s(%s)\n" % (path, client, text) for (path, client), text in entries.items())
        settings = self.settings or read_text(context.path(SETTINGS))
        more = (OwnedFile(SETTINGS, settings.rstrip("\n") + "\n"),) if settings else ()
        return OwnedFiles(OF, (OwnedFile(EXPORTS, text), *more))

    def held(self, former: List[Entry]) -> str:
        """The remark about former entries that stay."""
        names = dict(self.away)
        hosts = list(dict.fromkeys(names.get(client, client) for _, client in former))
        paths = list(dict.fromkeys(path for path, _ in former))
        return "%s %s exported to %s, which may have it mounted. Deploy again with %s" % (
            ", ".join(paths), "stays" if len(paths) == 1 else "stay", listed(hosts, FILES_TOLD),
            "it" if len(hosts) == 1 else "them"
        )  # fmt: skip


def has_server(context: Context) -> bool:
    """Whether the kernel has an NFS server, or a module for it."""
    if "nfsd" in read_bytes(context.path("/proc/filesystems")).decode(errors="replace").split():
        return True
    modules = context.path("/lib/modules/%s" % os.uname().release)
    return any(b"/nfsd.ko" in read_bytes("%s/%s" % (modules, name)) for name in MODULE_LISTS)


def is_directory(path: str) -> bool:
    """Whether a directory is there. Raises ResourceFailed if something else is."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        raise ResourceFailed("%s is no directory; move it away, or export another path" % path)
    return True
