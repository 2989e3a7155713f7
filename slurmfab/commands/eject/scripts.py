"""The scripts of an ejected cluster: one for each host, in phases, and one that carries them to the hosts in order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import SLURM_HOME
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.render import fill
from slurmfab.commands.eject.saying import Script
from slurmfab.core.plan.plan import Plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts import client_config, route
from slurmfab.on_hosts.agent.munge.key import MungeKey

KEY_OF_SLURM, HOST_KEY = "@slurm_key:{host}@", "@host_key:{host}:{kind}@"
"""What stands in a script for the public key of a host's slurm user, and for a host's own of a type."""


@dataclass(frozen=True)
class Ejected:
    """A cluster as files, by their names in the directory."""

    files: Mapping[str, str]
    secrets: tuple[str, ...]  # names of files that somebody has to put into `secrets/`, as nothing here has them
    unsaid: tuple[str, ...]  # what no script makes, such as `scratch directory on n[1-2]`


def eject(plan_input: PlanInput, plan: Plan) -> Ejected:
    """The scripts for a plan of hosts that are as wanted."""
    made, keys = makers(plan), marks(plan_input)
    scripts = {host: Script(keys) for host in plan.hosts}
    cluster = plan_input.cluster
    texts = {f"hosts/{host}.sh": host_script(cluster, plan, host, script) for host, script in scripts.items()}
    secrets = {host: tuple((name, path) for path, name in script.secrets.items()) for host, script in scripts.items()}
    needed = dict.fromkeys(path for found in secrets.values() for _, path in found)
    given = tuple((PurePosixPath(path).name, path) for path in needed if path not in made)
    kinds = dict.fromkeys(kind for script in scripts.values() for kind in script.unsaid)
    unsaid = tuple(
        f"{kind.replace('-', ' ')} on {fold([host for host, script in scripts.items() if kind in script.unsaid])}"
        for kind in kinds
    )
    about = {"cluster": cluster.name, "hosts": plan.hosts, "given": given, "unsaid": unsaid, "secrets": secrets}
    takes = {path: made[path] for path in needed if path in made}
    texts["make-cluster"] = fill("eject/make-cluster", {**about, "home": SLURM_HOME, "steps": steps(plan, takes)})
    texts["ssh_config"] = client_config.config_text(route.to_hosts(cluster), {}, Path())
    texts["README.md"] = fill("eject/README.md", about)
    return Ejected(texts, tuple(name for name, _ in given), unsaid)


def marks(plan_input: PlanInput) -> dict[str, str]:
    """The marks that stand for keys that new hosts make anew, by key."""
    found: dict[str, str] = {}
    for host in plan_input.facts:
        if plan_input.public_key(host):
            found[plan_input.public_key(host)] = KEY_OF_SLURM.format(host=host)
        found |= {key: HOST_KEY.format(host=host, kind=kind) for kind, key in plan_input.host(host).host_keys.items()}
    return found


def makers(plan: Plan) -> dict[str, str]:
    """The host that makes each secret, by path; others get it from there."""
    return {
        resource.path: host
        for host in reversed(plan.hosts)
        for _, resource in plan.of_host(host)
        if isinstance(resource, MungeKey)
    }


def host_script(cluster: Cluster, plan: Plan, host: str, script: Script) -> str:
    """The script of a host: a function for each phase that the host has a part in."""
    said: dict[str, list[str]] = {}
    for phase, resource in plan.of_host(host):
        said.setdefault(identifier(phase.name), []).extend(script.say(resource))
    bodies = {name: lines for name, lines in said.items() if lines}
    return fill("eject/host.sh", {"host": host, "cluster": cluster.name, "bodies": bodies})


def steps(plan: Plan, takes: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of make-cluster: its phases, each with its hosts, and what is taken from hosts between them.

    `takes`: the host that makes a secret which others need, by path.
    """
    lines: list[str] = []
    is_over = False
    for planned in plan.phases:
        if not planned.phase.prepares and not is_over:
            is_over = True
            lines += [f"learn_keys {' '.join(plan.hosts)}", *(f"take {host} {path}" for path, host in takes.items())]
        hosts = tuple(planned.resources)
        first = hosts[:1] if planned.phase.controller_first else ()
        lines += [
            f"phase {identifier(planned.phase.name)} {' '.join(some)}" for some in (first, hosts[len(first) :]) if some
        ]
    return tuple(lines)


def identifier(name: str) -> str:
    """The name of a phase as part of a shell function's."""
    return re.sub(r"\W", "_", name)
