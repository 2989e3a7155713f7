"""A new munge key for a host that has one: written beside the old one, and put in its place when all are ready."""

from __future__ import annotations

import base64
import hashlib
import os
import time
from typing import ClassVar, Tuple

from slurmfab.agent import replace
from slurmfab.agent.accounts import gid_of, uid_of
from slurmfab.agent.facts import MUNGE_KEY
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import AS_ON_DISK, Service, show

UNIT = "munge"

ANSWER_SECONDS = 10.0
"""How long a restarted munged may take until it makes credentials; it takes some hundredths of a second."""


class StagedMungeKey(Resource):
    """A new key beside the one in use, ready to take its place; or none, not even what cut off runs have left.

    The name beside it is one that `replace.leftovers` finds, so the next deployment removes it if nothing comes of it.

    Args:
        content: the new key in base64; empty for none.
        path: of the key in use.
        secret: that no message may show anything of this request.
    """

    kind: ClassVar[str] = "staged-munge-key"
    UNSHOWN = ("content",)
    content: str
    path: str = MUNGE_KEY
    secret: bool = True

    def name(self) -> str:
        """The path of the key that it is for."""
        return self.path

    def secrets(self) -> frozenset[str]:
        """The names of staged files say something of the key."""
        return frozenset({"staged"})

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The key in use, so that it is kept now, and not in the short time in which the hosts' keys differ."""
        return (self.path,) if self.content else ()

    def units(self) -> Tuple[str, ...]:
        """The daemon that will be restarted, likewise."""
        return (UNIT,) if self.content else ()

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """This file and no other."""
        name = os.path.basename(staged(self.path, digest(self.key())))
        return {"staged": [name] if self.content else []}

    def actual(self, context: Context) -> State:
        """Those that are there; a file of another content has another name."""
        return {"staged": replace.leftovers(context.path(self.path))}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Remove what others left, and write it, safely onto the disk.

        Raises:
            OSError: the disk is full or the like.
        """
        path = context.path(self.path)
        replace.remove_leftovers(*os.path.split(path))
        if self.content:
            place = staged(path, digest(self.key()))
            replace.write(place, self.key(), uid_of(context, UNIT), gid_of(context, UNIT), 0o400)
            replace.sync(os.path.dirname(place))

    def key(self) -> bytes:
        """The key itself."""
        return base64.b64decode(self.content)


class MungeKeySwitch(Resource):
    """The staged key in its place, and a munged that makes credentials with it.

    Args:
        digest: of the new key, as `digest` tells it; no report shows it.
        path: of the key in use.
    """

    kind: ClassVar[str] = "munge-key-switch"
    UNSHOWN = ("digest",)
    digest: str
    path: str = MUNGE_KEY

    def name(self) -> str:
        """The path."""
        return self.path

    def secrets(self) -> frozenset[str]:
        """The key."""
        return frozenset({"key"})

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The key."""
        return (self.path,)

    def units(self) -> Tuple[str, ...]:
        """The daemon."""
        return (UNIT,)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The new key, and a daemon that has it."""
        return {"key": self.digest, "munged": AS_ON_DISK}

    def actual(self, context: Context) -> State:
        """The key that is there, and what the daemon has."""
        content = replace.read(context.path(self.path))
        shown = show(context, UNIT)
        is_up = shown.get("ActiveState") == "active"
        stale = Service(UNIT, watches=(self.path,)).staleness(context, shown) if is_up else "not running"
        return {"key": digest(content) if content is not None else None, "munged": stale or AS_ON_DISK}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Put the key in its place, restart munged, and see it answer.

        Raises:
            ResourceFailed: the key is not staged, and the old one stays; or munged does not take the new one.
        """
        path = context.path(self.path)
        place = staged(path, self.digest)
        if "key" in differing:
            if digest(replace.read(place) or b"") != self.digest:
                raise ResourceFailed("the new key is not beside %s any more, so the old one stays" % self.path)
            os.rename(place, path)
        restart(context)
        replace.sync(os.path.dirname(path))


def restart(context: Context) -> None:
    """Restart munged, and wait until it makes credentials again.

    Raises:
        ResourceFailed: it does not.
    """
    if context.run(["systemctl", "restart", UNIT], seconds=60).returncode != 0:
        # systemd refuses a unit that was started five times within ten seconds (systemd.unit(5), StartLimitBurst).
        context.run(["systemctl", "reset-failed", UNIT])
        context.run(["systemctl", "restart", UNIT], seconds=60)
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        done = context.run(["munge", "--no-input"], seconds=ANSWER_SECONDS)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline:
            said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            words = "the new key is in its place, and munged does not answer with it: %s; see: systemctl status munge"
            raise ResourceFailed(words % said)
        time.sleep(0.02)


def digest(key: bytes) -> str:
    """What tells keys apart without telling them."""
    return hashlib.sha256(key).hexdigest()


def staged(path: str, key_digest: str) -> str:
    """Where a key is written that will take the place of another: on the same file system, and named as a leftover."""
    directory, name = os.path.split(path)
    return os.path.join(directory, replace.temporary(name, key_digest[:8]))
