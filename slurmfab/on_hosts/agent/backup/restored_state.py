"""Files restored from a backup: slurmctld's whole state, and missing files of /etc/slurm."""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from typing import BinaryIO, ClassVar, Iterator, Tuple

from slurmfab.on_hosts.agent.backup.archive import BoundedHeader, unpacked_most
from slurmfab.on_hosts.agent.backup.staged_parts import is_done, mark_done, require
from slurmfab.on_hosts.agent.backup.state import as_owner
from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.replace import sync
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import Folder, make_or_enter, open_folder, open_parent, set_access
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of, uid_of
from slurmfab.on_hosts.agent.services.service import is_active

UNPACKED = ".slurmfab-restored"
"""Where the state is unpacked: inside its directory, since a rename cannot cross file systems."""

MOST_STATE_FILES, MOST_FILES = 4_000_000, 10_000
"""The most files in a state, which has two for each job, and in /etc/slurm."""

DEEPEST = 32  # the most directories in a path of a backup; Slurm's state has two
MARGIN = 256 << 20  # bytes that have to stay free on the disk while files are unpacked
REPLACED_PREFIX = ".before-restore-"  # prefix of the directory that keeps the replaced state; slurmctld ignores it
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW  # flags for a file that does not exist yet


class RestoredState(Resource):
    """slurmctld's state directory with exactly the state of a backup; the replaced state is kept inside it."""

    kind: ClassVar[str] = "restored-state"
    named_by: ClassVar[str] = "directory"
    wanted_state: ClassVar[State] = {"state": "from the backup"}
    deadline: ClassVar[float] = 3600.0
    directory: str  # StateSaveLocation; it exists and belongs to the slurm user
    staged: str  # path of the backup's part on this host
    sha256: str  # of that part
    stamp: str  # when the restoration began, for the name of the directory with the replaced state

    def actual(self, context: Context) -> State:
        """Whether the state was restored; the daemons may have changed it since."""
        if is_done(context, self.staged, self.sha256):
            return self.wanted(context)
        return {"state": "other" if has_state(context.path(self.directory)) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Unpack the state, then exchange it by renames; ResourceFailed if slurmctld runs, or a part is damaged."""
        if is_active(context, "slurmctld"):
            raise ResourceFailed("the state cannot be replaced while slurmctld runs. Stop it: systemctl stop slurmctld")
        require(context, self.staged, self.sha256)
        directory = context.path(self.directory)
        new = os.path.join(directory, UNPACKED)
        with open(context.path(self.staged), "rb") as file, as_owner(directory):
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new, 0o700)
            try:
                self.fill(new, file)
                exchange(directory, os.path.join(directory, REPLACED_PREFIX + self.stamp))
            finally:
                shutil.rmtree(new, ignore_errors=True)
        mark_done(context, self.staged, self.sha256)

    def fill(self, new: str, file: BinaryIO) -> None:
        """Unpack the part into an empty directory, as the slurm user, who owns the state directory."""
        for member, path in members(file, room_of(file), MOST_STATE_FILES):
            target = os.path.join(new, path)
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            with open(os.open(target, NEW_FILE, 0o600 | (member[0].mode & 0o100)), "wb") as made:
                unpack(member, made)
        # Group and others get no access.
        for folder, _, _ in os.walk(new):
            os.chmod(folder, 0o700)
        os.sync()  # one sync for all: there can be many thousand job scripts


class RestoredFiles(Resource):
    """Files of a backup that are missing in a directory; existing files are left unchanged."""

    kind: ClassVar[str] = "restored-files"
    named_by: ClassVar[str] = "directory"
    wanted_state: ClassVar[State] = {"missing": None}
    deadline: ClassVar[float] = 3600.0
    directory: str  # absolute
    staged: str  # path of the backup's part on this host
    sha256: str  # of that part
    but: Tuple[str, ...] = ()  # names that are not restored, because other resources write them

    def actual(self, context: Context) -> State:
        """The names of missing files."""
        require(context, self.staged, self.sha256)
        with open(context.path(self.staged), "rb") as file:
            missing = [path for _, path in members(file, room_of(file), MOST_FILES) if self.is_missing(context, path)]
        return {"missing": ", ".join(sorted(missing)) or None}

    def is_missing(self, context: Context, path: str) -> bool:
        """Whether a file of the backup has to be restored."""
        if path in self.but:
            return False
        try:
            folder, name = open_parent(context.path("%s/%s" % (self.directory, path)))
        except (FileNotFoundError, NotADirectoryError):
            return True
        with folder:
            return folder.find(name) is None

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Restore missing files, slurm's and root's, with modes; ResourceFailed if something is in the way."""
        slurm = uid_of(context, "slurm"), gid_of(context, "slurm")
        with (
            open(context.path(self.staged), "rb") as file,
            open_folder(context.path(self.directory), True) as directory,
        ):
            for member, path in members(file, room_of(file), MOST_FILES):
                if self.is_missing(context, path):
                    put_below(directory, path, member, slurm)


def put_below(folder: Folder, path: str, member: Member, slurm: Tuple[int, int]) -> None:
    """Restore a file below a directory, making missing ones, no links; ResourceFailed if one is in the way."""
    first, _, rest = path.partition("/")
    if not rest:
        with open(os.open(first, NEW_FILE, 0o600, dir_fd=folder.descriptor), "wb") as made:
            unpack(member, made)
            is_slurms = (member[0].uid, member[0].gid) == slurm
            set_access(made.fileno(), *(slurm if is_slurms else (-1, -1)), member[0].mode & 0o755)
        return
    try:
        inner = make_or_enter(folder, first)
    except NotADirectoryError:
        message = "%s leads through a symbolic link or a file; nothing is restored there"
        raise ResourceFailed(message % folder.place(path)) from None
    with inner:
        put_below(inner, rest, member, slurm)


Member = Tuple[tarfile.TarInfo, tarfile.TarFile]


def members(file: BinaryIO, most_bytes: int, most: int = MOST_STATE_FILES) -> Iterator[Tuple[Member, str]]:
    """Iterate over the files of a compressed tar, with their paths, up to `most` of `most_bytes` together.

    Raises ResourceFailed for more, a damaged tar, unsafe paths, and members that are not regular files.
    """
    left = most_bytes
    try:
        with tarfile.open(fileobj=file, mode="r|gz", tarinfo=BoundedHeader) as tar:
            for number, member in enumerate(tar):
                if number >= most:
                    raise ResourceFailed("the backup holds more than %d files in one part" % most)
                left -= tarfile.BLOCKSIZE + member.size
                if left < 0:
                    raise ResourceFailed("the backup holds a part that would become more than %d bytes" % most_bytes)
                vars(tar)["members"].clear()  # tarfile would keep them all in memory
                parts = member.name.split("/")
                if (
                    not member.isreg()
                    or len(parts) > DEEPEST
                    or "" in parts
                    or "." in parts
                    or ".." in parts
                    or "\0" in member.name
                ):
                    raise ResourceFailed("the backup holds %r, which is not restored" % member.name[:80])
                yield (member, tar), member.name
    except (tarfile.TarError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise ResourceFailed("the backup is damaged: %s" % error) from error


def room_of(file: BinaryIO) -> int:
    """The most bytes that an open compressed file may become."""
    return unpacked_most(os.fstat(file.fileno()).st_size)


def unpack(member: Member, target: BinaryIO) -> None:
    """Write the content of a file of a tar to an open file. Raises ResourceFailed if it would fill the disk."""
    info, tar = member
    space = os.fstatvfs(target.fileno())
    if space.f_bavail * space.f_frsize < info.size + MARGIN:
        raise ResourceFailed(
            "the disk is too full for the backup: %r in it has %d MiB, and %d MiB have to stay free"
            % (info.name[:80], info.size >> 20, MARGIN >> 20)
        )
    content = tar.extractfile(info)
    assert content is not None, "it is a regular file"
    shutil.copyfileobj(content, target, 1 << 20)


def has_state(directory: str) -> bool:
    """Whether a directory contains any state."""
    if not os.path.isdir(directory):
        return False
    with as_owner(directory):
        return any(not name.startswith(".") for name in names(directory))


def exchange(directory: str, before: str) -> None:
    """Rename the unpacked files into their places; present files go to the directory `before`."""
    new = os.path.join(directory, UNPACKED)
    old = [name for name in names(directory) if not name.startswith(".")]
    if old:
        os.makedirs(before, 0o700, exist_ok=True)
    for name in old:
        os.rename(os.path.join(directory, name), os.path.join(before, name))
    for name in names(new):
        os.rename(os.path.join(new, name), os.path.join(directory, name))
    os.rmdir(new)
    sync(directory)
