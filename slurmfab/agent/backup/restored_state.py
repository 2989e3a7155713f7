"""Files restored from a backup: slurmctld's whole state, and missing files of /etc/slurm."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import BinaryIO, ClassVar, Iterator, Tuple

from slurmfab.agent.backup.staged_parts import is_done, mark_done, require
from slurmfab.agent.backup.state import as_owner
from slurmfab.agent.core.reading import names
from slurmfab.agent.core.replace import sync
from slurmfab.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.identities.users_and_groups import gid_of, uid_of
from slurmfab.agent.services.service import is_active

UNPACKED = ".slurmfab-restored"
"""Where the state is unpacked: inside its directory, since a rename cannot cross file systems."""

REPLACED_PREFIX = ".before-restore-"
"""Prefix of the directory that keeps the replaced state; slurmctld ignores it."""


class RestoredState(Resource):
    """slurmctld's state directory with exactly the state of a backup; the replaced state is kept inside it.

    Args:
        directory: StateSaveLocation; it exists and belongs to the slurm user.
        staged: path of the backup's part on this host.
        sha256: of that part.
        stamp: when the restoration began, for the name of the directory with the replaced state.
    """

    kind: ClassVar[str] = "restored-state"
    deadline: ClassVar[float] = 3600.0
    directory: str
    staged: str
    sha256: str
    stamp: str

    def name(self) -> str:
        """The directory."""
        return self.directory

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The backup's state."""
        return {"state": "from the backup"}

    def actual(self, context: Context) -> State:
        """Whether the state was restored; the daemons may have changed it since."""
        if is_done(context, self.staged, self.sha256):
            return self.wanted(context)
        return {"state": "other" if has_state(context.path(self.directory)) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Unpack the whole state, then exchange it by renames.

        Raises:
            ResourceFailed: slurmctld runs, or the part is damaged; the state is unchanged.
        """
        if is_active(context, "slurmctld"):
            raise ResourceFailed("the state cannot be replaced while slurmctld runs. Stop it: systemctl stop slurmctld")
        require(context, self.staged, self.sha256)
        directory = context.path(self.directory)
        new = os.path.join(directory, UNPACKED)
        with open(context.path(self.staged), "rb") as file, as_owner(directory):
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new, 0o700)
            try:
                self.fill(context, new, file)
                exchange(directory, os.path.join(directory, REPLACED_PREFIX + self.stamp))
            finally:
                shutil.rmtree(new, ignore_errors=True)
        mark_done(context, self.staged, self.sha256)

    def fill(self, context: Context, new: str, file: BinaryIO) -> None:
        """Unpack the part into an empty directory, owned by the slurm user."""
        for member, path in members(file):
            target = os.path.join(new, path)
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            unpack(member, target)
        close_to_others(new)
        if os.geteuid() == 0:
            change_owner(new, uid_of(context, "slurm"), gid_of(context, "slurm"))
        os.sync()  # one sync for all: there can be many thousand job scripts


class RestoredFiles(Resource):
    """Files of a backup that are missing in a directory; existing files are left unchanged.

    Args:
        directory: absolute.
        staged: path of the backup's part on this host.
        sha256: of that part.
        but: names that are not restored, because other resources write them.
    """

    kind: ClassVar[str] = "restored-files"
    deadline: ClassVar[float] = 3600.0
    directory: str
    staged: str
    sha256: str
    but: Tuple[str, ...] = ()

    def name(self) -> str:
        """The directory."""
        return self.directory

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """No file is missing."""
        return {"missing": None}

    def actual(self, context: Context) -> State:
        """The names of missing files."""
        require(context, self.staged, self.sha256)
        with open(context.path(self.staged), "rb") as file:
            missing = [path for _, path in members(file) if self.is_missing(context, path)]
        return {"missing": ", ".join(sorted(missing)) or None}

    def is_missing(self, context: Context, path: str) -> bool:
        """Whether a file of the backup has to be restored."""
        return path not in self.but and not os.path.lexists(os.path.join(context.path(self.directory), path))

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Restore the missing files with their modes; the slurm user's files belong to it again, all others to root."""
        directory = os.path.realpath(context.path(self.directory))
        slurm = uid_of(context, "slurm"), gid_of(context, "slurm")
        with open(context.path(self.staged), "rb") as file:
            for member, path in members(file):
                if self.is_missing(context, path):
                    target = os.path.join(directory, path)
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    if os.path.realpath(target) != target:
                        raise ResourceFailed("%s leads through a symbolic link; nothing is restored there" % target)
                    unpack(member, target)
                    if (member[0].uid, member[0].gid) == slurm:
                        os.chown(target, *slurm)
                    os.chmod(target, member[0].mode & 0o755)


Member = Tuple[tarfile.TarInfo, tarfile.TarFile]


def members(file: BinaryIO) -> Iterator[Tuple[Member, str]]:
    """Iterate over the files of a compressed tar, with their paths.

    Raises:
        ResourceFailed: a member is not a regular file or has an unsafe path, or the tar is damaged.
    """
    try:
        with tarfile.open(fileobj=file, mode="r|gz") as tar:
            for member in tar:
                parts = member.name.split("/")
                if not member.isreg() or "" in parts or "." in parts or ".." in parts or "\0" in member.name:
                    raise ResourceFailed("the backup holds %r, which is not restored" % member.name[:80])
                yield (member, tar), member.name
    except (tarfile.TarError, EOFError) as error:
        raise ResourceFailed("the backup is damaged: %s" % error) from error


def unpack(member: Member, target: str) -> None:
    """Write a file of a tar to a new path, for its owner only."""
    info, tar = member
    content = tar.extractfile(info)
    assert content is not None, "it is a regular file"
    mode = 0o600 | (info.mode & 0o100)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


def has_state(directory: str) -> bool:
    """Whether a directory contains any state."""
    if not os.path.isdir(directory):
        return False
    with as_owner(directory):
        return any(not name.startswith(".") for name in names(directory))


def close_to_others(directory: str) -> None:
    """Remove all access for group and others from a directory and the directories below it."""
    for folder, _, _ in os.walk(directory):
        os.chmod(folder, 0o700)


def change_owner(directory: str, uid: int, gid: int) -> None:
    """Change the owner of a directory and everything below it.

    Args:
        directory: its path.
        uid: the new owner.
        gid: the new group.
    """
    for folder, _, files in os.walk(directory):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.chown(path, uid, gid, follow_symlinks=False)


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
