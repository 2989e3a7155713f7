"""Notebooks in the browser: JupyterHub on one host, and what starts a user's server in a job on compute nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slurmfab.base.ip_addresses import in_url
from slurmfab.base.paths import JUPYTER_CONF, JUPYTER_ROOT, JUPYTER_STATE, JUPYTER_UNIT, PROGRAMS, UNIT_FILES
from slurmfab.cluster.inventory.jupyter import HUB_PORT, PROXY_PORT, SERVER_PORTS, Jupyter
from slurmfab.cluster.inventory.rules.people import POWERFUL_GROUPS
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.software import JUPYTERHUB, OPENSSL
from slurmfab.core.plan.own_address import own_address, trusted_address
from slurmfab.core.plan.phases import user_ssh
from slurmfab.core.plan.phases.capability import owned, program_files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.user_guide.offer import Offer, OfferedPartition, offer
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import UnitsLoaded
from slurmfab.on_hosts.programs.jupyter.places import (
    JUPYTER_CERTIFICATES,
    JUPYTER_PROGRAM,
    JUPYTER_SETTINGS,
    JUPYTER_SOCKET,
    PAM_SERVICE,
)

CAPABILITY = "jupyter"
SOCKET, UNITS = f"{JUPYTER_ROOT}.socket", (f"{JUPYTER_UNIT}.service", f"{JUPYTER_ROOT}.socket")
START_SECONDS = 900  # how long a server may wait in the queue and start
LOWEST_PORT = 1024  # below it, only root and CAP_NET_BIND_SERVICE may listen

ANSWERS = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
"""Succeeds once the hub listens for its servers."""


def resources(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The hub on its host, the program on compute nodes; or the removal of what a host has of it."""
    jupyter, is_node = plan_input.cluster.jupyter, "compute" in plan_input.cluster.roles(host)
    if jupyter is None or not (host == jupyter.host or is_node):
        return gone(plan_input, host)
    facts = plan_input.facts.get(host)
    return (
        # The package's own unit would start a hub of root's at boot; that of a site's package stays.
        *((Service(JUPYTERHUB, running=False),) if facts and JUPYTERHUB in facts.added_packages else ()),
        Directory(PROGRAMS),
        Program(JUPYTER_PROGRAM, program()),
        *(hub(plan_input, jupyter) if host == jupyter.host else no_hub(plan_input, host)),
    )


def program() -> tuple[tuple[str, str], ...]:
    """The program's files, the same on all hosts."""
    return program_files("programs.jupyter.main")


def hub(plan_input: PlanInput, jupyter: Jupyter) -> tuple[Resource, ...]:
    """The hub's certificate, files and services on its host."""
    host = jupyter.host
    made = ServerCertificate(names(plan_input, jupyter), directory=JUPYTER_CERTIFICATES, what="notebooks")
    is_sites = jupyter.certificate is not None
    certificate = jupyter.certificate or made.certificate
    key = jupyter.key or made.certificate
    files = tuple(hub_files(plan_input, jupyter, certificate, key))
    watched = (certificate, key, *(one.path for one in files), *(f"{JUPYTER_PROGRAM}/{path}" for path, _ in program()))
    without = (no_certificate(),) if plan_input.owns(host, CAPABILITY) else ()
    return (
        *(without if is_sites else (made,)),
        *owned(plan_input, host, CAPABILITY, files),
        UnitsLoaded(CAPABILITY, UNITS),
        Service(SOCKET),
        Service(JUPYTER_UNIT, watches=watched, answers=answers(plan_input, host)),
    )


def no_certificate() -> ServerCertificate:
    """The removal of the certificate that slurmfab has made."""
    return ServerCertificate((), directory=JUPYTER_CERTIFICATES, what="notebooks")


def names(plan_input: PlanInput, jupyter: Jupyter) -> tuple[str, ...]:
    """All names and addresses by which browsers reach the hub, sorted."""
    host = jupyter.host
    return tuple(sorted({*plan_input.names(host), trusted_address(plan_input, host, jupyter.own_address)}))


def answers(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The program that succeeds once the hub works."""
    return ("python3", "-I", "-S", "-c", ANSWERS, own_address(plan_input, host), str(HUB_PORT))


def hub_files(plan_input: PlanInput, jupyter: Jupyter, certificate: str, key: str) -> Iterator[OwnedFile]:
    """Yield the files on the hub's host. `certificate`, `key`: their paths."""
    context = {
        "unit": JUPYTER_UNIT,
        "root": JUPYTER_ROOT,
        "socket": JUPYTER_SOCKET,
        "program": JUPYTER_PROGRAM,
        "conf": JUPYTER_CONF,
        "certificate": certificate,
        "key": key,
        "is_low_port": jupyter.port < LOWEST_PORT,
        "address": in_url(own_address(plan_input, jupyter.host, jupyter.address or "")),
        "port": jupyter.port,
        "hub_address": in_url(own_address(plan_input, jupyter.host)),
        "hub_port": HUB_PORT,
        "proxy_port": PROXY_PORT,
        "start_seconds": START_SECONDS,
    }
    yield OwnedFile(JUPYTER_SETTINGS, json.dumps(settings(plan_input), indent=1, sort_keys=True) + "\n")
    yield OwnedFile(JUPYTER_CONF, fill("slurmfab-jupyter.py", context))
    yield OwnedFile(f"/etc/pam.d/{PAM_SERVICE}", fill("slurmfab-jupyter.pam", context))
    for unit in (*UNITS, f"{JUPYTER_ROOT}@.service"):
        yield OwnedFile(f"{UNIT_FILES}/{unit}", fill(unit, context))


def settings(plan_input: PlanInput) -> dict[str, Any]:
    """What users may ask for, and where and how long servers run (`programs/jupyter/options.py`)."""
    cluster = plan_input.cluster
    found = offer(cluster, plan_input.lock)
    first = found.first
    ordered = sorted((one for one in found.partitions if one.is_open), key=lambda one: one is not first)
    return {
        "partitions": [of_partition(found, one) for one in ordered],
        "accounts": list(found.accounts),
        "denied": sorted({"munge", "slurm", cluster.slurm_user}),
        "powerful": list(user_ssh.powerful(plan_input)),
        "powerful_groups": sorted(POWERFUL_GROUPS),
        "ports": list(SERVER_PORTS),
        "idle": cluster.jupyter.idle if cluster.jupyter else 0,
        "listen": "[::]" if plan_input.uses_ipv6 else "0.0.0.0",  # noqa: S104 - the firewall's matter
    }


def of_partition(found: Offer, one: OfferedPartition) -> dict[str, Any]:
    """A partition's limits for a job on one node: those of its nodes, of its own keys and of its QOS."""
    caps: dict[str, int] = {}
    for cap in one.caps:
        caps[cap.of] = min(cap.most, caps.get(cap.of, cap.most))
    minutes = [limit for limit in (one.max_minutes, caps.get("minutes")) if limit]
    cpus = max((shape.cpus for shape, _ in one.shapes), default=0)
    memory = max((shape.memory for shape, _ in one.shapes), default=0)
    most_memory = [limit for limit in (memory, one.most_memory, caps.get("memory", 0)) if limit]
    gpus = {
        kind: min(count, caps.get("gpus", count), caps.get(f"gpus:{kind}", count)) for kind, count in one.gpus.items()
    }
    accounts = one.accounts or [name for name in found.accounts if name not in one.denied_accounts]
    return {
        "name": one.name,
        "seconds": 60 * min(minutes, default=0),
        "cpus": min(cpus or caps.get("cpus", 0), caps.get("cpus", cpus)),
        "memory": min(most_memory, default=0),
        "gpus": {kind: count for kind, count in gpus.items() if count},
        "accounts": list(accounts),
    }


def no_hub(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The end of the hub on a host that has it, with what it remembers; the files' record goes last."""
    if not plan_input.owns(host, CAPABILITY):
        return ()
    return (
        Service(JUPYTER_UNIT, running=False),
        Service(SOCKET, running=False),
        Absent(f"/var/lib/{JUPYTER_UNIT}"),
        Program(JUPYTER_STATE, ()),
        no_certificate(),
        *owned(plan_input, host, CAPABILITY, ()),
        UnitsLoaded(CAPABILITY, UNITS),
    )


def gone(plan_input: PlanInput, host: str) -> tuple[Resource, ...]:
    """The removal of all that a host has."""
    has_program = plan_input.has_program(host, CAPABILITY)
    return (*((Program(JUPYTER_PROGRAM, ()),) if has_program else ()), *no_hub(plan_input, host))


def packages(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The package with the hub and its servers, on its host and on nodes; what makes the hub's certificate."""
    jupyter = plan_input.cluster.jupyter
    if jupyter is None or not (host == jupyter.host or "compute" in plan_input.cluster.roles(host)):
        return ()
    return (JUPYTERHUB, *((OPENSSL,) if host == jupyter.host and not jupyter.certificate else ()))
