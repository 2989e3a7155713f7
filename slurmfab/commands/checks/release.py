"""What checks of Slurm's versions raise, and the exact command by which a host gets the controller's packages again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from slurmfab.cluster.slurm import mixed
from slurmfab.cluster.slurm.platform import APT, Platform
from slurmfab.commands.checks.hosts import CheckedHost

SIMULATED = "LC_ALL=C apt-get install --simulate --quiet --allow-downgrades %s 2>&1"
"""Says whether apt can do that, and changes nothing."""

HISTORY = "cat /var/log/apt/history.log.1 /var/log/apt/history.log 2>/dev/null | tail -c 200000"
"""Prints what apt has done of late, the newest last; a compressed log is older than a month."""

UPGRADED = re.compile(r"([a-z0-9][a-z0-9.+-]*):[a-z0-9]+ \(([^ ,()]+), [^ ,()]+\)")
"""A package in a line `Upgrade:` of that log: its name and the version before."""

ROUNDS = 4  # how often apt may name further libraries


class OtherRelease(AssertionError):
    """A host's Slurm does not work with the controller's; no other check of Slurm runs there."""


class Remark(Exception):
    """A check has passed and has something to tell all the same."""


def way_back(host: CheckedHost, controller: CheckedHost, kind: Platform) -> str:
    """How a host gets the versions of Slurm's packages that the controller has, as the end of a sentence."""
    target = min({*packages(controller, kind).values()}, default="")
    words = [f"{name}{kind.manager.joint}{target}" for name, found in packages(host, kind).items() if found != target]
    if kind.manager != APT:
        return mixed.back_to(words, host.name, libraries=False, manager=kind.manager)
    refused = simulated(host, words)
    if refused and "was not found" in refused:
        lacking = f"apt there knows no version {target}: first, add the source that the controller has it from"
        return f"{lacking}; then {mixed.back_to(words, host.name, libraries=False)}"
    before = former(str(host.as_found.run(HISTORY).stdout), [word.partition("=")[0] for word in words])
    for _ in range(ROUNDS):
        more = [f"{name}={version}" for name, version in before.items() if is_named(name, refused or "")]
        if not set(more) - set(words):
            break
        words += [word for word in more if word not in words]
        refused = simulated(host, words)
    return mixed.back_to(words, host.name, libraries=refused is not None)


def is_named(package: str, said: str) -> bool:
    """Whether apt names a package in what it says."""
    return re.search(rf"(?<![\w.+-]){re.escape(package)}(?![\w.+-])", said) is not None


def packages(host: CheckedHost, kind: Platform) -> Mapping[str, str]:
    """The installed versions of a kind's packages on a host, by name."""
    question = kind.manager.versions.replace("%s", " ".join(kind.slurm_packages))
    lines = str(host.as_found.run(question).stdout).splitlines()
    rows = [line.split(" ") for line in lines]
    return {row[0]: row[1] for row in rows if row[2:] == ["installed"]}


def simulated(host: CheckedHost, words: Iterable[str]) -> str | None:
    """What apt says where it cannot install these; `None` where it can."""
    done = host.as_found.run(SIMULATED.replace("%s", " ".join(words)))
    return None if done.rc == 0 else str(done.stdout)


def former(history: str, names: Iterable[str]) -> dict[str, str]:
    """The versions before the last run of apt that upgraded one of these packages, of all others that it upgraded."""
    ours = set(names)
    for line in reversed(history.splitlines()):
        found = dict(UPGRADED.findall(line)) if line.startswith("Upgrade:") else {}
        if ours & found.keys():
            return {name: version for name, version in found.items() if name not in ours}
    return {}
