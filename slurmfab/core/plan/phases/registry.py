"""The cluster's own image registry: the server on its host, and what all hosts know about it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from slurmfab.base.ip_addresses import in_url
from slurmfab.base.paths import (
    IMAGE_POLICY,
    IMAGE_REGISTRIES,
    REGISTRY_CERTIFICATE,
    REGISTRY_CONF,
    REGISTRY_PULL_CONF,
    REGISTRY_USERS,
    UNIT_FILES,
)
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.registry import Registry
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import CERTIFICATES, OPENSSL, REGISTRY_SERVER
from slurmfab.core.impact.disruptive_changes import REGISTRY_AUTHORITY
from slurmfab.core.plan import registry_authority
from slurmfab.core.plan.own_address import own_address
from slurmfab.core.plan.phases.capability import HEAD, owned
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate
from slurmfab.on_hosts.agent.files.trusted_authority import TrustedAuthority
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded

SERVER, TRUST, USE = "registry", "registry-trust", "registry-use"
"""What hosts note slurmfab's files as: the server's, the certificate that all hosts trust, and their settings."""

UNIT, PULL_UNIT = "docker-registry", "slurmfab-registry-pull"
ACCOUNT = "docker-registry"  # user and group of Debian's package

DROP_IN = f"{UNIT_FILES}/{UNIT}.service.d/slurmfab.conf"
TRUSTED = ("/etc/containers/certs.d", "/etc/docker/certs.d")
"""Where podman and skopeo, and Docker, look for the certificates of a registry, by its host and port."""

ACCEPTED = [{"type": "insecureAcceptAnything"}]
REJECTED = [{"type": "reject"}]


def certificate(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The certificate on the registry's host, before others can be told of it."""
    registry = plan_input.cluster.registry
    if registry is None or host != registry.host:
        return ()
    names, known = registry_authority.certified(plan_input), plan_input.lock.registry_ca
    told = plan_input.facts[host].registry_ca if host in plan_input.facts else ""
    return (
        ServerCertificate(
            names,
            ACCOUNT,
            known=registry_authority.fingerprint(known if registry_authority.serves(known, names) else ""),
            allow=f"{FAB} deploy --allow {REGISTRY_AUTHORITY}",
            refused=registry_authority.fingerprint(told if told != known else ""),
        ),
    )


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The server on its host, and what all hosts need to fetch images from it; or the removal of both."""
    registry = plan_input.cluster.registry
    is_here = registry is not None and host == registry.host
    served = server(plan_input, host, registry) if registry and is_here else no_server(plan_input, host)
    return (*served, *trust(plan_input, host), *owned(plan_input, host, USE, use(registry) if registry else ()))


def server(plan_input: PlanInput, host: str, registry: Registry) -> tuple[Resource, ...]:
    """The files of the server, its directory of images, and its daemons."""
    units = tuple(path for path, _ in unit_files(registry))
    watched = (REGISTRY_CONF, REGISTRY_USERS, REGISTRY_CERTIFICATE, DROP_IN)
    pull = Service(PULL_UNIT, watches=(REGISTRY_PULL_CONF, REGISTRY_CERTIFICATE, *units[1:]))
    had_pull = plan_input.owns(host, SERVER)
    without = (Service(PULL_UNIT, running=False),) if had_pull and not registry.anonymous_pull else ()
    return (
        Directory(registry.directory, ACCOUNT, ACCOUNT, 0o750, marks=("docker",)),
        *without,
        *owned(plan_input, host, SERVER, server_files(plan_input, registry)),
        UnitsLoaded(SERVER, (UNIT, PULL_UNIT)),
        Service(UNIT, watches=watched),
        *((pull,) if registry.anonymous_pull else ()),
    )


def no_server(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of the server's files, and its end; one that somebody else had installed goes on as it was before."""
    if not plan_input.owns(host, SERVER):
        return ()
    is_ours = REGISTRY_SERVER in plan_input.facts[host].added_packages
    return (
        Service(PULL_UNIT, running=False),
        *((Service(UNIT, running=False),) if is_ours else ()),
        *owned(plan_input, host, SERVER, ()),
        ServerCertificate(()),
        UnitsLoaded(SERVER, (UNIT, PULL_UNIT)),
        *(() if is_ours else (Service(UNIT, watches=(REGISTRY_CONF,)),)),
    )


def server_files(plan_input: PlanInput, registry: Registry) -> Iterator[OwnedFile]:
    """Yield the files of the server: who may log in, its settings, and its units."""
    users = plan_input.registry_users
    yield OwnedFile(REGISTRY_USERS, users, mode=0o640, group=ACCOUNT, secret=True)
    yield OwnedFile(REGISTRY_CONF, settings(plan_input, registry, registry.port))
    if registry.anonymous_pull:
        yield OwnedFile(REGISTRY_PULL_CONF, settings(plan_input, registry, registry.pull_port, may_write=False))
    for path, text in unit_files(registry):
        yield OwnedFile(path, text)


def unit_files(registry: Registry) -> Iterator[tuple[str, str]]:
    """Yield path and text of what slurmfab adds to the package's unit, and of the unit for fetching alone."""
    yield DROP_IN, fill("registry-unit.conf", {})
    if registry.anonymous_pull:
        path = f"{UNIT_FILES}/{PULL_UNIT}.service"
        yield path, fill(f"{PULL_UNIT}.service", {"settings": REGISTRY_PULL_CONF, "account": ACCOUNT})


def settings(plan_input: PlanInput, registry: Registry, port: int, *, may_write: bool = True) -> str:
    """A server's settings as JSON, thus YAML; with `may_write`, those who log in send images, else all read."""
    storage = {"filesystem": {"rootdirectory": registry.directory}}
    ways = {"delete": {"enabled": True}} if may_write else {"maintenance": {"readonly": {"enabled": True}}}
    login = {"auth": {"htpasswd": {"realm": f"images of {plan_input.cluster.name}", "path": REGISTRY_USERS}}}
    wanted = {
        "version": 0.1,
        "log": {"fields": {"service": "registry"}},
        "storage": {**storage, **ways},
        "http": {
            "addr": f"{in_url(address(plan_input, registry))}:{port}",
            "headers": {"X-Content-Type-Options": ["nosniff"]},
            "tls": {"certificate": REGISTRY_CERTIFICATE, "key": REGISTRY_CERTIFICATE, "minimumtls": "tls1.2"},
        },
        **(login if may_write else {}),
    }
    return f"{HEAD}{json.dumps(wanted, indent=1)}\n"


def address(plan_input: PlanInput, registry: Registry) -> str:
    """The one address on which the server listens: by default that of the cluster file, or the host's first own."""
    return own_address(plan_input, registry.host, registry.address or "")


def trust(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The certificate by which a host knows the registry, which the lock has: see `registry_authority`.

    Apptainer, curl and others look into the system's own store; the authority can vouch for the registry alone.
    """
    registry = plan_input.cluster.registry
    if registry is None:
        gone = owned(plan_input, host, TRUST, ())
        return (TrustedAuthority(""), *gone) if gone else ()
    known = plan_input.lock.registry_ca
    if not known:
        return ()
    paths = (f"{directory}/{place}/ca.crt" for directory in TRUSTED for place in registry.places)
    text = f"{known}\n"
    return (*owned(plan_input, host, TRUST, (OwnedFile(path, text) for path in paths)), TrustedAuthority(text))


def use(registry: Registry) -> Iterator[OwnedFile]:
    """Yield what podman and skopeo do with names of images: where short ones are, and which are accepted."""
    values = {"place": registry.place, "pull_place": registry.pull_place, "anonymous": registry.anonymous_pull}
    yield OwnedFile(IMAGE_REGISTRIES, fill("registries.conf", values))
    if registry.only:
        scopes = dict.fromkeys((*registry.places, *registry.allowed), ACCEPTED)
        # Images that are on the host already are the source of what is sent to the registry.
        policy = {"default": REJECTED, "transports": {"docker": scopes, "containers-storage": {"": ACCEPTED}}}
        yield OwnedFile(IMAGE_POLICY, f"{json.dumps(policy, indent=1)}\n")


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The server, and what makes its certificate; on all hosts what has them trust it."""
    registry = plan_input.cluster.registry
    served = (REGISTRY_SERVER, OPENSSL) if registry is not None and host == registry.host else ()
    return (*served, CERTIFICATES) if registry is not None else ()
