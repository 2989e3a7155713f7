"""The SSH keys of a user of the cluster: a marked block in ~/.ssh/authorized_keys.

The user can change anything below the home at any moment. So root only reads there and follows no symbolic link below
the home; nothing found there fails a run. Files below the home are written as the user.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import ClassVar, FrozenSet, List, Optional, Tuple

from slurmfab.agent.core.resource import Context, Resource, State
from slurmfab.agent.files.marked_block import DamagedBlock, MarkedBlock, join_lines, split_lines

BEGIN, END = "# BEGIN slurmfab keys", "# END slurmfab keys"
BLOCK = MarkedBlock(BEGIN, END)

MAX_KEY_FILE_BYTES = 1 << 20
"""A larger file of keys is not read."""

READ = 'exec cat -- "$1/.ssh/authorized_keys"'
WRITE = (
    'set -e; umask 077; cd -- "$1"; test -d .ssh || mkdir -p .ssh; rm -f ".ssh/$2"; set -C; cat > ".ssh/$2"; set +C; '
    'sync ".ssh/$2"; mv -fT ".ssh/$2" .ssh/authorized_keys'
)
"""Scripts for sh(1), run as the user: `$1` is the home, `$2` the name of the file while it is written."""


class AuthorizedKeys(Resource):
    """A marked block of ~/.ssh/authorized_keys with these keys; the user's other lines stay byte for byte.

    Args:
        user: user name.
        uid: the user's UID.
        gid: GID of the user's primary group.
        home: path of the home directory.
        keys: lines of authorized_keys (sshd(8)); empty to remove the block.
    """

    kind: ClassVar[str] = "authorized-keys"
    user: str
    uid: int
    gid: int
    home: str
    keys: Tuple[str, ...]

    def name(self) -> str:
        """The user's name."""
        return self.user

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The keys, one per line."""
        return {"keys": "".join(key + "\n" for key in self.keys) or None}

    def actual(self, context: Context) -> State:
        """The keys in the block; a file that cannot be read counts as right and gives a remark."""
        lines = self.lines(context)
        if lines is None:
            return self.wanted(context)
        try:
            return {"keys": BLOCK.content(lines) or None}
        except DamagedBlock:
            return {"keys": None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Replace the file in one step, as the user, with the new block; a damaged block is made anew at the end."""
        lines, keys = self.lines(context) or [], self.wanted(context)["keys"] or ""
        try:
            new = BLOCK.replaced(lines, keys)
        except DamagedBlock:
            new = BLOCK.replaced(BLOCK.without_markers(lines), keys)
        temporary = ".slurmfab-keys-%s" % os.uname().nodename
        argv = ["sh", "-c", WRITE, "sh", context.path(self.home), temporary]
        context.must(argv, stdin=join_lines(new), account=(self.uid, self.gid))

    def lines(self, context: Context) -> Optional[List[str]]:
        """The lines of the file, each with its newline; empty where there is no file, `None` where it is unusable."""
        home = context.path(self.home)
        try:
            data = read(home, self.uid)
        except PermissionError:  # a file server may deny root access (NFS: root_squash)
            data = context.run(["sh", "-c", READ, "sh", home], account=(self.uid, self.gid)).stdout
        except OSError as error:
            why = "a symbolic link is in the way" if error.errno == errno.ELOOP else error.strerror
            context.remark = "slurmfab did not write %s's SSH keys: %s/.ssh/authorized_keys: %s" % (
                self.user, self.home, why
            )  # fmt: skip
            return None
        return split_lines(data)


def read(home: str, uid: int) -> bytes:
    """The content of ~/.ssh/authorized_keys, empty where there is no such file.

    Args:
        home: path of the home directory; it may be a symbolic link itself.
        uid: the UID that has to own the home.

    Raises:
        OSError: the home belongs to another user, or there is a symbolic link, a device or a too large file.
    """
    try:
        top = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return b""
    try:
        if os.fstat(top).st_uid != uid:
            raise OSError(errno.ENOTSUP, "the home belongs to another user")
        folder = os.open(".ssh", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open("authorized_keys", flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_KEY_FILE_BYTES:
                    raise OSError(errno.EFBIG, "it is not a file of keys")
                return file.read()
        finally:
            os.close(folder)
    except FileNotFoundError:
        return b""
    finally:
        os.close(top)
