"""A directory."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import ClassVar, List, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, is_roots, open_folder, open_parent, refuse_others, user
from slurmfab.on_hosts.agent.identities.users_and_groups import access_of, find_user, gid_of, uid_of
from slurmfab.on_hosts.agent.identities.ways import closed_ways, open_ways

ANYTHING = "*"
"""As a mark: the path is used for one purpose only, so a directory there is the right one whatever is in it."""

OPEN = 0o755
"""The mode of a new directory in which another use has its place."""

OF_FILE_SYSTEM = ("lost+found",)  # names in a file system without files (mke2fs(8))


class Directory(Resource):
    """A directory with this owner, group and mode; its content is not compared.

    A symbolic link of root to a directory counts as a directory, because spool directories are often moved to larger
    disks; a link that another user made or can change is refused.

    An existing directory with another owner, group or mode is changed only if it is empty, belongs to the wanted owner
    already, or contains one of the marks; otherwise it is somebody else's and refused.
    """

    kind: ClassVar[str] = "directory"
    named_by: ClassVar[str] = "path"
    path: str  # absolute path; missing directories above it are made with owner root and mode 0755
    owner: str = "root"
    group: str = "root"
    mode: int = 0o755
    # Patterns (fnmatch) of names of files; one of these files shows that the directory is the expected one.
    marks: Tuple[str, ...] = (ANYTHING,)
    kept: bool = False  # whether an existing directory is right as it is, whoever it belongs to
    # Whether nobody but root may be able to put another directory in its place, or in that of one above.
    alone: bool = False
    # Whether root works there, so that no other user may put another directory in its place, or have put links in it;
    # what only other owners and modes would allow is mended.
    for_root: bool = False
    # The key that names it, and other uses, as key and path. Where it is the place of one of them, or contains it, an
    # existing directory is right as it is: its owner and mode may be what that use needs.
    key: str = ""
    used: Tuple[Tuple[str, str], ...] = ()

    def labelled(self, context: Context) -> Tuple[str, ...]:  # noqa: ARG002
        """The directory, unless it is right as it is."""
        return () if self.kept else (self.path,)

    def folders(self) -> Tuple[str, ...]:
        """The directory itself."""
        return (self.path,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Owner, group and mode, and no directory above that keeps the owner out."""
        way = {} if self.owner == "root" and not self.for_root else {"way": None}
        return {"owner": self.owner, "group": self.group, "mode": "%04o" % self.mode, **way}

    def actual(self, context: Context) -> State:
        """Owner, group and mode of the directory on the host, and what keeps its owner out; empty where there is none.

        Raises ResourceFailed if the path is not a directory, leads through a link of another user, or is somebody
        else's; or another user than root can put another one in its place, which is refused with `alone`.
        """
        if self.alone:
            refuse_others(context.path(self.path))
        folder = self.found(context)
        if folder is None:
            return {}
        with folder:
            if self.kept:
                return self.wanted(context)
            if keys := self.other_keys(context):
                context.remark = "%s stays as it is (%s): %s and %s share it, and would exclude each other" % (
                    self.path, ownership(folder), self.key, listed(keys, 3)
                )  # fmt: skip
                return self.wanted(context)
            found = access_of(context, folder.status, self.owner, self.group)
            self.refuse_foreign(context, folder, found)
            self.refuse_planted(folder)
            way = intruded(folder) if self.for_root else closed_ways(context, self.path, self.owner)
            return {**found, "way": way or None}

    def other_keys(self, context: Context) -> List[str]:
        """The keys of other uses that have their place here, also by a link."""
        here = os.path.realpath(context.path(self.path))
        real = ((key, os.path.realpath(context.path(path))) for key, path in self.used)
        return list(dict.fromkeys(key for key, path in real if (path + "/").startswith(here + "/")))

    def found(self, context: Context) -> Optional[Folder]:
        """The directory, open; `None` where there is none. Raises ResourceFailed as for `actual`."""
        path = context.path(self.path)
        try:
            return open_folder(path)
        except FileNotFoundError:
            if not is_there(path):
                return None
        except NotADirectoryError:
            pass
        raise ResourceFailed("%s is not a directory; move it away if a directory may take its place" % path)

    def refuse_foreign(self, context: Context, folder: Folder, found: Mapping[str, str]) -> None:
        """Refuse to change somebody else's directory: ResourceFailed with its content, and what to do."""
        wanted = self.wanted(context)
        if all(found[name] == wanted[name] for name in found) or (
            self.owner != "root" and found["owner"] == self.owner
        ):
            return
        # Root's directories are given away only if their path or a file shows that they are meant.
        is_dedicated = ANYTHING in self.marks and (self.owner == "root" or not folder.others)
        names = [name for name in folder.names() if name not in OF_FILE_SYSTEM]
        marks = [mark for mark in self.marks if mark != ANYTHING]
        user = find_user(context, self.owner)
        if not names or is_dedicated or folder.has_mark(marks, user.pw_uid if user else 0):
            return
        raise ResourceFailed(
            "%s seems to be in use for something else: it is %s:%s %s and contains %s. It would become %s:%s %04o, so "
            "it is left as it is. Name another directory in the cluster file; or, if it is the right one, change it "
            "yourself: chown %s:%s %s && chmod %04o %s"
            % (folder.path, found["owner"], found["group"], found["mode"], listed(map(printable, names), 3),
               self.owner, self.group, self.mode, self.owner, self.group, folder.path, self.mode, folder.path)
        )  # fmt: skip

    def refuse_planted(self, folder: Folder) -> None:
        """Refuse root's directory with something of another user's that may lead elsewhere, by ResourceFailed."""
        found = planted(folder) if self.for_root else ""
        if found:
            raise ResourceFailed(
                "%s leads elsewhere, and root works in %s. See who made it and why, it may be an attack; then remove it"
                % (found, self.path)
            )

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Make the directory, or set its access and way; ResourceFailed without the owner, or if another's."""
        uid, gid = uid_of(context, self.owner), gid_of(context, self.group)
        if self.alone:
            refuse_others(context.path(self.path))
        with open_folder(context.path(self.path), make=True) as folder:
            # Compared again, because another user may have put another directory there meanwhile.
            self.refuse_foreign(context, folder, access_of(context, folder.status, self.owner, self.group))
            folder.set_access(uid, gid, OPEN if self.other_keys(context) else self.mode)
            # Looked at once more, because until now another user could put something there.
            self.refuse_planted(folder)
            if self.for_root and folder.intruder:
                raise ResourceFailed("%s; take that right away: %s" % (intruded(folder), folder.remedy))
        if self.owner != "root":
            open_ways(context, self.path, self.owner)


def ownership(folder: Folder) -> str:
    """Owner and mode, such as `of slurm, mode 0755`."""
    return "of %s, mode %04o" % (user(folder.status.st_uid), stat.S_IMODE(folder.status.st_mode))


def intruded(folder: Folder) -> str:
    """Who can put another directory in the place of one; empty if only root can."""
    return "%s can put another directory in the place of %s" % (folder.intruder, folder.path) if folder.intruder else ""


def planted(folder: Folder, *, inside: bool = True) -> str:
    """The first name in a directory by which root, who works there, is led to another file; empty for none.

    What another user has made counts also where only root can change names by now: the directory may have been theirs.
    `inside`: whether directories of other users in it are looked at, too; users have theirs in slurmd's.
    """
    for name in folder.names():
        status = folder.find(name)
        if status is None:
            continue
        is_link = stat.S_ISLNK(status.st_mode) and (folder.others or not is_roots(status))
        if is_link or (stat.S_ISREG(status.st_mode) and status.st_nlink > 1):
            return folder.place(name)
        if inside and stat.S_ISDIR(status.st_mode) and folder.others and user(status.st_uid) == folder.others:
            found = ""
            with suppress(FileNotFoundError), folder.enter(name) as inner:  # of a job that has ended meanwhile
                found = planted(inner, inside=False)
            if found:
                return found
    return ""


def is_there(path: str) -> bool:
    """Whether a path has a name, such as that of a link to nowhere."""
    try:
        folder, name = open_parent(path)
    except FileNotFoundError:
        return False
    with folder:
        return folder.find(name) is not None


def printable(name: str) -> str:
    """The name of a file, which may have any bytes, in ASCII."""
    return os.fsencode(name).decode("ascii", "backslashreplace")
