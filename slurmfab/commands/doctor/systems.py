"""Which system each host runs: one that slurmfab deploys to?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.cluster.slurm.versions import SlurmVersion, distribution_version
from slurmfab.commands.doctor.finding import Finding, failure, ok

SYSTEM = """\
. /etc/os-release; echo "$VERSION_CODENAME"; echo "$ID $ID_LIKE"
/usr/sbin/slurmctld -V 2>/dev/null || /usr/sbin/slurmd -V 2>/dev/null || scontrol -V 2>/dev/null
"""
"""Prints the release's codename, what it is or is made from, and the version of the Slurm that is installed."""

WORD = re.compile(r"[\w .+~-]{1,80}")  # what is shown of a host's answer; anything else is left out


@dataclass(frozen=True)
class System:
    """What a host runs."""

    codename: str  # `VERSION_CODENAME` of os-release(5)
    kinds: tuple[str, ...]  # its `ID` and `ID_LIKE`, such as `ubuntu` and `debian`
    slurm: str = ""  # what the installed Slurm says of its version; empty for none


def parsed(output: bytes) -> System:
    """What `SYSTEM` has printed."""
    lines = output.decode(errors="replace").splitlines()[:3]
    codename, kinds, slurm = (line if WORD.fullmatch(line) else "" for line in (*lines, "", "", "")[:3])
    return System(codename, tuple(kinds.split()), slurm)


def judged(systems: Mapping[str, System], *, has_version: bool) -> Iterator[Finding]:
    """Yield which hosts slurmfab does not deploy to.

    Args:
        systems: what each host runs.
        has_version: whether the cluster file names a version of Slurm, which new hosts get whatever their release has.
    """
    reasons: dict[str, list[str]] = {}
    for host, system in systems.items():
        reason = refusal(system, has_version=has_version)
        if reason:
            reasons.setdefault(reason, []).append(host)
    for reason, hosts in sorted(reasons.items()):
        yield failure("hosts' systems", f"{fold(sorted(hosts))}: {reason}", is_host=True)
    if not reasons:
        releases = ", ".join(sorted({one.codename for one in systems.values()}))
        yield ok("hosts' systems", f"{fold(sorted(systems))}: {releases}")


def refusal(system: System, *, has_version: bool) -> str:
    """Why slurmfab does not deploy to a system; empty if it does."""
    if not {"debian", "ubuntu"} & set(system.kinds):
        name = system.kinds[0] if system.kinds else "an unknown system"
        return f"it runs {name}; slurmfab deploys to Debian and Ubuntu (docs/supported.md)."
    try:
        if system.slurm:
            SlurmVersion.parse(system.slurm)
        elif not has_version:
            distribution_version(system.codename)
    except SlurmfabError as error:
        return str(error)
    return ""
