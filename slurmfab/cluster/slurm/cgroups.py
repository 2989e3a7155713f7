"""Messages about a host's control groups: what Slurm cannot use, the effect on jobs, and what to change.

Sources: cgroup.conf(5), the cgroup v2 page of Slurm's documentation, systemd(1) on `systemd.unified_cgroup_hierarchy`,
and the kernel's list of parameters (`cgroup_disable`, `cgroup_enable`, `cgroup_no_v1`, `swapaccount`).
"""

from __future__ import annotations

from collections.abc import Collection

from slurmfab.cluster.facts import Cgroup
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.on_hosts.agent.facts.cgroups import NO_BUS

V1_DEPRECATED = SlurmVersion(25, 5)
"""From this version slurmd warns about the plugin for cgroup v1 (RELEASE_NOTES of 25.05)."""

ONLY_V2 = "systemd.unified_cgroup_hierarchy=1"
ONLY_V1 = "systemd.unified_cgroup_hierarchy=0"
SWAP = "swapaccount=1"
WHERE = "on the kernel's command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and a reboot)"

ABOUT_ALL = {
    "hybrid": "version 1 beside a version 2 at /sys/fs/cgroup/systemd, which Slurm would choose and cannot use",
    "nothing mounted": "nothing is mounted at /sys/fs/cgroup",
    "no systemd": "version 1 without /sys/fs/cgroup/systemd, by which Slurm knows it",
    "read-only": "version 2, mounted read-only",
    NO_BUS: "version 2, and no D-Bus system bus, over which Slurm asks systemd for its place",
}
"""Problems of all control groups, by the agent's word for them."""

OF_ONE = {
    "off": "{} switched off at boot",
    "missing": "{} missing from /sys/fs/cgroup/cgroup.controllers",
    "on v1": "{} taken by version 1",
    "not mounted": "{} not mounted",
    "read-only": "{} mounted read-only",
}
"""Problems of single controllers, by the agent's word for them."""


def description(cgroup: Cgroup) -> str:
    """A host's control groups with their problem, such as `version 2 with cpuset and memory taken by version 1`."""
    about_all = [ABOUT_ALL[trouble] for trouble in _worst(cgroup) if trouble in ABOUT_ALL]
    if about_all:
        return "; ".join(about_all)
    if cgroup.version not in ("v1", "v2"):
        return ABOUT_ALL["hybrid" if cgroup.version == "hybrid" else "nothing mounted"]
    number = cgroup.version.removeprefix("v")
    by_trouble = _by_trouble(cgroup)
    if by_trouble:
        some = " and ".join(OF_ONE.get(why, "{} " + why).format(_all_of(names)) for why, names in by_trouble.items())
        return f"version {number} with {some}"
    if cgroup.is_usable:
        return f"version {number}" + ("" if cgroup.swap else " without accounting of swap space")
    return f"version {number} with {_all_of(cgroup.controllers)} alone" if cgroup.controllers else f"version {number}"


def repair(cgroup: Cgroup, like: str = "") -> str:
    """How a host makes its control groups usable; `like` is the other nodes' version, or empty."""
    version = ONLY_V1 if like == "v1" else ONLY_V2
    whys = _by_trouble(cgroup)
    if "read-only" in cgroup.troubles or "read-only" in whys:
        places = " ".join(f"/sys/fs/cgroup/{name}" for name in whys.get("read-only", ())) or "/sys/fs/cgroup"
        mounts = "; ".join(f"mount -o remount,rw {place}" for place in places.split())
        return f"{mounts} (in a container, have its manager mount it writable)"
    if _worst(cgroup) == (NO_BUS,):
        return "apt-get install dbus && systemctl start dbus.socket"
    if "off" in whys:
        arguments = " ".join(f"cgroup_enable={name}" for name in whys["off"])
        swap = f" {SWAP}" if "memory" in whys["off"] else ""
        return f"{arguments}{swap} instead of cgroup_disable=… {WHERE}"
    if cgroup.is_usable:
        return f"{SWAP} {WHERE}"
    if "missing" in whys:
        return (
            f"cgroup_enable=memory {WHERE}; in a container, have its manager hand the controllers down "
            "(cgroup.subtree_control)"
        )
    return f"{version} {WHERE}"


def lacks(cgroup: Cgroup, needed: Cgroup) -> bool:
    """Whether control groups can do less than needed ones."""
    return (needed.is_usable and not cgroup.is_usable) or (needed.swap and not cgroup.swap)


def refusal(cgroup: Cgroup, version: str) -> str:
    """The message about control groups that can do less than those of other nodes, in this version (or empty)."""
    return (
        f"its control groups ({description(cgroup)}) can do less than those of the other nodes. Slurm has one "
        f"setting for all nodes, so jobs could exceed their {unlimited(cgroup)} on every node. Change on this host: "
        f"{repair(cgroup, version)}."
    )


def usual_version(members: Collection[Cgroup]) -> str:
    """The version (`v1` or `v2`) of most usable control groups; empty if none is usable."""
    usable = [member.version for member in members if member.is_usable]
    return max(sorted(set(usable)), key=usable.count, default="")


def unlimited(cgroup: Cgroup) -> str:
    """The resources that jobs could use without limit on a host with these control groups."""
    return "swap space" if cgroup.is_usable else "cores, memory and devices"


def _worst(cgroup: Cgroup) -> tuple[str, ...]:
    """Blocking problems; a missing D-Bus is reported only if it is the only one."""
    return tuple(trouble for trouble in cgroup.troubles if trouble != NO_BUS) or cgroup.troubles


def _by_trouble(cgroup: Cgroup) -> dict[str, list[str]]:
    """The controllers with a problem, by problem."""
    found: dict[str, list[str]] = {}
    for text in _worst(cgroup):
        name, _, why = text.partition(" ")
        if text not in ABOUT_ALL:
            found.setdefault(why, []).append(name)
    return found


def _all_of(names: Collection[str]) -> str:
    """Join names for a sentence: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(list(names)[:-1]), *list(names)[-1:])))
