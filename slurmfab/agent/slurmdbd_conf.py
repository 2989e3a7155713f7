"""slurmdbd.conf, with a database password that is made on the host, or given where the database is somebody else's."""

from __future__ import annotations

import os
import re
from typing import ClassVar

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, group_name, uid_of, user_name
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State

PATH = "/etc/slurm/slurmdbd.conf"
OWNER, MODE = "slurm", 0o600
"""Up to 24.11 slurmdbd starts with no other owner than SlurmUser, and no other mode (slurmdbd.conf(5))."""

NEW_SIZE = 32
"""Random bytes of a new password."""

LINE = re.compile(r"^[ \t]*StoragePass[ \t]*=[ \t]*(.*?)[ \t]*(?:#.*)?$", re.IGNORECASE | re.MULTILINE)
PLACE = re.compile(r"^[ \t]*(StorageHost|StoragePort|StorageLoc)[ \t]*=[ \t]*(\S+)", re.IGNORECASE | re.MULTILINE)
LOCAL = ("localhost", "127.0.0.1", "::1")
HIDDEN = "StoragePass=(not shown)"
"""What stands for the password's line where files are compared."""


class SlurmdbdConf(Resource):
    """slurmdbd.conf, the slurm user's alone; a password of its own that is in it is kept.

    Args:
        content: all of it, but for the line with the password, which comes last.
        password: the one to use; empty for one of this host's own, which is made if there is none.
    """

    kind: ClassVar[str] = "slurmdbd-conf"
    UNSHOWN = ("password",)
    content: str
    password: str = ""

    def name(self) -> str:
        """The path."""
        return PATH

    def secrets(self) -> frozenset[str]:
        """The password, if it is given."""
        return frozenset({"password"} if self.password else ())

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The file itself."""
        return (PATH,) if differing - {"leftovers"} else ()

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """It does."""
        return True

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Content, password and access; and no copy beside it, which a run that was killed has left."""
        return {
            "content": self.content + HIDDEN + "\n",
            "password": self.password or "present",
            "owner": OWNER,
            "group": OWNER,
            "mode": "%04o" % MODE,
            "leftovers": None,
        }

    def actual(self, context: Context) -> State:
        """The same of the file that is there; nothing when there is none."""
        path = context.path(PATH)
        content, status = replace.read(path), replace.regular(path)
        if content is None or status is None:
            return {}
        found = password_in(content)
        self.refuse_other_storage(content)
        return {
            "content": LINE.sub(HIDDEN, content.decode("utf-8", "surrogateescape")),
            "password": found if self.password else "present" if found else None,
            "owner": user_name(context, status.st_uid, OWNER),
            "group": group_name(context, status.st_gid, OWNER),
            "mode": "%04o" % (status.st_mode & 0o7777),
            "leftovers": len(replace.leftovers(path)) or None,
        }

    def refuse_other_storage(self, content: bytes) -> None:
        """Refuse to have slurmdbd write elsewhere from now on, since the history would stay behind without a word.

        Raises:
            ResourceFailed: the file says another server or database than is wanted.
        """
        before, wanted = place_in(content.decode(errors="replace")), place_in(self.content)
        if before and before != wanted:
            raise ResourceFailed(
                "slurmdbd writes to %s, and the cluster file says %s. The history of jobs, the accounts and the limits "
                "do not move by themselves. Dump the one and load it into the other; then move %s away and deploy again"
                % (before, wanted, PATH)
            )

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Replace the file in one step, or only set who may use it."""
        path = context.path(PATH)
        uid, gid = uid_of(context, OWNER), gid_of(context, OWNER)
        if differing & {"content", "password"}:
            import secrets  # noqa: PLC0415 - slow to import, and most runs change nothing

            password = self.password or password_in(replace.read(path) or b"") or secrets.token_hex(NEW_SIZE)
            replace.put(path, ("%sStoragePass=%s\n" % (self.content, password)).encode(), uid, gid, MODE)
        elif differing - {"leftovers"}:
            replace.change_access(path, uid, gid, MODE)
        if "leftovers" in differing:
            replace.remove_leftovers(*os.path.split(path))


def place_in(text: str) -> str:
    """The database that a slurmdbd.conf names, as `slurm_acct_db at localhost`; empty where it names none."""
    said = {key.lower(): value.strip('"') for key, value in PLACE.findall(text)}
    host = said.get("storagehost", "localhost").lower()
    server = "localhost" if host in LOCAL else "%s:%s" % (host, said.get("storageport", "3306"))
    return "%s at %s" % (said.get("storageloc", "slurm_acct_db"), server) if said else ""


def password_in(content: bytes) -> str:
    """The database's password in a slurmdbd.conf, empty where there is none."""
    found = LINE.search(content.decode("utf-8", "surrogateescape"))
    return found[1].strip('"') if found else ""


def present_password(context: Context) -> str:
    """The database's password in this host's slurmdbd.conf.

    Raises:
        ResourceFailed: there is none.
    """
    password = password_in(replace.read(context.path(PATH)) or b"")
    if not password:
        raise ResourceFailed("%s has no line StoragePass" % PATH)
    return password
