"""Files from a backup in their places: slurmctld's state as a whole, those of /etc/slurm where they are missing."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import BinaryIO, ClassVar, Iterator, Tuple

from slurmfab.agent.accounts import gid_of, uid_of
from slurmfab.agent.backup_state import as_owner
from slurmfab.agent.reading import names
from slurmfab.agent.replace import sync
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import is_active
from slurmfab.agent.staged_parts import done, is_done, require

NEW = ".slurmfab-restored"
"""Where the state is unpacked, within its directory: a rename cannot leave a file system."""

BEFORE = ".before-restore-"
"""How the name of the directory begins in which the state lies that was replaced; slurmctld passes it over."""


class RestoredState(Resource):
    """slurmctld's state directory with what a backup has of it, and nothing else; what was there is kept within it.

    Args:
        directory: StateSaveLocation; it is there, and belongs to the slurm user.
        staged: where the part of the backup lies on this host.
        sha256: of that.
        stamp: when the restoration began, for the name of what was there before.
    """

    kind: ClassVar[str] = "restored-state"
    directory: str
    staged: str
    sha256: str
    stamp: str

    def name(self) -> str:
        """The directory."""
        return self.directory

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """What the backup has."""
        return {"state": "from the backup"}

    def actual(self, context: Context) -> State:
        """Whether it is that, or was before the daemons went on with it."""
        if is_done(context, self.staged, self.sha256):
            return self.wanted(context)
        return {"state": "other" if own(context.path(self.directory)) else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Unpack all of it, and then exchange the two by renames.

        Raises:
            ResourceFailed: slurmctld runs, or the part is damaged; the state is as before.
        """
        if is_active(context, "slurmctld"):
            raise ResourceFailed("slurmctld runs, and its state cannot be replaced meanwhile: systemctl stop slurmctld")
        require(context, self.staged, self.sha256)
        directory = context.path(self.directory)
        new = os.path.join(directory, NEW)
        with open(context.path(self.staged), "rb") as file, as_owner(directory):
            shutil.rmtree(new, ignore_errors=True)
            os.mkdir(new, 0o700)
            try:
                self.fill(context, new, file)
                exchange(directory, os.path.join(directory, BEFORE + self.stamp))
            finally:
                shutil.rmtree(new, ignore_errors=True)
        done(context, self.staged, self.sha256)

    def fill(self, context: Context, new: str, file: BinaryIO) -> None:
        """Unpack the part into an empty directory, as the slurm user's."""
        for member, path in members(file):
            target = os.path.join(new, path)
            os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
            unpack(member, target)
        close_to_others(new)
        if os.geteuid() == 0:
            give(new, uid_of(context, "slurm"), gid_of(context, "slurm"))
        os.sync()  # there can be many thousand scripts, too many to wait for each


class RestoredFiles(Resource):
    """Files from a backup that are missing in a directory; others are left alone.

    Args:
        directory: absolute.
        staged: where the part of the backup lies on this host.
        sha256: of that.
        but: names that are not restored, since others see to them.
    """

    kind: ClassVar[str] = "restored-files"
    directory: str
    staged: str
    sha256: str
    but: Tuple[str, ...] = ()

    def name(self) -> str:
        """The directory."""
        return self.directory

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """None missing."""
        return {"missing": None}

    def actual(self, context: Context) -> State:
        """The names of the missing ones."""
        require(context, self.staged, self.sha256)
        with open(context.path(self.staged), "rb") as file:
            missing = [path for _, path in members(file) if self.is_missing(context, path)]
        return {"missing": ", ".join(sorted(missing)) or None}

    def is_missing(self, context: Context, path: str) -> bool:
        """Whether a file of the backup is not there, and wanted."""
        return path not in self.but and not os.path.lexists(os.path.join(context.path(self.directory), path))

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Put them there, with the modes that they had; whose they were, if those are the slurm user's, else root's."""
        directory = os.path.realpath(context.path(self.directory))
        slurm = uid_of(context, "slurm"), gid_of(context, "slurm")
        with open(context.path(self.staged), "rb") as file:
            for member, path in members(file):
                if self.is_missing(context, path):
                    target = os.path.join(directory, path)
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    if os.path.realpath(target) != target:
                        raise ResourceFailed("%s leads elsewhere; nothing is restored there" % target)
                    unpack(member, target)
                    if (member[0].uid, member[0].gid) == slurm:
                        os.chown(target, *slurm)
                    os.chmod(target, member[0].mode & 0o755)


Member = Tuple[tarfile.TarInfo, tarfile.TarFile]


def members(file: BinaryIO) -> Iterator[Tuple[Member, str]]:
    """The files of a compressed tar, one after the other, with their paths.

    Raises:
        ResourceFailed: one is no regular file, or would lie elsewhere; or the tar is damaged.
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
    """Write a file of a tar where there is none, for its owner alone."""
    info, tar = member
    content = tar.extractfile(info)
    assert content is not None, "it is a regular file"
    mode = 0o600 | (info.mode & 0o100)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


def own(directory: str) -> bool:
    """Whether there is any state in a directory."""
    if not os.path.isdir(directory):
        return False
    with as_owner(directory):
        return any(not name.startswith(".") for name in names(directory))


def close_to_others(directory: str) -> None:
    """Let only their owner look into a directory and those below it."""
    for folder, _, _ in os.walk(directory):
        os.chmod(folder, 0o700)


def give(directory: str, uid: int, gid: int) -> None:
    """Give a directory and all below it to somebody."""
    for folder, _, files in os.walk(directory):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            os.chown(path, uid, gid, follow_symlinks=False)


def exchange(directory: str, before: str) -> None:
    """Put what was unpacked in the place of what is there, which goes to a directory of its own, if there is any."""
    new = os.path.join(directory, NEW)
    old = [name for name in names(directory) if not name.startswith(".")]
    if old:
        os.makedirs(before, 0o700, exist_ok=True)
    for name in old:
        os.rename(os.path.join(directory, name), os.path.join(before, name))
    for name in names(new):
        os.rename(os.path.join(new, name), os.path.join(directory, name))
    os.rmdir(new)
    sync(directory)
