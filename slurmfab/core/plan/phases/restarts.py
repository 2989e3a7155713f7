"""Drop-ins of daemons' units: what crashes is started again, slurmctld never without its state; jobs keep SIGPIPE.

A slurmd with several controllers is started once one of them acts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from slurmfab.base.paths import UNIT_FILES
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.plan.directories import other_uses
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

OF = "restarts"  # what the facts of a host with these files have among `owned`
DROP_IN = "10-slurmfab.conf"  # its number lets the settings of a site's drop-in go over it (systemd.unit(5))

PASSES_SIGPIPE_ON = SlurmVersion(26, 5)
"""From here on slurmd leaves SIGPIPE ignored, as systemd starts it, and with it every job (systemd.exec(5))."""

DAEMONS = {"slurmctld": "controller", "slurmdbd": "database", "slurmd": "compute"}
"""The role of a host that has the daemon."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The drop-ins of a host's daemons, which systemd has loaded; nothing is restarted for them."""
    files = tuple(drop_ins(plan_input, host))
    written = owned(plan_input, host, OF, files)
    if not written:
        return ()
    units = tuple(file.path.split("/")[-2].removesuffix(".d") for file in files)
    names = units or tuple(f"{daemon}.service" for daemon in daemons_of(plan_input, host))
    return (*written, UnitsLoaded(OF, names, tuple(file.path for file in files)))


def daemons_of(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The daemons of a host, `munge` first."""
    roles = plan_input.cluster.roles(host)
    return ("munge", *(daemon for daemon, role in DAEMONS.items() if role in roles))


def drop_ins(plan_input: PlanInput, host: str) -> Iterator[OwnedFile]:
    """Yield the drop-ins; a daemon of which the site says itself when it is started again keeps that."""
    for daemon in daemons_of(plan_input, host):
        has_own = plan_input.cluster.fetches(host) if daemon == "slurmd" else False
        is_ours = plan_input.cluster.restart_daemons and not has_own and daemon not in others(plan_input, host)
        keeps_sigpipe = daemon == "slurmd" and plan_input.slurm_of(host) >= PASSES_SIGPIPE_ON
        if is_ours or keeps_sigpipe:
            state = plan_input.cluster.state_directory if daemon == "slurmctld" else ""
            has_database = daemon == "slurmctld" and plan_input.cluster.database is not None
            shared = (
                any(f"{used}/".startswith(f"{state}/") for _, used in other_uses(plan_input, host)) if state else False
            )
            waits = is_ours and daemon == "slurmd" and len(plan_input.cluster.controllers) > 1
            yield OwnedFile(path(daemon), text_of(is_ours, keeps_sigpipe, state, has_database, waits, shared=shared))


@cache
def text_of(restarts: bool, keeps_sigpipe: bool, state: str, has_database: bool, waits: bool, *, shared: bool) -> str:
    """The text of a drop-in, the same for all hosts."""
    context = {"restarts": restarts, "keeps_sigpipe": keeps_sigpipe, "state": state, "has_database": has_database}
    return fill("restart.conf", {**context, "waits": waits, "shared": shared})


def others(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The daemons of a host of which somebody else says whether systemd starts them again."""
    return plan_input.facts[host].restarted_by_others if host in plan_input.facts else ()


def path(daemon: str) -> str:
    """The path of a daemon's drop-in."""
    return f"{UNIT_FILES}/{daemon}.service.d/{DROP_IN}"


def watched(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The drop-in that a slurmd has to be started with, or else its jobs ignore SIGPIPE; empty before 26.05."""
    return (path("slurmd"),) if plan_input.slurm_of(host) >= PASSES_SIGPIPE_ON else ()
