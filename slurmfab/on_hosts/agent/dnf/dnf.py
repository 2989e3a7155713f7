"""Calls of dnf(8): installations, the locks that they wait for, and what a killed one has left."""

from __future__ import annotations

import os
import time
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.dnf import dnf_errors, rpm_database
from slurmfab.on_hosts.agent.dnf.slurm_repository import NAME
from slurmfab.on_hosts.agent.packages import bundle_place
from slurmfab.on_hosts.agent.packages.packages import PLACES
from slurmfab.on_hosts.agent.packages.unfinished import is_locked

LOCK_SECONDS = 900.0  # how long to wait for the locks of dnf and rpm: a new machine's first update takes minutes

INSTALL_SECONDS = 7200.0
"""Time limit of an installation; it is never killed before, because a killed one leaves packages without scripts."""

OPTIONS = (
    "-y", "--color=never", "--setopt=install_weak_deps=False", "--setopt=exit_on_lock=True",
    # Of our own source alone: the hold there is for `dnf upgrade`.
    "--disableexcludes=" + NAME,
)  # fmt: skip
LOCKS = ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock")  # in Enterprise Linux 9 and 10
FRESH = ("--refresh",)

QUIET = {"SYSTEMD_OFFLINE": "1"}
"""Environment with which systemctl in packages' scripts restarts nothing: Slurm's would restart daemons whose turn has
not come."""

FILES = "[%{=NAME}\\t%{FILENAMES}\\n]"  # a line for each file of a package


class Killed(NamedTuple):
    """What a killed transaction has left."""

    packages: Tuple[str, ...] = ()  # those that are there, but whose scripts may not have run
    double: Tuple[str, ...] = ()  # those of them that are there in two versions


def install(context: Context, packages: Sequence[str], source: Sequence[str] = ()) -> Tuple[int, str]:
    """Install packages without weak dependencies; the exit code of dnf and all that it printed.

    `packages`: `NAME`, or `NAME-VERSION` with `*` for the end of one. `source`: `of_bundle`. What dnf
    remembers of the sources may be two days old, so it asks them again before a package counts as unknown.
    """
    code, output = dnf(context, [*source, "install", *packages])
    if code != 0 and not source and dnf_errors.is_stale(output):
        code, output = dnf(context, [*FRESH, "install", *packages])
    return code, output


def complete(
    context: Context,
    left: Killed,
    texts: Sequence[str],
    env: Optional[Mapping[str, str]] = None,
    source: Sequence[str] = (),
) -> Tuple[int, str]:
    """Install anew what was there when a transaction was killed; the exit code of dnf and all that it printed.

    `texts`: the same packages, or their files. `source`: `of_bundle`. Of a package that is there in two
    versions the older one goes first: dnf reinstalls the newer with it.
    """
    code, printed = dnf(context, [*source, "remove", "--duplicates"], env) if left.double else (0, "")
    if code != 0:
        return code, printed
    code, output = dnf(context, [*source, "reinstall", *texts], env)
    return code, printed + output


def killed(context: Context) -> Killed:
    """What a killed transaction has left; nothing while a program changes packages."""
    names = rpm_database.unended(context.root)
    if is_locked(context.root, LOCKS):
        names = []
    there = [name for name, _ in rpm_database.rows(printed(context, names))] if names else []
    left = tuple(name for name in names if name in there)
    return Killed(left, tuple(name for name in left if there.count(name) > 1))


def printed(context: Context, names: Sequence[str], shown: str = rpm_database.FORMAT) -> str:
    """What rpm prints of packages."""
    return context.run(rpm_database.query(context.root, names, shown)).stdout.decode(errors="replace")


def missing_files(context: Context, names: Sequence[str]) -> Tuple[Tuple[str, str], ...]:
    """Package and path of each program, library or unit of some packages that is gone."""
    files = rpm_database.rows(printed(context, names, FILES))
    root = context.root.rstrip("/")
    return tuple(one for one in files if PLACES.match(one[1]) and not os.path.lexists(root + one[1]))


def dnf(context: Context, arguments: Sequence[str], env: Optional[Mapping[str, str]] = None) -> Tuple[int, str]:
    """Run dnf, for up to a quarter of an hour while others hold a lock; its exit code and all that it printed."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        done = context.run(["dnf", *below(context), *OPTIONS, *arguments], seconds=INSTALL_SECONDS, env=env)
        output = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        if done.returncode == 0 or not dnf_errors.is_locked(output) or time.monotonic() > deadline:
            return done.returncode, output
        time.sleep(2)


def of_bundle(context: Context, bundle: str) -> Tuple[str, ...]:
    """The options that restrict dnf to installed packages and a bundle's (`dnf_bundle`); none without its digest."""
    place = context.path(bundle_place.place_of(bundle)) if bundle else ""
    return ("--setopt=reposdir=" + place, "--setopt=cachedir=%s/cache" % place) if place else ()


def below(context: Context) -> List[str]:
    """Options of dnf for another root than the host's."""
    return ["--installroot", os.path.abspath(context.root)] if context.root != "/" else []
