"""Slurm's files in a directory that the hosts share: each host's links to them, through which its daemons read them."""

from __future__ import annotations

import os
import stat
import time
from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import SITE_FILES
from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_folder, open_parent
from slurmfab.on_hosts.agent.slurm.site_files import recorded, write_record

AS_WANTED = "as in the cluster file"

CACHE_SECONDS = 75.0
"""How long a host may see earlier files: an NFS client trusts its cache of names for up to 60 s (nfs(5), acdirmax)."""

POLL_SECONDS = 0.2


class SharedFiles(Resource):
    """Links of root's to files in a shared directory, which the primary controller writes and every host reads.

    A directory that is itself a link to the shared one is right, too. No link is made before the files that it leads to
    have been read with the wanted content.
    """

    kind: ClassVar[str] = "shared-files"
    named_by: ClassVar[str] = "directory"
    UNSHOWN = ("files",)
    directory: str  # absolute, such as /etc/slurm
    shared: str  # the directory that the hosts share, as an absolute path
    files: Tuple[Tuple[str, str], ...]  # name and content of each file; a name may have a directory
    # Which of these are the site's own: links to them that slurmfab makes are in the record of `SiteFiles`.
    own: Tuple[str, ...] = ()
    writes: bool = False  # whether this host has written the files, so that it need not wait for them

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:
        """The links that differ, or read other files than the wanted ones; and the record of `SiteFiles`."""
        names = [name for name, _ in self.files if {name, name + " content"} & differing]
        record = (SITE_FILES,) if differing & set(self.own) else ()
        return (*("%s/%s" % (self.directory, name) for name in names), *record)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Where each link leads, and that the wanted content is read there."""
        state = {name: "a link to %s/%s" % (self.shared, name) for name, _ in self.files}
        contents = {} if self.writes else {name + " content": AS_WANTED for name, _ in self.files}
        return {**state, **contents}

    def actual(self, context: Context) -> State:
        """The same as found. Raises ResourceFailed if others than root can change the shared directory."""
        self.require_roots(context)
        state: Dict[str, object] = {}
        for name, content in self.files:
            state[name] = self.place(context, name)
            state[name + " content"] = AS_WANTED if self.is_read(context, name, content) else "another"
        return state

    def require_roots(self, context: Context) -> None:
        """Refuse, by ResourceFailed, a shared directory that, or one above, others than root can change."""
        try:
            with open_folder(context.path(self.shared)) as folder:
                who = folder.others
        except FileNotFoundError:
            return
        if who:
            message = "%s can be changed by %s; Slurm's files lie there, so only root may: chown root:root, chmod 755"
            raise ResourceFailed(message % (self.shared, who))

    def place(self, context: Context, name: str) -> object:
        """What a name is, as in `wanted` if it leads to the shared file; `None` if there is nothing."""
        path, there = (context.path("%s/%s" % (one, name)) for one in (self.directory, self.shared))
        target = replace.link_target(path)
        if (target or not os.path.islink(path)) and os.path.realpath(path) == os.path.realpath(there):
            return "a link to %s/%s" % (self.shared, name)
        if target:
            return "a link to %s" % target
        return "a file of its own" if os.path.lexists(path) else None

    def is_read(self, context: Context, name: str, wanted: str) -> bool:
        """Whether the shared file has the wanted content on this host, by itself or with all that it includes."""
        path = context.path("%s/%s" % (self.shared, name))
        try:
            content = replace.read(path)
        except NotADirectoryError:
            return False
        if content is None:
            return False
        if content == wanted.encode("utf-8", "surrogateescape"):
            return True
        everything = whole(path, content)
        return wanted in (everything.decode("utf-8", "surrogateescape"), everything.decode(errors="replace"))

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Wait for the wanted files, then link those that differ; ResourceFailed if it is not shared."""
        if not self.writes:
            self.await_files(context)
        linked = [name for name, _ in self.files if name in differing]
        made = [name for name in linked if name in self.own]
        if made:
            write_record(context, sorted({*recorded(context), *made}))
        for name in linked:
            self.link(context, name)

    def await_files(self, context: Context) -> None:
        """Wait until every file has the wanted content here; ResourceFailed if one differs or is missing."""
        deadline = time.monotonic() + CACHE_SECONDS
        while True:
            wrong = [name for name, content in self.files if not self.is_read(context, name, content)]
            if not wrong:
                return
            is_there = renew_cache(context.path(self.shared))
            if not is_there or time.monotonic() > deadline:
                what = "other files there than the primary controller's: %s" % ", ".join(wrong) if is_there else "none"
                message = "the directory %s is not shared on this host, which has %s. Mount it, as on the controller"
                raise ResourceFailed(message % (self.shared, what))
            context.tell("waiting for the files of %s" % self.shared)
            time.sleep(POLL_SECONDS)

    def link(self, context: Context, name: str) -> None:
        """Put a link in a file's place in one step; ResourceFailed if neither a file nor root's link is there."""
        path = context.path("%s/%s" % (self.directory, name))
        folder, base = open_parent(path, make=True)
        with folder:
            status = folder.find(base)
            if status is not None and not (stat.S_ISLNK(status.st_mode) and not folder.others):
                folder.require_regular(base, status)
            replace.put_link_in(folder, base, context.path("%s/%s" % (self.shared, name)))


def renew_cache(directory: str) -> List[str]:
    """The names in a directory; opening it makes an NFS client ask the server again. Empty if there is none."""
    try:
        with open_folder(directory) as folder:
            return folder.names()
    except (FileNotFoundError, NotADirectoryError):
        return []
