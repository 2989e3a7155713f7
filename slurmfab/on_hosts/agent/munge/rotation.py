"""Rotation of the munge key: each host writes the new key beside the old one, then all put it in place."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import time
from typing import Any, ClassVar, Dict, List, Mapping, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import MUNGE_KEY
from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.facts.slurm_use import CONFS
from slurmfab.on_hosts.agent.identities.users_and_groups import gid_of, uid_of
from slurmfab.on_hosts.agent.services.service import AS_ON_DISK, Service, show

USER = "munge"  # the user of the credentials: this user has no rights anywhere, so the credentials are not secret
MUNGE_SECONDS = 20.0  # time limit of munge(1) and unmunge(1)

STATUS = "STATUS:"
SOCKET = re.compile(rb"^[ \t]*AuthInfo[ \t]*=[^#\n]*socket=([^,\s\"]+)", re.IGNORECASE | re.MULTILINE)
"""Where Slurm finds munged, if that is not the usual place (slurm.conf(5), AuthInfo)."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Decode credentials, and make one.

    Args:
        request: `make`: whether to make a credential; `decode`: credentials to decode.

    Returns:
        `made`: the credential, empty for none. `decoded`: the status of each credential as unmunge(1) prints it, such
        as `Success (0)` or `Invalid credential (15)`. `trouble`: why none could be made.

    Raises:
        ResourceFailed: munge is not installed, or does not end in time.
    """
    answer: Dict[str, Any] = {"made": "", "trouble": "", "decoded": []}
    for credential in request.get("decode", ()):
        shown = context.run(["unmunge", *place_of_socket(context)], stdin=credential.encode(), seconds=MUNGE_SECONDS)
        answer["decoded"].append(status(shown.stdout.decode(errors="replace") or shown.stderr.decode(errors="replace")))
    if request.get("make"):
        account = uid_of(context, USER), gid_of(context, USER)
        done = context.run(["munge", "--no-input", *place_of_socket(context)], seconds=MUNGE_SECONDS, account=account)
        answer["made"] = done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""
        answer["trouble"] = done.stderr.decode(errors="replace").strip()
    return answer


def place_of_socket(context: Context) -> List[str]:
    """The option of munge(1) and unmunge(1) with the socket that slurm.conf names; nothing for the usual one."""
    paths = (context.path(one) for one in CONFS[:2])
    found = next((found for path in paths for found in SOCKET.findall(whole(path, read_bytes(path)))), b"")
    return ["--socket", found.decode(errors="replace")] if found else []


def status(shown: str) -> str:
    """The status in the output of unmunge(1), or the last line of an output without a status."""
    found = [line.partition(":")[2].strip() for line in shown.splitlines() if line.startswith(STATUS)]
    return (found or shown.strip().splitlines() or ["unmunge printed nothing"])[-1]


UNIT = "munge"

ANSWER_SECONDS = 10.0
"""How long a restarted munged may take until it makes credentials; usually it takes less than 0.1 s."""


class StagedMungeKey(Resource):
    """A new key beside the key in use, or no such file; `replace.leftovers` finds one that a run left."""

    kind: ClassVar[str] = "staged-munge-key"
    named_by: ClassVar[str] = "path"
    UNSHOWN = ("content",)
    content: str  # the new key in base64; empty for no new key
    path: str = MUNGE_KEY
    secret: bool = True  # always true: no message may show a value of this request

    def secrets(self) -> frozenset[str]:
        """The names of the files, because they contain digits of the keys' digests."""
        return frozenset({"staged"})

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The key in use, so that the undo store gets it now and not while the hosts' keys differ."""
        return (self.path,) if self.content else ()

    def units(self) -> Tuple[str, ...]:
        """munged, which will be restarted, for the same reason."""
        return (UNIT,) if self.content else ()

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The file of the new key and no other one."""
        name = os.path.basename(staged(self.path, digest(self.key())))
        return {"staged": [name] if self.content else []}

    def actual(self, context: Context) -> State:
        """The files that are there; a file's name depends on its key."""
        return {"staged": replace.leftovers(context.path(self.path))}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove other files, write the new key and flush it to the disk; OSError if it cannot be written."""
        path = context.path(self.path)
        replace.remove_leftovers(*os.path.split(path))
        if self.content:
            place = staged(path, digest(self.key()))
            replace.write(place, self.key(), uid_of(context, UNIT), gid_of(context, UNIT), 0o400)
            replace.sync(os.path.dirname(place))

    def key(self) -> bytes:
        """The new key."""
        return base64.b64decode(self.content)


class MungeKeySwitch(Resource):
    """The new key in its place, and a munged that makes credentials with it."""

    kind: ClassVar[str] = "munge-key-switch"
    named_by: ClassVar[str] = "path"
    own_units: ClassVar[Tuple[str, ...]] = (UNIT,)
    file_in: ClassVar[str] = "path"
    UNSHOWN = ("digest",)
    digest: str  # of the new key, from the function `digest`; no report shows it
    path: str = MUNGE_KEY

    def secrets(self) -> frozenset[str]:
        """The key."""
        return frozenset({"key"})

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The new key, and a munged that has loaded it."""
        return {"key": self.digest, "munged": AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The digest of the key on the host, and whether munged has loaded it."""
        content = replace.read(context.path(self.path))
        shown = show(context, UNIT)
        is_up = shown.get("ActiveState") == "active"
        stale = Service(UNIT, watches=(self.path,)).staleness(context, shown) if is_up else "not running"
        return {"key": digest(content) if content is not None else None, "munged": stale or AS_ON_DISK}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put the key in its place, restart munged and wait; ResourceFailed without a new key, or if it fails."""
        path = context.path(self.path)
        place = staged(path, self.digest)
        if "key" in differing:
            if digest(replace.read(place) or b"") != self.digest:
                raise ResourceFailed("the new key beside %s is missing, so the old one stays" % self.path)
            replace.rename(place, path)
        restart(context)
        replace.sync(os.path.dirname(path))


def restart(context: Context) -> None:
    """Restart munged, and wait until it makes credentials; ResourceFailed after `ANSWER_SECONDS`."""
    if context.run(["systemctl", "restart", UNIT], seconds=60).returncode != 0:
        # systemd refuses a unit that was started five times within ten seconds (systemd.unit(5), StartLimitBurst).
        context.run(["systemctl", "reset-failed", UNIT])
        context.run(["systemctl", "restart", UNIT], seconds=60)
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        done = context.run(["munge", "--no-input", *place_of_socket(context)], seconds=ANSWER_SECONDS)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline:
            message = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            sentence = "the new key is in place, but munged does not work with it: %s; see: systemctl status munge"
            raise ResourceFailed(sentence % message)
        time.sleep(0.02)


def digest(key: bytes) -> str:
    """The SHA-256 digest of a key in hexadecimal, which identifies it without revealing it."""
    return hashlib.sha256(key).hexdigest()


def staged(path: str, key_digest: str) -> str:
    """The path of the file with the new key: beside the key in use, and named as a temporary file of `replace`."""
    directory, name = os.path.split(path)
    return os.path.join(directory, replace.temporary_name(name, key_digest[:8]))
