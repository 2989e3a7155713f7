"""Files of the site's own in Slurm's directory: as in the cluster file, and taken away once they are not in it."""

from __future__ import annotations

import os
import stat
from typing import ClassVar, Dict, List, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import SITE_FILES
from slurmfab.on_hosts.agent.core.reading import read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.core.safe_paths import open_parent, remove_empty
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text
from slurmfab.on_hosts.agent.slurm.files import is_safe

RECORD = "the record of slurmfab's files"  # the name in a state for the names in `SITE_FILES`

SLURM_CONF = "slurm.conf"


class SiteFiles(Resource):
    """These files in Slurm's directory, owned by root; and others that slurmfab has written there no more.

    A file that was made by hand is right with the same content, if only root and slurm can change it. slurmfab keeps a
    record of the files that it has written, because only these are taken away.
    """

    kind: ClassVar[str] = "site-files"
    UNSHOWN = ("files",)
    directory: str  # absolute, such as /etc/slurm
    # Name, content (bytes that are not UTF-8 as surrogates) and mode of each; a name may have a directory.
    files: Tuple[Tuple[str, str, int], ...]
    gone: Tuple[str, ...] = ()  # names of files to take away
    # Whether a daemon has read one of `gone`: slurm.conf then counts as changed, so that daemons read anew.
    renews: bool = False

    def name(self) -> str:
        """The directory, and whether files are written or taken away."""
        return self.directory if self.files else "%s without former files" % self.directory

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ, the record, and slurm.conf if its time changes."""
        bare = {name.removesuffix(" access") for name in differing}
        names = [name for name in (*(name for name, _, _ in self.files), *self.gone) if name in bare]
        names += [SLURM_CONF] if self.renews and bare & set(self.gone) else []
        return (*("%s/%s" % (self.directory, name) for name in names), *((SITE_FILES,) if RECORD in differing else ()))

    def removes(self, context: Context) -> Tuple[str, ...]:  # noqa: ARG002
        """Those to take away."""
        return tuple("%s/%s" % (self.directory, name) for name in self.gone)

    def wanted(self, context: Context) -> State:
        """Content and access of each file, none of those to take away, and a record of what slurmfab wrote."""
        state: Dict[str, object] = dict.fromkeys(self.gone)
        for name, content, mode in self.files:
            state.update({name: content, name + " access": "root:root %04o" % mode})
        return {**state, RECORD: " ".join(self.record(context)) or None}

    def record(self, context: Context) -> List[str]:
        """The names that the record has to have: those of files that were not made by hand."""
        before = set(recorded(context)) - set(self.gone)
        return sorted(before | {name for name, _, _ in self.files if not self.is_right(context, name)})

    def is_right(self, context: Context, name: str) -> bool:
        """Whether a file that slurmfab has not written is right as it is."""
        if name in recorded(context):
            return False
        content, mode = {one: (content, mode) for one, content, mode in self.files}[name]
        path = context.path("%s/%s" % (self.directory, name))
        if replace.link_target(path):
            return read_bytes(path) == content.encode("utf-8", "surrogateescape")
        found = replace.find(path)
        if found is None or found[1] != content.encode("utf-8", "surrogateescape"):
            return False
        return is_safe(context, found[0], mode)

    def actual(self, context: Context) -> State:
        """The same as found; a file that was made by hand and is right counts as wanted."""
        state: Dict[str, object] = {RECORD: " ".join(sorted(recorded(context))) or None}
        for name, content, mode in self.files:
            if self.is_right(context, name):
                state.update({name: content, name + " access": "root:root %04o" % mode})
            else:
                state.update(self.found(context, name, mode))
        for name in self.gone:
            if self.status(context, name) is not None:
                state[name] = "present"
        return state

    def found(self, context: Context, name: str, mode: int) -> State:
        """Content and access of a file; a missing file is one difference, not two."""
        path = context.path("%s/%s" % (self.directory, name))
        target = replace.link_target(path)
        if target:
            return {name: "a link to %s" % target}
        found = replace.find(path)
        if found is None:
            return {name + " access": "root:root %04o" % mode}
        status, content = found
        access = access_text(context, status, "root", "root")
        return {name: content.decode("utf-8", "surrogateescape"), name + " access": access}

    def status(self, context: Context, name: str) -> object:
        """The status of a file or link; `None` if there is none."""
        try:
            folder, base = open_parent(context.path("%s/%s" % (self.directory, name)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        with folder:
            return folder.find(base)

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write what differs, remove what is to go, and keep the record; ResourceFailed if a place has no file."""
        record = self.record(context)
        for name, content, mode in self.files:
            path = context.path("%s/%s" % (self.directory, name))
            if name in differing:
                self.put(path, content.encode("utf-8", "surrogateescape"), mode)
            elif name + " access" in differing:
                replace.change_access(path, 0, 0, mode)
        for name in self.gone:
            if name in differing:
                self.take_away(context, name)
        if RECORD in differing:
            write_record(context, record)
        if self.renews and differing & set(self.gone):
            self.renew(context)

    def renew(self, context: Context) -> None:
        """Give slurm.conf a new change time (ctime), by which daemons count as started before its change."""
        folder, name = open_parent(context.path("%s/%s" % (self.directory, SLURM_CONF)))
        with folder:
            status = folder.find(name)
            if status is not None and stat.S_ISREG(status.st_mode):
                os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=folder.descriptor)

    def put(self, path: str, content: bytes, mode: int) -> None:
        """Write a file in one step, with its directory, for a link of root's; ResourceFailed if no file is there."""
        folder, name = open_parent(path, make=True)
        with folder:
            status = folder.find(name)
            if status is not None and not (stat.S_ISLNK(status.st_mode) and replace.link_target(path)):
                folder.require_regular(name, status)
            replace.put_in(folder, name, content, (0, 0, mode))

    def take_away(self, context: Context, name: str) -> None:
        """Remove a file, and its directory if nothing is left in it."""
        replace.unlink(context.path("%s/%s" % (self.directory, name)))
        below = os.path.dirname(name)
        if below:
            remove_empty(context.path("%s/%s" % (self.directory, below)))


def recorded(context: Context) -> List[str]:
    """The names in the record."""
    return read_text(context.path(SITE_FILES)).split()


def write_record(context: Context, names: List[str]) -> None:
    """Write the record, or remove an empty one."""
    path = context.path(SITE_FILES)
    if not names:
        replace.unlink(path)
        return
    replace.put(path, "".join("%s\n" % one for one in names).encode(), 0, 0, 0o644, make=True)
