"""What SELinux's policy has to know of a host: which types files have at places of slurmfab's own, and homes on NFS."""

from __future__ import annotations

import os
import re
import stat
from typing import ClassVar, Dict, List, Optional, Tuple

from slurmfab.on_hosts.agent.core import labels, mounts
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

NFS_HOMES = "use_nfs_home_dirs"
"""The boolean of the policy with which sshd and other confined daemons may read homes on NFS (nfs_selinux(8))."""

BOOLEAN = "boolean " + NFS_HOMES
BOOLEANS = "/sys/fs/selinux/booleans/"
SEMANAGE = "semanage"
PROGRAMS = ("/usr/sbin/", "/usr/bin/")
WITHOUT_SEMANAGE = (
    "semanage is not installed, by which SELinux's policy learns that files below %s have the type %s; without that, "
    "sshd does not read the slurm user's keys while SELinux enforces. Repair: dnf install policycoreutils-python-utils"
)
SECONDS = 300.0  # for a command that compiles the whole policy anew


class SelinuxSettings(Resource):
    """The policy's types of files below directories, and its boolean for homes on NFS; nothing without SELinux."""

    kind: ClassVar[str] = "selinux-settings"
    only_name: ClassVar[str] = "selinux"
    deadline: ClassVar[float] = 3 * SECONDS
    types: Tuple[Tuple[str, str], ...]  # absolute path of a directory, and the type of all files below it
    homes: Tuple[str, ...] = ()  # absolute paths of directories with homes

    def wanted(self, context: Context) -> State:
        """The type of the files below each directory, and the boolean where homes are on NFS."""
        if labels.policy() is None:
            return {}
        types = () if self.is_deaf(context) else self.types
        nfs = {BOOLEAN: "on"} if has_nfs(mounts.read(context.path(labels.MOUNTS)), self.homes) else {}
        return {**{below(directory): kind for directory, kind in types}, **nfs}

    def is_deaf(self, context: Context) -> bool:
        """Whether the policy can learn no types, which does not matter while it is not enforced."""
        is_there = any(os.path.exists(context.path(folder + SEMANAGE)) for folder in PROGRAMS)
        return not is_there and read_text(context.path(labels.ENFORCE)).strip() != "1"

    def actual(self, context: Context) -> State:
        """The same as the policy has it; a remark where it can learn no types."""
        policy = labels.policy()
        if policy is None:
            return {}
        if self.types and self.is_deaf(context):
            context.remark = WITHOUT_SEMANAGE % self.types[0]
        found: Dict[str, Optional[str]] = {}
        for directory, _ in self.types:
            label = policy.label(os.path.join(context.path(directory), "x"), stat.S_IFREG)
            found[below(directory)] = labels.type_of(label) if label else None
        value = read_text(context.path(BOOLEANS + NFS_HOMES)).split()[:1]
        return {**found, BOOLEAN: "on" if value == ["1"] else "off"}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Tell the policy; ResourceFailed of semanage and setsebool."""
        for directory, kind in self.types:
            if below(directory) in differing:
                self.add(context, directory, kind)
        if BOOLEAN in differing:
            context.must(["setsebool", "-P", NFS_HOMES, "on"], seconds=SECONDS)

    def add(self, context: Context, directory: str, kind: str) -> None:
        """Add a rule to the policy, in place of another for the same directory."""
        rule = ["--type", kind, re.escape(directory) + "(/.*)?"]
        try:
            done = context.run([SEMANAGE, "fcontext", "--add", *rule], seconds=SECONDS)
        except ResourceFailed:
            raise ResourceFailed(WITHOUT_SEMANAGE % (directory, kind)) from None
        if done.returncode != 0:
            context.must([SEMANAGE, "fcontext", "--modify", *rule], seconds=SECONDS)
        labels.policy.cache_clear()


def below(directory: str) -> str:
    """The name of a difference."""
    return "label below " + directory


def has_nfs(found: List[mounts.Mount], directories: Tuple[str, ...]) -> bool:
    """Whether one of these directories, or something in it, is on NFS."""
    nfs = [one for one in found if one.type.startswith("nfs")]
    return any(
        mounts.at(directory, found) in nfs or any(mounts.below(one.path, directory) for one in nfs)
        for directory in directories
    )
