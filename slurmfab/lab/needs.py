"""What this machine must have for a lab, beside root and packages: looked at before anything is made."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import cgroups, machine, state
from slurmfab.lab.command import CONTAINED, TIED, call, succeeds
from slurmfab.lab.layout import CACHE, DISKS, LABS, ROOM, LabLayout

NEEDED = 3 << 30
"""Bytes of memory that must be available for a tmpfs: a base tree has 0.6 GiB, and each deployed host 0.2 GiB."""

MEMORY = Path("/proc/meminfo")

TRY = """
set -e
cd "$1"
mkdir lower upper work root
exec mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work root
"""
"""Shell script that mounts an overlay in a directory."""


def ensure_room(progress: Callable[[str], None]) -> None:
    """Mount a tmpfs where disks have no place; LabError, with what to do, if memory or rights are missing."""
    with state.locked(ROOM):
        for place in (CACHE, LABS.parent):
            place.mkdir(parents=True, exist_ok=True)
            if not holds_overlays(place):
                _mount_memory(place, progress)
    for place in (CACHE, LABS, DISKS):
        place.mkdir(mode=0o700, exist_ok=True)
    for place in open_to_others():
        os.chown(place, os.geteuid(), os.getegid())
        place.chmod(0o700)


def open_to_others() -> tuple[Path, ...]:
    """The directories of hosts' file systems, with programs that are setuid and old, that are not this user's alone."""
    there = {one: one.stat() for one in (CACHE, LABS, DISKS) if one.is_dir()}
    return tuple(one for one, its in there.items() if its.st_mode & 0o077 or its.st_uid != os.geteuid())


def holds_overlays(place: Path) -> bool:
    """Whether an overlay can have its upper directory there; tried in a mount namespace of its own."""
    with tempfile.TemporaryDirectory(prefix=".trying-", dir=place) as directory:
        return succeeds([*CONTAINED, "sh", "-c", TRY, "sh", directory])


REMEDY = (
    f"Mount a file system that can, such as ext4, with 4 GiB at {CACHE} and another at {LABS.parent} "
    "(a container gets them as volumes, and must be allowed to mount: --privileged)."
)


def shortage(place: Path) -> str:
    """Why no tmpfs can replace a file system, given by a directory, that cannot hold disks; empty if one can."""
    available = available_memory()
    if available >= NEEDED:
        return ""
    return f"{_why(place)}, and {available >> 20} MiB of memory are too little for a tmpfs. {REMEDY}"


def _why(place: Path) -> str:
    """What is wrong with the file system of a directory."""
    kind = call(["stat", "--file-system", "--format=%T", str(place)]).strip()
    return f"{place} is on a file system ({kind}) that cannot hold the disks of hosts"


def _mount_memory(place: Path, progress: Callable[[str], None]) -> None:
    """Mount a tmpfs."""
    if short := shortage(place):
        raise LabError(short)
    why = _why(place)
    progress(f"{why}, as in a container: a tmpfs holds them, in this machine's memory")
    try:
        call(["mount", "-t", "tmpfs", "-o", "mode=755,size=75%", "slurmfab", str(place)])
    except LabError as error:
        raise LabError(f"{why}, and no tmpfs can be mounted there. {REMEDY} {error}") from error
    if not holds_overlays(place):
        call(["umount", str(place)])
        raise LabError(f"{why}, and neither can a tmpfs on this kernel. {REMEDY}")


def available_memory() -> int:
    """Bytes of this machine's memory that programs can have."""
    return _available(MEMORY.read_text())


def _available(text: str) -> int:
    """Bytes of memory that programs can have, from the text of /proc/meminfo."""
    found = re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


CONTAINER = "A container needs --privileged and --cgroupns=private for a lab."

DEVICES = """
set -e
ip link add lab-try type bridge
ip link add lab-one type veth peer name lab-two
nft 'add table ip lab_try; add chain ip lab_try out { type nat hook postrouting priority srcnat; }'
nft 'add rule ip lab_try out ip saddr 192.0.2.0/24 masquerade'
nft 'add table inet lab_try; add chain inet lab_try through { type filter hook forward priority filter; }'
nft 'add rule inet lab_try through oifname "lab-try" ct state established,related accept'
"""
"""Shell script that makes, in a network namespace of its own, all kinds of things that a lab's network consists of."""

FIRST_UID = 1000  # of the first user that useradd makes, also on a look-alike of Ubuntu
LEAST_MEMORY = 2 << 30  # bytes of memory with which a lab of three hosts deploys; less is told


def require() -> None:
    """Check that a lab can be started here; LabError names all that is missing, with what to do."""
    found = tuple(obstacles())
    if found:
        raise LabError("This machine cannot run a lab. " + " ".join(found))


def obstacles() -> Iterator[str]:
    """Yield what is missing on this machine and keeps every lab from starting, each with what to do."""
    yield from _settings(machine.shut())
    yield from _control_groups(cgroups.lab_directories(LabLayout("try")))
    done = subprocess.run([*TIED, "unshare", "--net", "sh", "-c", DEVICES], capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split())[-200:] or f"exit code {done.returncode}"
        yield f"It cannot make a bridge, veth devices and nftables rules with masquerading ({said}). {CONTAINER}"


def _settings(shut: Mapping[str, int]) -> Iterator[str]:
    """Yield what to do about kernel settings (least value by name) that a lab would raise and cannot."""
    if shut:
        wanted = " ".join(f"{name.replace('/', '.')}={least}" for name, least in shut.items())
        yield f"/proc/sys is read-only here. Where it is not, such as outside of a container: sysctl -w {wanted}."


def _control_groups(directories: tuple[Path, ...]) -> Iterator[str]:
    """Yield what to do where no host can have control groups of its own. `directories`: those that a lab would make."""
    if not directories:
        yield f"No control groups are mounted in /sys/fs/cgroup. {CONTAINER}"
    shut = [str(directory.parent) for directory in directories if not os.access(directory.parent, os.W_OK)]
    if shut:
        yield f"No control groups can be made in {shut[0]}. {CONTAINER}"


def of_others(uid: int) -> str:
    """The name of a user of this machine with this UID, unless that is who called sudo; empty for none.

    Who has the UID of a user on a lab's host reaches that user's files through /proc, and root of the host by its sudo.
    """
    if str(uid) == os.environ.get("SUDO_UID"):
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def remarks() -> Iterator[str]:
    """Yield what makes labs slow or keeps their hosts from the package mirror, each with what to do."""
    total = re.search(r"^MemTotal: +(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    if total and int(total[1]) << 10 < LEAST_MEMORY:
        yield f"{int(total[1]) >> 10} MiB of memory are little for a lab: try it with --nodes 1."
    done = subprocess.run([*TIED, "nft", "-j", "list", "chains"], capture_output=True, text=True, check=False)
    if not done.returncode:
        yield from _firewalls(done.stdout)


def _firewalls(listing: str) -> Iterator[str]:
    """Yield which firewalls of `nft -j list chains` drop packets between the lab's hosts and the mirror."""
    chains = [one["chain"] for one in json.loads(listing)["nftables"] if "chain" in one]
    for chain in chains:
        if chain.get("hook") == "forward" and chain.get("policy") == "drop":
            place = f"{chain['family']} {chain['table']} {chain['name']}"
            allow = f"nft insert rule {place} iifname 'sf-*' accept; nft insert rule {place} oifname 'sf-*' accept"
            yield (
                f"A firewall (chain {place}, as Docker makes it) drops what hosts of a lab send to the package mirror, "
                f"unless its rules allow that. Try: {allow}"
            )
