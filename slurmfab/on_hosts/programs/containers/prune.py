"""Removes images that nobody has used for long, and the longest unused ones of all users where the disk is filling up.

A systemd timer runs it as root. Whatever users can write is read and changed by processes of these users.
"""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import syslog
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from slurmfab.on_hosts.agent.core import removal
from slurmfab.on_hosts.agent.core.safe_paths import open_folder
from slurmfab.on_hosts.programs.containers.sdocker import LABEL, PODMAN

SECONDS = 1800.0  # how long one run takes at most; the next one goes on
OF_A_USER = 300.0  # how long one call of Podman may take

DAY = 86400.0
LEFT_CONTAINERS = "until=1h"
"""What ended jobs left of containers goes after that time, which is longer than the start of one takes."""


ROW = re.compile(r"(\d{1,12}) ([0-9a-f]{64})")  # what `images` prints of an image: when it was used last, and its id


class Unused(NamedTuple):
    """An image of a user."""

    used: float  # when it was used last, in seconds since 1970
    uid: int
    id: str


class Run:
    """One run. `storage`: the directory that has those of users. `seconds`: how long it may take."""

    def __init__(self, storage: str, seconds: float = SECONDS) -> None:
        self.storage = storage
        self.end = time.monotonic() + seconds
        self.freed: Dict[int, int] = {}

    def is_over(self) -> bool:
        """Whether its time has passed."""
        return time.monotonic() >= self.end

    def call(self, uid: int, words: Sequence[str]) -> Optional[str]:
        """The output of a program that a user runs; `None` if it fails."""
        entry = pwd.getpwuid(uid)
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.of(uid), "LC_ALL": "C.UTF-8"}
        runtime = "/run/user/%d" % uid
        if os.path.isdir(runtime):
            environment["XDG_RUNTIME_DIR"] = runtime
        seconds = max(1.0, min(OF_A_USER, self.end - time.monotonic()))
        try:
            done = subprocess.run(
                words, user=uid, group=entry.pw_gid, extra_groups=[], env=environment, cwd="/", timeout=seconds,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            log("UID %d: %s" % (uid, error))
            return None
        return done.stdout.decode(errors="replace") if done.returncode == 0 else None

    def of(self, uid: int) -> str:
        """The directory of a user."""
        return "%s/%d" % (self.storage, uid)

    def users(self) -> Iterator[int]:
        """Yield the UIDs of all users with a directory."""
        for name in sorted(os.listdir(self.storage) if os.path.isdir(self.storage) else ()):
            status = os.lstat("%s/%s" % (self.storage, name))
            if name.isdecimal() and status.st_uid == int(name):
                yield int(name)

    def images(self, uid: int) -> List[Unused]:
        """The images of a user."""
        text = self.call(uid, [sys.executable, "-E", "-s", "-B", sys.argv[0], "images", self.of(uid)])
        rows = map(ROW.fullmatch, (text or "").splitlines())
        return [Unused(float(row[1]), uid, row[2]) for row in rows if row]

    def remove(self, image: Unused) -> None:
        """Remove an image with all its names, unless a container of its user's has it."""
        containers = self.call(image.uid, [PODMAN, "ps", "--all", "--quiet", "--filter", "ancestor=" + image.id])
        if containers is None or containers.strip() or self.call(image.uid, [PODMAN, "untag", image.id]) is None:
            return
        if self.call(image.uid, [PODMAN, "rmi", image.id]) is not None:
            self.freed[image.uid] = self.freed.get(image.uid, 0) + 1

    def used(self) -> float:
        """How much of the file system is in use, in percent of what users can have (df(1))."""
        found = os.statvfs(self.storage)
        taken = found.f_blocks - found.f_bfree
        return 100.0 * taken / max(1, taken + found.f_bavail)


def prune(settings: Mapping[str, Any]) -> int:
    """Remove images: `storage`, `unused_for` (days), `above` (percent; 0: no limit), `former` UIDs; exit code."""
    syslog.openlog("slurmfab-containers", syslog.LOG_PID, syslog.LOG_DAEMON)
    run = Run(str(settings.get("storage", "")))
    of_former(run, settings.get("former", ()))
    left: List[Unused] = []
    for uid in run.users():
        if run.is_over():
            break
        if has_account(uid):
            run.call(
                uid,
                [PODMAN, "container", "prune", "--force", "--filter", "label=" + LABEL, "--filter", LEFT_CONTAINERS],
            )
            left += old_ones(run, uid, float(settings.get("unused_for", 0)))
    if settings.get("above"):
        make_room(run, sorted(left), float(settings["above"]))
    for uid, count in run.freed.items():
        log("UID %d: %d images were removed" % (uid, count))
    return 0


def old_ones(run: Run, uid: int, days: float) -> List[Unused]:
    """Remove the images of a user that nobody has used for some days, and return the others."""
    images, oldest = run.images(uid), time.time() - days * DAY
    for image in images:
        if days and image.used < oldest and not run.is_over():
            run.remove(image)
    return [image for image in images if not days or image.used >= oldest]


def make_room(run: Run, images: Sequence[Unused], percent: float) -> None:
    """Remove images, the longest unused ones first, until the disk is no fuller than that."""
    for image in images:
        if run.used() <= percent or run.is_over():
            return
        run.remove(image)


def of_former(run: Run, uids: Sequence[int]) -> None:
    """Remove the images of users who left the cluster file and have neither an account nor processes here any more."""
    for uid in uids:
        directory = run.of(uid)
        if os.path.isdir(directory) and not has_account(uid) and not has_processes(uid):
            with open_folder(run.storage) as storage:
                left = removal.remove(storage, str(uid), run.end)
            log("UID %d: the user left the cluster, the images were removed%s" % (uid, left and " but " + left))


def has_account(uid: int) -> bool:
    """Whether a user with this UID exists."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def has_processes(uid: int) -> bool:
    """Whether a user has processes here."""
    for name in os.listdir("/proc"):
        try:
            if name.isdecimal() and os.stat("/proc/" + name).st_uid == uid:
                return True
        except OSError:
            continue
    return False


def log(text: str) -> None:
    """Log a line."""
    syslog.syslog(syslog.LOG_INFO, " ".join(text.split()).encode(errors="backslashreplace").decode())
