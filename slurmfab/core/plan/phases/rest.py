"""slurmrestd, by which programs talk to Slurm over HTTP with a token, and the key that makes and proves tokens."""

from __future__ import annotations

from slurmfab.base.paths import JWT_KEY, REST_SOCKET, UNIT_FILES
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.plan.directories import slurm_directory
from slurmfab.core.plan.phases.capability import once, owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

CAPABILITY, UNIT = "rest", "slurmrestd"
DROP_IN = f"{UNIT_FILES}/{UNIT}.service.d/slurmfab-rest.conf"

ONE_FOR_ALL = SlurmVersion(23, 11)
"""From here on, one plugin of slurmrestd has all versions of its API; before, each has a plugin of its own."""

APIS = {SlurmVersion(22, 5): "v0.0.38", SlurmVersion(23, 2): "v0.0.39"}
"""The newest version of the API of each Slurm before that (slurmrestd -s list)."""


def host_of(plan_input: PlanInput) -> str:
    """The host of slurmrestd; empty without one."""
    return plan_input.cluster.rest.host if plan_input.cluster.rest else ""


def key(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The key on the primary controller, made if it does not exist."""
    if not plan_input.cluster.rest or host != plan_input.cluster.controller:
        return ()
    return (slurm_directory(), MungeKey(JWT_KEY, plan_input.slurm_owner(host)[0]))


def keys(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The primary controller's key on the other hosts whose daemons prove tokens."""
    if host == plan_input.cluster.controller or host not in proving(plan_input):
        return ()
    return (slurm_directory(), copied(plan_input))


@once
def copied(plan_input: PlanInput) -> File:
    """The file with the primary controller's key; planned as different while that has none."""
    owner, group = plan_input.slurm_owner(plan_input.cluster.controller)
    content = plan_input.controller_facts.jwt_key
    return File(JWT_KEY, content, owner=owner, group=group, mode=0o400, secret=True, encoding="base64")


def proving(plan_input: PlanInput) -> tuple[str, ...]:
    """The hosts of slurmctld and slurmdbd; none without the key `rest`."""
    cluster = plan_input.cluster
    if not cluster.rest:
        return ()
    return tuple(dict.fromkeys((*cluster.controllers, *((cluster.database.host,) if cluster.database else ()))))


def watched(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The key, which slurmctld and slurmdbd read when they start."""
    return (JWT_KEY,) if host in proving(plan_input) else ()


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """slurmrestd on its host; on others its end, and the end of keys that no daemon reads any more."""
    facts = plan_input.facts.get(host)
    is_left = facts is not None and facts.has_jwt_key and host not in proving(plan_input)
    gone = (Absent(JWT_KEY, secret=True),) if is_left else ()
    if host == host_of(plan_input):
        return (
            *owned(plan_input, host, CAPABILITY, (OwnedFile(DROP_IN, drop_in(plan_input, host)),)),
            UnitsLoaded(CAPABILITY, (UNIT,), (DROP_IN,)),
            Service(UNIT, watches=(DROP_IN,)),
            *gone,
        )
    files = owned(plan_input, host, CAPABILITY, ())
    return (*((Service(UNIT, running=False), *files, UnitsLoaded(CAPABILITY, (UNIT,))) if files else ()), *gone)


def drop_in(plan_input: PlanInput, host: str) -> str:
    """The text of what slurmfab adds to the unit of Slurm's packages."""
    version, has_database = plan_input.slurm_of(host), plan_input.cluster.database is not None
    if version < ONE_FOR_ALL:
        api = next(name for since, name in sorted(APIS.items(), reverse=True) if version >= since)
        plugins = [f"openapi/{api}", f"openapi/db{api}"]
    else:
        plugins = ["openapi/slurmctld", "openapi/slurmdbd"]
    wanted = ",".join(plugins[: 2 if has_database else 1])
    programs = plan_input.platform_of(host).programs
    return fill("slurmrestd.conf", {"socket": REST_SOCKET, "plugins": wanted, "programs": programs})


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """slurmrestd on its host, and the plugin for tokens where a daemon needs it."""
    platform = plan_input.platform_of(host)
    is_here = host == host_of(plan_input)
    has_tokens = is_here or host in proving(plan_input)
    return (*((platform.rest,) if is_here else ()), *((platform.jwt,) if has_tokens and platform.jwt else ()))
