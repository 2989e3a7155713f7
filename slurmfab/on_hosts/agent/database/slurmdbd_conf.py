"""slurmdbd.conf, with a database password that is generated on the host or, for an external database, given.

A file that was made by hand and means the same to slurmdbd is right as it is.
"""

from __future__ import annotations

import os
import re
from typing import ClassVar, Dict, Optional

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of, group_name, uid_of, user_name

SETTING = re.compile(r"^[ \t]*(\w+)[ \t]*=[ \t]*(.*?)[ \t]*(?:#.*)?$", re.MULTILINE)


def parse_settings(content: bytes) -> Dict[str, str]:
    """The settings in a slurmdbd.conf, by their names in lower case; the last of several equal names counts."""
    text = content.decode("utf-8", "surrogateescape")
    return {name.lower(): value.strip('"') for name, value in SETTING.findall(text)}


PATH = "/etc/slurm/slurmdbd.conf"
MODE = 0o600
"""slurmdbd up to 24.11 refuses to start with another owner than SlurmUser or another mode (slurmdbd.conf(5))."""

PASSWORD_BYTES = 32  # random bytes of a generated password

PASSWORD_LINE = re.compile(r"^[ \t]*StoragePass[ \t]*=[ \t]*(.*?)[ \t]*(?:#.*)?$", re.IGNORECASE | re.MULTILINE)
LOCAL = ("localhost", "127.0.0.1", "::1")
DEFAULTS = {
    "authtype": "auth/munge",
    "dbdhost": "localhost",
    "dbdport": "6819",
    "debuglevel": "info",
    "messagetimeout": "10",
    "pidfile": "/run/slurmdbd.pid",
    "storagehost": "localhost",
    "storageloc": "slurm_acct_db",
    "storageport": "3306",
}
"""What slurmdbd takes for a key that is not in the file, by key in lower case (slurmdbd.conf(5))."""

INCLUDE = re.compile(rb"^[ \t]*include[ \t]", re.IGNORECASE | re.MULTILINE)
HIDDEN = "StoragePass=(hidden)"  # replaces the password's line when the file is compared


class SlurmdbdConf(Resource):
    """slurmdbd.conf, readable for the slurm user only; a generated password in it is kept."""

    kind: ClassVar[str] = "slurmdbd-conf"
    only_name: ClassVar[str] = PATH
    UNSHOWN = ("password",)
    content: str  # the text without the line with the password, which is added at the end
    password: str = ""  # the password; empty to generate one on the host and keep it
    owner: str = "slurm"  # the user of slurmdbd; `group` likewise its group
    group: str = "slurm"

    def secrets(self) -> frozenset[str]:
        """The password, if it is given."""
        return frozenset({"password"} if self.password else ())

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The file."""
        return (PATH,) if differing - {"leftovers"} else ()

    def holds_secret(self, path: str) -> bool:  # noqa: ARG002
        """The file holds the password."""
        return True

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Content, password and access, and no temporary file of a killed run."""
        return {
            "content": self.content + HIDDEN + "\n",
            "password": self.password or "present",
            "owner": self.owner,
            "group": self.group,
            "mode": "%04o" % MODE,
            "leftovers": None,
        }

    def actual(self, context: Context) -> State:
        """The same of the present file; empty if there is none."""
        path = context.path(PATH)
        file = replace.find(path)
        if file is None:
            return {}
        status, content = file
        found = password_in(content)
        self.refuse_other_storage(content)
        is_right = self.is_right_by_hand(content)
        text = self.content + HIDDEN + "\n" if is_right else content.decode("utf-8", "surrogateescape")
        return {
            "content": PASSWORD_LINE.sub(HIDDEN, text),
            "password": found if self.password else "present" if found else None,
            "owner": user_name(context, status.st_uid, self.owner),
            # Its mode gives the group nothing.
            "group": self.group if is_right else group_name(context, status.st_gid, self.group),
            "mode": "%04o" % (status.st_mode & 0o7777),
            "leftovers": len(replace.leftovers(path)) or None,
        }

    def is_right_by_hand(self, content: bytes) -> bool:
        """Whether somebody else wrote the file, with the same meaning for slurmdbd."""
        if content.startswith(MADE_BY_SLURMFAB.encode()) or INCLUDE.search(content):
            return False
        return meaning(content) == meaning(self.content.encode("utf-8", "surrogateescape"))

    def refuse_other_storage(self, content: bytes) -> None:
        """Refuse, by ResourceFailed, to move slurmdbd to another database, as the history would stay behind."""
        before, wanted = place_in(content), place_in(self.content.encode())
        if before and before != wanted:
            raise ResourceFailed(
                "slurmdbd writes to %s, but the cluster file says %s. The history of jobs, the accounts and the limits "
                "are not moved. Dump the old database and load it into the new one; then move %s away and deploy again"
                % (before, wanted, PATH)
            )

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Replace the file, or only change its access."""
        path = context.path(PATH)
        uid, gid = uid_of(context, self.owner), gid_of(context, self.group)
        if differing & {"content", "password"}:
            import secrets  # slow to import, and most runs change nothing

            password = self.password or password_in(replace.read(path) or b"") or secrets.token_hex(PASSWORD_BYTES)
            replace.put(path, ("%sStoragePass=%s\n" % (self.content, password)).encode(), uid, gid, MODE)
        elif differing - {"leftovers"}:
            replace.change_access(path, uid, gid, MODE)
        if "leftovers" in differing:
            replace.remove_leftovers(*os.path.split(path))


def place_in(content: bytes) -> str:
    """The database that a slurmdbd.conf names, as `slurm_acct_db at localhost`; empty if it names none."""
    settings = parse_settings(content)
    if not settings.keys() & {"storagehost", "storageport", "storageloc"}:
        return ""
    host = settings.get("storagehost", "localhost").lower()
    server = "localhost" if host in LOCAL else "%s:%s" % (host, settings.get("storageport", "3306"))
    return "%s at %s" % (settings.get("storageloc", "slurm_acct_db"), server)


def meaning(content: bytes) -> Dict[str, Optional[str]]:
    """What the settings of a slurmdbd.conf on this host mean, without the password: equal for equal meanings."""
    hostname = os.uname().nodename.lower()
    here = {"dbdhost": ("localhost", hostname, hostname.partition(".")[0]), "storagehost": LOCAL}
    found: Dict[str, Optional[str]] = {**DEFAULTS, **parse_settings(content)}
    found.pop("storagepass", None)
    for key, names in here.items():
        found[key] = names[0] if str(found[key]).lower() in names else found[key]
    # slurmdbd listens at all addresses; others find this one by their own slurm.conf.
    if str(found.get("dbdaddr", "")).lower() in here["dbdhost"]:
        found.pop("dbdaddr", None)
    found["pidfile"] = re.sub("^/var/run/", "/run/", str(found["pidfile"]))
    return found


def password_in(content: bytes) -> str:
    """The database password in a slurmdbd.conf; empty if there is none."""
    return parse_settings(content).get("storagepass", "")


def present_password(context: Context) -> str:
    """The database password in this host's slurmdbd.conf. Raises ResourceFailed if there is none."""
    password = password_in(replace.read(context.path(PATH)) or b"")
    if not password:
        raise ResourceFailed("%s has no StoragePass" % PATH)
    return password
