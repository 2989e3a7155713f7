"""Calls of apt-get(8): the lists of packages, installations, and what interrupted ones left."""

from __future__ import annotations

import os
import re
import time
from typing import List, Tuple

from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.packages import dpkg_status

LISTS = "/var/lib/apt/lists"
SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/keyrings")
"""apt's sources and their keys; a directory's time is that of its last new or removed file.

Not /etc/apt, where a new version of apt leaves a new time.
"""

LISTS_AGE = 86400.0  # seconds after which package lists are fetched again
LOCK_SECONDS = 900.0  # how long to wait for the locks of apt and dpkg: a new machine's unattended upgrade takes minutes

INSTALL_SECONDS = 7200.0
"""Time limit of an installation; it is never killed before, because a killed dpkg leaves half-installed packages."""

ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    # needrestart would restart Slurm's daemons in the middle of a phase. Its own hook of apt heeds this one; Ubuntu's
    # restarts whatever NEEDRESTART_MODE says. What it has to see, it sees after the next run of apt by somebody else.
    "NEEDRESTART_SUSPEND": "1",
    "NEEDRESTART_MODE": "l",  # for hooks of a site's that run needrestart themselves
    "APT_LISTCHANGES_FRONTEND": "none",
}

OPTIONS = (
    "-q", "-y", "-o", "DPkg::Lock::Timeout=%d" % LOCK_SECONDS,
    "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
    # No fsync per file: an interrupted installation is repeated anyway.
    "-o", "Dpkg::Options::=--force-unsafe-io",
)  # fmt: skip

MINIMAL = ("--no-install-recommends", "--no-remove")
"""Options of apt-get: install no recommended packages, and remove none."""

DOWNGRADES = ("--allow-downgrades",)

WAY: List[str] = []
"""Options of apt-get for this session's downloads: files from the controller (`package_way`); empty for none."""

TRIED_AGAIN = re.compile(r"\nErr:(\d+) [^\n]*(?:\n  [^\n]*)?(?=\n(?:[^\n]*\n)*?Get:\1 )")
"""What apt-get prints of a list that is not there in one form, and is in the next one."""

CONFIGURE = ("dpkg", "--force-confdef", "--force-confold", "--configure", "-a")

FIX_BROKEN = ("--fix-broken", "install")
"""Arguments of apt-get that complete unfinished packages and install their missing dependencies."""


def lists_are_fresh(context: Context, now: float) -> bool:
    """Whether package lists were fetched within a day, and since the last change of apt's sources."""
    folder = context.path(LISTS)
    if not any("_Packages" in name for name in names(folder)):
        return False
    fetched = max(os.stat(path).st_mtime for path in (folder, folder + "/partial") if os.path.isdir(path))
    sources = [context.path(path) for path in SOURCES]
    changed = max((os.stat(path).st_mtime for path in sources if os.path.exists(path)), default=0.0)
    return now - fetched < LISTS_AGE and changed < fetched


def update(context: Context) -> str:
    """Fetch the package lists; what apt-get complained of, as other sources may have the packages."""
    code, output = apt_get(context, ["update"])
    return "" if code == 0 and "\nErr:" not in output else "\n" + output


def install(context: Context, packages: list[str], source: Tuple[str, ...] = ()) -> tuple[int, str]:
    """Install packages without recommended ones and without removing others.

    What an interrupted run left is completed first, because apt-get refuses all other work until then. `packages`:
    package names, `NAME=VERSION`, or paths of files. `source`: options of apt-get that select another package source;
    empty for the host's own. Returns the exit code of apt-get and all that it printed.
    """
    if dpkg_status.is_interrupted(context.root):
        code, output = complete(context, source)
        if code != 0:
            return code, output
    # A version in the cluster file may be an older one than the host's.
    has_files = any(package.startswith("/") for package in packages)
    older = DOWNGRADES if has_files or any("=" in package for package in packages) else ()
    # The user _apt cannot read files in a directory of root's.
    own = ["-o", "APT::Sandbox::User=root"] if has_files else []
    return apt_get(context, [*source, *own, *MINIMAL, *older, "install", "--", *packages])


def complete(context: Context, source: Tuple[str, ...]) -> tuple[int, str]:
    """Complete what an interrupted run left half unpacked, or without dependencies.

    Packages that were being unpacked are unpacked again, which neither dpkg nor apt-get does by itself. A failure of
    that is ignored: the package may have no source here, and `apt-get --fix-broken install` decides. `source`: as for
    `install`. Returns the exit code of `apt-get --fix-broken install`, and all that was printed.
    """
    again = reinstall_torn(context)
    printed = apt_get(context, [*source, *MINIMAL, *again])[1] if again else ""
    code, output = apt_get(context, [*source, *MINIMAL, *FIX_BROKEN])
    return code, printed + output


def configure(context: Context) -> str:
    """Have dpkg configure what is unpacked; what it printed."""
    done = context.run(CONFIGURE, seconds=INSTALL_SECONDS, env=ENVIRONMENT)
    return (done.stdout + b"\n" + done.stderr).decode(errors="replace")


def finish(context: Context) -> str:
    """Complete what an interrupted run left, by dpkg or else by apt-get; what the last one printed."""
    printed = configure(context) if dpkg_status.is_interrupted(context.root) else ""
    return complete(context, ())[1] if dpkg_status.is_interrupted(context.root) else printed


def reinstall_torn(context: Context) -> list[str]:
    """The arguments of apt-get that unpack again what dpkg was unpacking when it was killed; empty for nothing."""
    torn = dpkg_status.torn_packages(dpkg_status.read(context.root))
    return ["--fix-broken", "--reinstall", "install", "--", *torn] if torn else []


def apt_get(context: Context, arguments: list[str]) -> tuple[int, str]:
    """Run apt-get, for up to a quarter of an hour while others hold a lock; its exit code and all that it printed."""
    from slurmfab.on_hosts.agent.packages import apt_errors

    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        done = context.run(["apt-get", *OPTIONS, *WAY, *arguments], seconds=INSTALL_SECONDS, env=ENVIRONMENT)
        output = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
        output = TRIED_AGAIN.sub("", output) if WAY else output
        # DPkg::Lock::Timeout covers dpkg's lock only, not the locks of the lists and the archives.
        if done.returncode == 0 or not apt_errors.is_locked(output) or time.monotonic() > deadline:
            return done.returncode, output
        time.sleep(2)
