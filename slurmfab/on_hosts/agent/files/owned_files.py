"""Files that a host has for one capability of the cluster file, such as mounts; all are taken back with it."""

from __future__ import annotations

import binascii
import os
from typing import Any, ClassVar, Dict, List, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.core import host_records, replace
from slurmfab.on_hosts.agent.core.host_paths import OWNED
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import remove_empty
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text, gid_of, uid_of

RECORD = "the record of slurmfab's files"  # the name in a state for the paths in the capability's record

ACCESS = " access"
OURS, EARLIER = "slurmfab's file", "the file before slurmfab's"
MOST_BYTES = 1 << 20  # the most bytes of a file of somebody else that are kept until slurmfab's goes


class OwnedFile(NamedTuple):
    """A file for a capability; its directory is made if it is missing."""

    path: str  # absolute path
    text: str  # its whole content; bytes that are not UTF-8 are surrogates
    mode: int = 0o644
    owner: str = "root"  # name of its user, who exists
    group: str = "root"  # name of its group, which exists
    secret: bool = False  # whether no report, log or error may show the text

    @property
    def access(self) -> str:
        """Owner, group and mode, as in a state."""
        return "%s:%s %04o" % (self.owner, self.group, self.mode)


class OwnedFiles(Resource):
    """The files of one capability, and none that an earlier cluster file had for it.

    A file that was there before slurmfab's is kept in the record, and is put back when slurmfab's goes. Directories
    that slurmfab made go when they are empty.
    """

    kind: ClassVar[str] = "owned-files"
    named_by: ClassVar[str] = "of"
    besides: ClassVar[State] = {}  # what is wanted besides the files, such as that a daemon has loaded them
    UNSHOWN: ClassVar[Tuple[str, ...]] = ("files",)
    of: str  # the capability, such as `mounts`: lower-case letters and hyphens
    files: Tuple[Tuple[str, str, int, str, str, bool], ...]  # the values of an `OwnedFile` each; empty to take all back

    @property
    def record_path(self) -> str:
        """Path of the record, which only root can read."""
        return "%s/%s.json" % (OWNED, self.of)

    def by_path(self) -> Dict[str, OwnedFile]:
        """The wanted files by path."""
        return {one[0]: OwnedFile(*one) for one in self.files}

    def secrets(self) -> frozenset[str]:
        """The texts that no report may show."""
        return frozenset(path for path, one in self.by_path().items() if one.secret)

    def holds_secret(self, path: str) -> bool:
        """Whether it is a secret file, the record, or a file of which only the host knows."""
        return path in self.secrets() or path not in self.by_path()

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ, and the record."""
        paths = dict.fromkeys(sorted(name.removesuffix(ACCESS) for name in differing - {RECORD} - self.besides.keys()))
        return (*paths, *((self.record_path,) if RECORD in differing else ()))

    def removes(self, context: Context) -> Tuple[str, ...]:
        """The former files that took no other's place."""
        return tuple(path for path, value in self.wanted(context).items() if value is None)

    def wanted(self, context: Context) -> State:
        """Content and access of each file, what is to be in the place of a former one, and a record of the paths."""
        record = read_record(context, self.record_path)
        state: Dict[str, Any] = {
            path: EARLIER if before else None for path, before in record.files.items() if path not in self.by_path()
        }
        for path, one in self.by_path().items():
            state.update({path: one.text, path + ACCESS: one.access})
        return {**state, RECORD: paths_text(self.by_path()), **self.besides}

    def actual(self, context: Context) -> State:
        """The same as found."""
        record = read_record(context, self.record_path)
        state: Dict[str, Any] = {RECORD: paths_text(record.files)}
        for path in record.files:
            if path not in self.by_path():
                state[path] = OURS
        for one in self.by_path().values():
            state.update(actual_file(context, one))
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Note what was there, write what differs, remove the former; ResourceFailed of places and owners."""
        record = read_record(context, self.record_path)
        for path in self.by_path():
            record.note(context, path)
        write_record(context, self.record_path, record)
        for path, one in self.by_path().items():
            if {path, path + ACCESS} & differing:
                data = one.text.encode("utf-8", "surrogateescape")
                account = uid_of(context, one.owner), gid_of(context, one.group)
                replace.put(context.path(path), data, *account, one.mode, make=True)
        for path in [path for path in record.files if path not in self.by_path()]:
            give_back(context, path, record.files.pop(path))
        record.directories[:] = [one for one in record.directories if not is_removed(context, one)]
        write_record(context, self.record_path, record)


class Before(NamedTuple):
    """A file of somebody else that had the path of one of slurmfab's: its content, UID, GID and permission bits."""

    content: bytes
    uid: int
    gid: int
    mode: int


class FileRecord:
    """What slurmfab wrote for a capability: files with what was before, and directories it made, inner first."""

    def __init__(self, files: Dict[str, Optional[Before]], directories: List[str]) -> None:
        self.files = files
        self.directories = directories

    def note(self, context: Context, path: str) -> None:
        """Note what has a path that slurmfab first writes; ResourceFailed if not regular, or too large."""
        if path in self.files:
            return
        there = replace.find(context.path(path))
        if there and len(there[1]) > MOST_BYTES:
            raise ResourceFailed(
                "%s is a file of %d bytes; move it away if a file may take its place" % (path, len(there[1]))
            )
        status = there[0] if there else None
        self.files[path] = (
            Before(there[1], status.st_uid, status.st_gid, status.st_mode & 0o7777) if there and status else None
        )
        directory = os.path.dirname(path)
        while directory != "/" and not os.path.lexists(context.path(directory)) and directory not in self.directories:
            self.directories.append(directory)
            directory = os.path.dirname(directory)
        self.directories.sort(key=len, reverse=True)


def read_record(context: Context, path: str) -> FileRecord:
    """The record at this path; an empty one where there is none, or a damaged one."""
    values = host_records.read(context, path)
    files: Dict[str, Optional[Before]] = {}
    for name, before in values.get("files", {}).items():
        files[name] = Before(binascii.a2b_base64(before[0]), *before[1:]) if before else None
    return FileRecord(files, list(values.get("directories", ())))


def write_record(context: Context, path: str, record: FileRecord) -> None:
    """Write a record, or remove an empty one."""
    files = {
        name: before and (binascii.b2a_base64(before.content, newline=False).decode(), *before[1:])
        for name, before in record.files.items()
    }
    host_records.write(context, path, {"files": files, "directories": record.directories} if files else {})


def paths_text(paths: Any) -> Optional[str]:
    """Paths as a value of a state."""
    return " ".join(sorted(paths)) or None


def actual_file(context: Context, one: OwnedFile) -> State:
    """Content and access, a missing file being one difference; ResourceFailed if it is no regular file."""
    there = replace.find(context.path(one.path))
    if there is None:
        return {one.path + ACCESS: one.access}
    status, content = there
    access = access_text(context, status, one.owner, one.group)
    return {one.path: content.decode("utf-8", "surrogateescape"), one.path + ACCESS: access}


def give_back(context: Context, path: str, before: Optional[Before]) -> None:
    """Remove a file of slurmfab's, or put back the one that was there before it."""
    if before is None:
        replace.unlink(context.path(path))
    else:
        replace.put(context.path(path), *before, make=True)


def is_removed(context: Context, directory: str) -> bool:
    """Remove a directory that slurmfab made, if it is empty; whether it is gone now."""
    try:
        return remove_empty(context.path(directory))
    except OSError:
        return False
