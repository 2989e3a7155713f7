"""A directory that holds only scripts of slurmfab, such as those that slurmd runs before each job."""

from __future__ import annotations

import stat
from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State
from slurmfab.on_hosts.agent.core.safe_paths import make_itself, open_itself, open_parent
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text, gid_of, uid_of

ACCESS = "root:root 0755"
DIRECTORY = "the directory"
OTHER = "something else"  # the content that reports show for a symbolic link, a directory or a device


class Scripts(Resource):
    """A directory with these scripts alone, root's and readable by all, each replaced in one step; or none."""

    kind: ClassVar[str] = "scripts"
    named_by: ClassVar[str] = "path"
    UNSHOWN = ("files",)
    path: str  # absolute path of the directory; other files in it are removed
    files: Tuple[Tuple[str, str], ...]  # name and text of each script

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The scripts that differ, including those to remove."""
        scripts = sorted({name.removesuffix(" access") for name in differing} - {DIRECTORY})
        return tuple("%s/%s" % (self.path, name) for name in scripts)

    def labelled(self, context: Context) -> tuple[str, ...]:
        """The directory and its scripts."""
        return (self.path, *super().labelled(context))

    def wanted(self, context: Context) -> State:
        """Text and access of each script, and of the directory; `None` for other files in it."""
        folder = open_itself(context.path(self.path))
        state: Dict[str, object] = {}
        if folder is not None:
            with folder:
                state.update(dict.fromkeys(folder.names()))
        state.update(self.files)
        state.update({name + " access": ACCESS for name, _ in self.files})
        return {**state, DIRECTORY: ACCESS if self.files else None}

    def actual(self, context: Context) -> State:
        """The same of the files on the host; ResourceFailed if the path is there and no directory."""
        state: Dict[str, object] = {name + " access": ACCESS for name, _ in self.files}
        folder = open_itself(context.path(self.path))
        if folder is None:
            return {**state, DIRECTORY: None}
        with folder:
            for name in folder.names():
                status = folder.find(name)
                found = folder.read(name) if status is not None and stat.S_ISREG(status.st_mode) else None
                if found is None or replace.has_other_names(folder, found[0]):
                    state[name] = OTHER
                    continue
                state[name] = found[1].decode("utf-8", "surrogateescape")
                state[name + " access"] = access_text(context, found[0], "root", "root")
            return {**state, DIRECTORY: access_text(context, folder.status, "root", "root")}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write the scripts, and remove all other files; ResourceFailed if the path is no directory."""
        path, wanted = context.path(self.path), dict(self.files)
        if not wanted:
            parent, name = open_parent(path)
            with parent:
                parent.remove(name)
            return
        folder = make_itself(path)
        uid, gid = uid_of(context, "root"), gid_of(context, "root")
        with folder:
            folder.set_access(uid, gid, 0o755)
            for name in set(folder.names()) - set(wanted):
                folder.remove(name)
            for name, text in wanted.items():
                if name in differing:
                    status = folder.find(name)
                    if status is not None and not stat.S_ISREG(status.st_mode):
                        folder.remove(name)
                    replace.put_in(folder, name, text.encode("utf-8", "surrogateescape"), (uid, gid, 0o755))
                elif name + " access" in differing:
                    replace.change_access_in(folder, name, (uid, gid, 0o755))
