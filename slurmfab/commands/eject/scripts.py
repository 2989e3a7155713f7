"""The scripts of an ejected cluster: one for each host, in phases, and one that carries them to the hosts in order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import PROGRAMS, SLURM_DIRECTORY, SLURM_HOME
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.site_files import ON_CONTROLLERS, ON_NODES
from slurmfab.commands.eject.saying import say
from slurmfab.commands.eject.script import Script, here
from slurmfab.core.plan.phases import packages, slurm_source
from slurmfab.core.plan.plan import Plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts import client_config, route
from slurmfab.on_hosts.agent.core.host_paths import REGISTRY_CA
from slurmfab.on_hosts.agent.files.server_certificate import AUTHORITY_DAYS, ServerCertificate
from slurmfab.on_hosts.agent.munge.key import MungeKey

_FUNCTION = re.compile(r"^(\w+)\(\) \{(.*?^\}\n)", re.MULTILINE | re.DOTALL)  # name, and the rest of a function
_WORD = re.compile(r"\w+")

PACKAGES = "/var/cache/ejected-packages"  # where hosts have packages that make-cluster sends them

MADE_OR_PACKAGED = tuple(f"{one}/" for one in (SLURM_DIRECTORY, PROGRAMS, "/bin", "/sbin", "/usr/bin", "/usr/sbin"))
"""Where programs of slurm.conf are that scripts write, or that packages bring."""

KEY_OF_SLURM, HOST_KEY = "@slurm_key:{host}@", "@host_key:{host}:{kind}@"
"""What stands in a script for the public key of a host's slurm user, and for a host's own of a type."""


@dataclass(frozen=True)
class Ejected:
    """A cluster as files, by their names in the directory."""

    files: Mapping[str, str]
    copies: Mapping[str, Path]  # packages that are files beside the cluster file, by their names in the directory
    secrets: tuple[str, ...]  # names of files that somebody has to put into `secrets/`, as nothing here has them
    unsaid: tuple[str, ...]  # what no script makes, such as `scratch directory on n[1-2]`


def eject(plan_input: PlanInput, plan: Plan) -> Ejected:
    """The scripts for a plan of hosts that are as wanted. `plan_input`: as by `with_marks`, and the plan of it."""
    cluster, made = plan_input.cluster, makers(plan)
    sent = {host: package_files(plan_input, host) for host in plan.hosts}
    scripts = begun(plan_input, sent)
    bodies = {host: phases_of(plan, host, script) for host, script in scripts.items()}
    texts = {f"hosts/{host}.sh": host_script(cluster, host, bodies[host]) for host in plan.hosts}
    unsaid = left(plan_input, plan, scripts)
    secrets = {host: tuple((name, path) for path, name in script.secrets.items()) for host, script in scripts.items()}
    needed = dict.fromkeys(path for found in secrets.values() for _, path in found)
    given = tuple((PurePosixPath(path).name, path) for path in needed if path not in made)
    takes = {path: made[path] for path in needed if path in made}
    servers = {cluster.controller, *cluster.database_hosts, *cluster.servers, *(host for host, _ in takes.values())}
    about = {
        "cluster": cluster.name,
        "hosts": plan.hosts,
        "needed": [host for host in plan.hosts if host in servers],
        "given": given,
        "unsaid": unsaid,
        "secrets": secrets,
        "authority": REGISTRY_CA in takes,
    }
    of_controller = {"home": SLURM_HOME, "place": PACKAGES, "steps": steps(plan, bodies, sent, takes)}
    texts["make-cluster"] = fill("eject/make-cluster", {**about, **of_controller})
    texts["ssh_config"] = client_config.config_text(route.to_hosts(cluster), {}, Path())
    texts["README.md"] = fill("eject/README.md", about)
    copies = {f"packages/{one.file_name}": one.path for some in sent.values() for one in some}
    return Ejected(texts, copies, tuple(name for name, _ in given), unsaid)


def begun(plan_input: PlanInput, sent: Mapping[str, tuple[FiledPackage, ...]]) -> dict[str, Script]:
    """The scripts in which nothing is said yet, by host. `sent`: packages in files."""
    made = authorities(plan_input)
    return {host: Script(made, plan_input.facts[host].packages, names_of(files)) for host, files in sent.items()}


def left(plan_input: PlanInput, plan: Plan, scripts: Mapping[str, Script]) -> tuple[str, ...]:
    """What no script makes, with the hosts."""
    cluster = plan_input.cluster
    kinds = dict.fromkeys(kind for script in scripts.values() for kind in script.unsaid)
    hosts = {kind: [host for host, script in scripts.items() if kind in script.unsaid] for kind in kinds}
    bundled = ("the packages of the bundle, of which hosts need a source",) if cluster.bundle else ()
    said = (f"{kind.replace('-', ' ')} on {fold(hosts[kind])}" for kind in kinds)
    return (*said, *bundled, *of_the_site(plan_input, plan))


def of_the_site(plan_input: PlanInput, plan: Plan) -> Iterator[str]:
    """Yield what the cluster file leaves to the site, so that no script makes it on hosts that lack it."""
    cluster, conf = plan_input.cluster, plan_input.conf_wanted.settings
    made = {getattr(resource, "path", "") for host in plan.hosts for _, resource in plan.of_host(host)}
    if not cluster.hosts_file:
        yield "names and addresses of the hosts (hosts_file: false)"
    if not cluster.unix_users and cluster.users:
        yield f"accounts on hosts of {', '.join(one.name for one in cluster.users)} (unix_users: false)"
    if cluster.keep_files:
        yield "Slurm's own files (keep_files: true)"
    if cluster.slurm.packages == "none":
        yield "Slurm itself (slurm: {packages: none})"
    if "auth/jwt" in conf.get("authalttypes", ""):
        key = conf.get("authaltparameters", "").partition("jwt_key=")[2].partition(",")[0]
        if key not in made:
            yield f"the package of auth/jwt, and its key {key} on {fold(cluster.controllers)}"
    for keys in (ON_NODES, ON_CONTROLLERS, ("PluginDir",)):
        for key in keys:
            paths = [one.strip().partition(" ")[0] for one in conf.get(key.lower(), "").split(",")]
            own = [one for one in paths if one.startswith("/") and not one.startswith(MADE_OR_PACKAGED)]
            yield from (f"{one} ({key})" for one in own if one not in made)


def package_files(plan_input: PlanInput, host: str) -> tuple[FiledPackage, ...]:
    """The packages of a host that are files beside the cluster file."""
    files = plan_input.deb_files
    return (
        *(files[one.file] for one in packages.own(plan_input, host) if one.file in files),
        *slurm_source.in_files(plan_input, host, packages.wanted(plan_input, host)),
    )


def names_of(files: Iterable[FiledPackage]) -> dict[str, str]:
    """The paths of such files on hosts, by the names of the packages."""
    return {one.name: f"{PACKAGES}/{one.file_name}" for one in files}


def with_marks(plan_input: PlanInput) -> PlanInput:
    """The same with marks in the place of keys that new hosts make anew, from which the plan is made.

    So no text is searched for keys: what a host says its key is may be a user's key, or any other word.
    """
    hosts, facts = dict(plan_input.lock.hosts), dict(plan_input.facts)
    for host, fact in plan_input.facts.items():
        of_slurm = KEY_OF_SLURM.format(host=host) if plan_input.public_key(host) else ""
        of_host = {kind: HOST_KEY.format(host=host, kind=kind) for kind in hosts[host].host_keys}
        hosts[host] = replace(hosts[host], host_keys=of_host, public_key=of_slurm)
        facts[host] = replace(fact, public_key=of_slurm)
    return replace(plan_input, lock=replace(plan_input.lock, hosts=hosts), facts=facts)


def makers(plan: Plan) -> dict[str, tuple[str, str]]:
    """Host and user of each file that differs on new hosts, by path: that host makes it for all."""
    found = {}
    for host in reversed(plan.hosts):
        for _, resource in plan.of_host(host):
            if isinstance(resource, MungeKey):
                found[resource.path] = (host, resource.owner)
            elif isinstance(resource, ServerCertificate):
                found[resource.ca] = (host, "root")
    return found


def authorities(plan_input: PlanInput) -> dict[str, str]:
    """The paths of certificates of authorities on the hosts that make them, by the texts that others have of them."""
    known = plan_input.lock.registry_ca
    return {f"{known}\n": REGISTRY_CA} if known else {}


def phases_of(plan: Plan, host: str, script: Script) -> dict[str, list[str]]:
    """The lines of each phase that a host has a part in, by its name in scripts."""
    said: dict[str, list[str]] = {}
    for phase, resource in plan.of_host(host):
        said.setdefault(identifier(phase.name), []).extend(say(script, resource))
    return {name: lines for name, lines in said.items() if lines}


def host_script(cluster: Cluster, host: str, bodies: Mapping[str, list[str]]) -> str:
    """The script of a host: a function for each of these phases."""
    functions = needed_functions(line for lines in bodies.values() for line in lines)
    return fill("eject/host.sh", {"host": host, "cluster": cluster.name, "functions": functions, "bodies": bodies})


def needed_functions(lines: Iterable[str]) -> list[str]:
    """The shell functions that lines need, with those that these need, in the order of the file that has them."""
    known = known_functions()
    found, waiting = set[str](), [*lines]
    while waiting:
        named = {*_WORD.findall(waiting.pop())} & known.keys() - found
        found |= named
        waiting += [known[name] for name in named]
    return [f"{name}() {{{text}" for name, text in known.items() if name in found]


@cache
def known_functions() -> dict[str, str]:
    """All shell functions by name, each from behind its opening brace."""
    return dict(_FUNCTION.findall(fill("eject/functions.sh", {})))


def steps(
    plan: Plan,
    bodies: Mapping[str, Mapping[str, list[str]]],
    sent: Mapping[str, Iterable[FiledPackage]],
    takes: Mapping[str, tuple[str, str]],
) -> tuple[str, ...]:
    """The lines of make-cluster: its phases, each with its hosts, and what is sent to hosts and taken from them.

    `bodies`: the phases of each host. `sent`: packages in files, by host. `takes`: host and user of a secret which
    others need, by path.
    """
    lines: list[str] = []
    is_over = False
    certified = {
        resource.ca: resource
        for host, _ in takes.values()
        for _, resource in plan.of_host(host)
        if isinstance(resource, ServerCertificate)
    }
    for planned in plan.phases:
        if not planned.phase.prepares and not is_over:
            is_over = True
            lines.append("learn_keys")
            for path, (host, user) in takes.items():
                made = certified.get(path)
                alike = here(f"take_authority {host} {path} {AUTHORITY_DAYS}", made.of_authority) if made else []
                lines += alike or [f"take {host} {path} {user}"]
        hosts = tuple(host for host in planned.resources if identifier(planned.phase.name) in bodies[host])
        if planned.phase.installs:
            lines += [
                shlex.join(["send", host, *(one.file_name for one in some)]) for host, some in sent.items() if some
            ]
        first = hosts[:1] if planned.phase.controller_first else ()
        lines += [
            f"phase {identifier(planned.phase.name)} {' '.join(some)}" for some in (first, hosts[len(first) :]) if some
        ]
    return tuple(lines)


def identifier(name: str) -> str:
    """The name of a phase as part of a shell function's."""
    return re.sub(r"\W", "_", name)
