"""slurmctld and slurmdbd started as the slurm user, as the packages' units do from 23.11 on.

Started as root, they open their logs and give them to slurm before they become slurm: in a directory of slurm's, which
could put a link there.
"""

from __future__ import annotations

import re

from slurmfab.base.paths import SLURM_LOGS, UNIT_FILES
from slurmfab.cluster.slurm import accounting, places
from slurmfab.cluster.slurm.platform import BY_SYSTEMD
from slurmfab.cluster.slurm.render import fill
from slurmfab.core.plan.phases.capability import owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

_PLAIN = re.compile(r"/[\w./-]+")  # a path that means the same to systemd and to a shell
ROLES = {"slurmctld": "controller", "slurmdbd": "database"}  # the role of a host that has the daemon


def resources(plan_input: PlanInput, host: str, daemon: str) -> tuple[Resource, ...]:
    """The file that extends the unit of one of `ROLES`, from its next start; its removal where it needs none."""
    of, drop_ins = f"{daemon}-user", paths(plan_input, host, daemon)
    files = owned(plan_input, host, of, (OwnedFile(one, text_on(plan_input, host, daemon)) for one in drop_ins))
    return (*files, UnitsLoaded(of, (f"{daemon}.service",), drop_ins)) if files else ()


def text_on(plan_input: PlanInput, host: str, daemon: str) -> str:
    """The text of the file on a host that has it."""
    log, pid = log_and_pid(plan_input, host, daemon)
    made = "" if pid == plan_input.platform_of(host).pid_files(plan_input.slurm_of(host))[daemon] else pid
    elsewhere = "" if log.startswith(f"{SLURM_LOGS}/") else log
    return fill("slurm-user.conf", {"daemon": daemon, "pid_file": made, "log": elsewhere})


def paths(plan_input: PlanInput, host: str, daemon: str) -> tuple[str, ...]:
    """The path of the file that extends a daemon's unit; empty for none.

    The units of another slurm_user are the site's. A daemon with a PID file in a place of the site's, or without a log,
    keeps its unit.
    """
    if ROLES[daemon] not in plan_input.cluster.roles(host) or not starts_as_slurm(plan_input):
        return ()
    version = plan_input.slurm_of(host)
    if version >= BY_SYSTEMD:
        return ()
    log, pid = log_and_pid(plan_input, host, daemon)
    usual = (plan_input.platform_of(host).pid_files(version)[daemon], f"/run/{daemon}.pid", f"/var/run/{daemon}.pid")
    is_known = _PLAIN.fullmatch(log) is not None and pid in usual
    return (f"{UNIT_FILES}/{daemon}.service.d/slurmfab-user.conf",) if is_known else ()


def starts_as_slurm(plan_input: PlanInput) -> bool:
    """Whether slurmfab has the daemons started as slurm, so that they guard directories and logs of slurm's."""
    return plan_input.cluster.slurm_user == "slurm" and plan_input.cluster.guard_directories


def log_and_pid(plan_input: PlanInput, host: str, daemon: str) -> tuple[str, str]:
    """The paths of a daemon's log and PID file; empty where it has none. `daemon`: one of `ROLES`."""
    if daemon == "slurmctld":
        settings = plan_input.conf_wanted.settings
        default = f"/var/run/{daemon}.pid"
        return places.log_file(settings, daemon, host), settings.get("slurmctldpidfile", default)
    own = {key.lower(): value or "" for key, value in plan_input.cluster.slurmdbd_conf.items()}
    pid = own.get("pidfile", plan_input.platform_of(host).pid_files(plan_input.slurm_of(host))[daemon])
    return accounting.log_file(plan_input.cluster.slurmdbd_conf), pid
