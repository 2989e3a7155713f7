"""What an update would do on hosts, as their agents tell it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from slurmfab.base.errors import HostError, SlurmfabError
from slurmfab.base.json_output import Key, shows
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.platform import PLATFORMS, wanted
from slurmfab.core.engine import requests, sleeping
from slurmfab.core.engine.actor import who
from slurmfab.core.engine.run import Run
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.packages.updates import Candidate
from slurmfab.on_hosts.agent.services.replaced_files import is_restartable

OLD_SECONDS = 86400.0
"""Age from which package lists count as old: apt's own timer fetches them each day where it is switched on."""


class Kept(NamedTuple):
    """A package that has a newer version and stays as it is."""

    name: str  # its name
    installed: str  # its version
    candidate: str  # the newer one
    # `slurm` for Slurm's own, `held` where the site holds it, `apt` where others would have to be removed
    why: str


@shows("unit", "files", Key("restarted", "is_restarted"))
class Daemon(NamedTuple):
    """A daemon that uses replaced files."""

    unit: str  # the name of its unit; `init` for systemd itself
    files: tuple[str, ...]  # names of some of these files

    @property
    def is_restarted(self) -> bool:
        """Whether an update restarts it; otherwise only a reboot does."""
        return is_restartable(self.unit)


@dataclass(frozen=True)
class HostUpdates:
    """What an update would do on one host."""

    packages: tuple[Candidate, ...] = ()  # those that are updated, and new ones that these need
    kept: tuple[Kept, ...] = ()  # those that stay as they are although there is a newer version
    removed: tuple[str, ...] = ()  # packages that a full upgrade of apt would remove, and an update does not
    reboot: tuple[str, ...] = ()  # why the host needs a reboot now; empty if it does not
    daemons: tuple[Daemon, ...] = ()  # those that use replaced files
    # seconds since the package lists were fetched, on the host where that is longest ago; -1 for never
    age: float = 0.0
    unfinished: str = ""  # packages that dpkg has not completed
    trouble: str = ""  # why apt did not fetch all lists

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> HostUpdates:
        """The value `updates` of an agent's answer, which its model has checked."""
        return cls(
            tuple(Candidate(*one) for one in answer["packages"]),
            tuple(Kept(*one) for one in answer["kept"]),
            tuple(answer["removed"]),
            tuple(answer["reboot"]),
            tuple(Daemon(unit, tuple(files)) for unit, files in sorted(answer["stale"].items())),
            answer["age"],
            answer["unfinished"],
            answer["trouble"],
        )

    @property
    def versions(self) -> tuple[str, ...]:
        """The packages that are updated, as `NAME=VERSION`."""
        return tuple(f"{one.name}={one.candidate}" for one in self.packages)

    @property
    def restarted(self) -> tuple[Daemon, ...]:
        """The daemons that an update restarts."""
        return tuple(one for one in self.daemons if one.is_restarted)

    @property
    def reboot_reasons(self) -> tuple[str, ...]:
        """Why these hosts need a reboot, also for daemons that are not restarted; empty if they do not."""
        left = [one for one in self.daemons if not one.is_restarted]
        names = ", ".join("systemd itself" if one.unit == "init" else one.unit for one in left)
        verb = "uses" if len(left) == 1 else "use"
        return (*self.reboot, *((f"{names} {verb} replaced files",) if left else ()))

    @property
    def has_old_lists(self) -> bool:
        """Whether the package lists are old or missing."""
        return self.age < 0 or self.age > OLD_SECONDS

    def is_due(self, *, reboots: bool) -> bool:
        """Whether there is something to do. `reboots`: whether the host is rebooted if it needs that."""
        return bool(self.packages or self.unfinished or self.restarted or (reboots and self.reboot_reasons))


def slurms_own() -> tuple[str, ...]:
    """The names of Slurm's own packages, of every kind."""
    return tuple(sorted({name for platform in PLATFORMS.values() for name in platform.slurm_packages}))


def may_reboot(cluster: Cluster, host: str) -> bool:
    """Whether an update reboots a host: compute nodes that are nothing else.

    A controller cannot wait for its own return, and on a login host people would lose their sessions.
    """
    return cluster.roles(host) == ("compute",)


class Group(NamedTuple):
    """Hosts that are updated after one another or together."""

    name: str  # `compute nodes`, `login hosts`, or `controllers and database`
    hosts: tuple[str, ...]  # in the order in which they are updated


def groups(cluster: Cluster, hosts: tuple[str, ...]) -> tuple[Group, ...]:
    """The hosts in the order of an update: compute, login, backup controllers, database, primary controller."""
    central = {*cluster.controllers, *(host for host in hosts if "database" in cluster.roles(host))}
    order = [host for host in cluster.controllers if host != cluster.controller]
    last = sorted(central & set(hosts), key=lambda host: (host == cluster.controller, host not in order, host))
    compute = tuple(host for host in hosts if host not in central and "compute" in cluster.roles(host))
    login = tuple(host for host in hosts if host not in central and host not in compute)
    made = (
        Group("compute nodes", compute),
        Group("login hosts", login),
        Group("controllers and database", tuple(last)),
    )
    return tuple(group for group in made if group.hosts)


def ask_hosts(run: Run, hosts: Iterable[str], *, only_security: bool, fetches: bool) -> dict[str, HostUpdates]:
    """What an update would do on hosts, excluding silent ones; `fetches`: with their lists fetched first."""
    names = tuple(hosts)
    run.progress.begin("fetching package lists" if fetches else "asking", names)
    found: dict[str, HostUpdates] = {}
    silent: dict[str, HostError] = {}
    for host, answer in on_each(
        names, lambda host: ask_updates(run, host, only_security=only_security, fetches=fetches)
    ):
        if isinstance(answer, HostError) and requests.may_be_asleep(run, host, answer):
            silent[host] = answer
        elif isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            found[host] = answer
            run.progress.host_done(host)
    for host, error in {**silent, **(sleeping.among(run, silent) if silent else {})}.items():
        run.exclude(host, error)
    run.progress.end()
    return {host: found[host] for host in names if host in found}


def ask_updates(run: Run, host: str, *, only_security: bool, fetches: bool) -> HostUpdates:
    """What an update would do on one host; arguments as of `ask_hosts`, HostError if it does not answer."""
    request = {
        "op": "updates",
        "manager": wanted(run.inventory.cluster, host).manager.name,
        "slurm": slurms_own(),
        "security": only_security,
        "fetch": fetches,
        "who": f"{who()}, fab {run.options.command}",
    }
    return HostUpdates.from_answer(answer_value(host, run.transport.call(host, request), "updates"))
