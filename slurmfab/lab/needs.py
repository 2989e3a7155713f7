"""What this machine must have for a lab, beside root and packages: looked at before anything is made."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import cgroups, machine
from slurmfab.lab.command import TIED
from slurmfab.lab.layout import LabLayout

CONTAINER = "A container needs --privileged and --cgroupns=private for a lab."

DEVICES = """
set -e
ip link add lab-try type bridge
ip link add lab-one type veth peer name lab-two
nft 'add table ip lab_try; add chain ip lab_try out { type nat hook postrouting priority srcnat; }'
nft 'add rule ip lab_try out ip saddr 192.0.2.0/24 masquerade'
"""
"""Shell script that makes, in a network namespace of its own, all kinds of things that a lab's network consists of."""

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
