"""Directories that this host serves to other hosts of the cluster by NFS, and the file that says to which."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core.reading import read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_folder
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.mounts import exports_file
from slurmfab.on_hosts.agent.mounts.exports_file import EXPORTS, OF, SETTINGS, Entry

HEAD = "# Made by slurmfab from the cluster file; edits here are overwritten.\n"
DIRECTORY = "directory "
MODULE_LISTS = ("modules.dep", "modules.builtin")
TOLD = 4  # how many hosts are named


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
        present = exports_file.written(context)
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
        told = ", ".join(hosts[:TOLD]) + (" and %d more" % (len(hosts) - TOLD) if len(hosts) > TOLD else "")
        paths = list(dict.fromkeys(path for path, _ in former))
        return "%s %s exported to %s, which may have it mounted. Deploy again with %s" % (
            ", ".join(paths), "stays" if len(paths) == 1 else "stay", told, "it" if len(hosts) == 1 else "them"
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
