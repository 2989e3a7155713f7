"""Profiles of AppArmor's by which programs may make user namespaces: their files, and what the kernel has of them.

A former one is taken out of the kernel as well, since of two profiles that are attached to one path neither counts.
"""

from __future__ import annotations

import re
from typing import ClassVar

from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles, read_record

OF = "apparmor"
LOADED = "loaded into the kernel"
IN_KERNEL = "/sys/kernel/security/apparmor/profiles"
OURS = re.compile(r"^(slurmfab\.\S+) \(", re.MULTILINE)


class AppArmorProfiles(OwnedFiles):
    """The files, each with a profile `slurmfab.…` that has the file's name, as the kernel has them."""

    kind: ClassVar[str] = "apparmor-profiles"
    besides: ClassVar[State] = {LOADED: None}

    def wanted(self, context: Context) -> State:
        """The files, loaded."""
        return {**super().wanted(context), LOADED: " ".join(sorted(map(named, self.by_path()))) or None}

    def actual(self, context: Context) -> State:
        """The same as found."""
        there = OURS.findall(read_text(context.path(IN_KERNEL)))
        return {**super().actual(context), LOADED: " ".join(sorted(there)) or None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Take former ones out of the kernel, then write and load the others; ResourceFailed if it refuses one."""
        for path in read_record(context, self.record_path).files:
            if path not in self.by_path():
                context.run(["apparmor_parser", "--remove", context.path(path)])
        super().converge(context, differing)
        for path in self.by_path():
            context.must(["apparmor_parser", "--replace", context.path(path)])


def named(path: str) -> str:
    """The last part of a path, which is the name of the profile in it."""
    return path.rpartition("/")[2]
