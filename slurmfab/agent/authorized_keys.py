"""The keys by which a person logs in: a block in a file that is the person's own.

What is in a home is its owner's to change at any moment. So root only reads there, following no link below the home,
and never stops a run for what it finds; whatever is written is written as the user.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import ClassVar, FrozenSet, List, Optional, Tuple

from slurmfab.agent.resource import Context, Resource, State

BEGIN, END = "# BEGIN slurmfab keys", "# END slurmfab keys"

LARGEST = 1 << 20
"""Bytes of a file of keys that is still looked at."""

READ = 'exec cat -- "$1/.ssh/authorized_keys"'
WRITE = (
    'set -e; umask 077; cd -- "$1"; test -d .ssh || mkdir -p .ssh; rm -f ".ssh/$2"; set -C; cat > ".ssh/$2"; set +C; '
    'sync ".ssh/$2"; mv -fT ".ssh/$2" .ssh/authorized_keys'
)
"""For sh(1), as the user: the home is `$1`, and `$2` the name that the file has until it is whole."""


class AuthorizedKeys(Resource):
    """A marked block of ~/.ssh/authorized_keys with these keys; the user's other lines stay byte for byte.

    Args:
        user: whose.
        uid: the user's number.
        gid: that of the primary group.
        home: path of the home directory.
        keys: lines of authorized_keys (sshd(8)); without any, the block goes.
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
        """The keys, a line each."""
        return {"keys": "".join(key + "\n" for key in self.keys) or None}

    def actual(self, context: Context) -> State:
        """Those that are in the block; what cannot be seen to is left alone, with a remark."""
        lines = self.lines(context)
        if lines is None:
            return self.wanted(context)
        return {"keys": "".join(line + "\n" for line in block(lines)) or None}

    def converge(self, context: Context, differing: FrozenSet[str]) -> None:  # noqa: ARG002
        """Put the block at the end, as the user, in one step."""
        new = [*others(self.lines(context) or []), *([BEGIN, *self.keys, END] if self.keys else [])]
        text = "".join(line + "\n" for line in new).encode("utf-8", "surrogateescape")
        temporary = ".slurmfab-keys-%s" % os.uname().nodename
        argv = ["sh", "-c", WRITE, "sh", context.path(self.home), temporary]
        context.must(argv, stdin=text, account=(self.uid, self.gid))

    def lines(self, context: Context) -> Optional[List[str]]:
        """The lines of the file, none where there is none, `None` where the user has made something else of it."""
        home = context.path(self.home)
        try:
            data = read(home, self.uid)
        except PermissionError:  # of a file server that grants root nothing
            data = context.run(["sh", "-c", READ, "sh", home], account=(self.uid, self.gid)).stdout
        except OSError as error:
            why = "a symbolic link is in the way" if error.errno == errno.ELOOP else error.strerror
            context.remark = "the keys of %s were not seen to: %s/.ssh/authorized_keys: %s" % (
                self.user, self.home, why
            )  # fmt: skip
            return None
        # Only newlines end a line for sshd.
        return data.decode("utf-8", "surrogateescape").rstrip("\n").split("\n") if data else []


def read(home: str, uid: int) -> bytes:
    """The content of ~/.ssh/authorized_keys, empty where there is none.

    Raises:
        OSError: the home is not this user's, or something else than a directory and a file is there.
    """
    try:
        top = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return b""
    try:
        if os.fstat(top).st_uid != uid:
            raise OSError(errno.ENOTSUP, "the home belongs to somebody else")
        folder = os.open(".ssh", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open("authorized_keys", flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
                    raise OSError(errno.EFBIG, "it is no file of keys")
                return file.read()
        finally:
            os.close(folder)
    except FileNotFoundError:
        return b""
    finally:
        os.close(top)


def block(lines: List[str]) -> List[str]:
    """The lines of the block; none where there is none, or where the user has damaged it."""
    return lines[lines.index(BEGIN) + 1 : lines.index(END)] if is_whole(lines) else []


def others(lines: List[str]) -> List[str]:
    """All lines but the block; of a damaged one, all but the markers."""
    if is_whole(lines):
        return lines[: lines.index(BEGIN)] + lines[lines.index(END) + 1 :]
    return [line for line in lines if line not in (BEGIN, END)]


def is_whole(lines: List[str]) -> bool:
    """Whether there is one block with both its ends."""
    return lines.count(BEGIN) == lines.count(END) == 1 and lines.index(BEGIN) < lines.index(END)
