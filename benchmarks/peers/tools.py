"""Installing the peers with pip into an environment of their own, away from slurmfab's, and their command lines."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.peer import HERE, Job, Peer
from benchmarks.programs import ProgramFailed, output_of

PACKAGES = {"Ansible": "ansible-core", "pyinfra": "pyinfra"}
FORKS = 64
"""As many hosts at a time as slurmfab takes."""

INSTALL_SECONDS = 600.0
KEY_BYTES = 128
"""Size of a munge key, as mungekey(8) makes it."""


@dataclass
class Tools:
    """The peers that could be installed, and why the others could not."""

    peers: list[Peer] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def default_place() -> Path:
    """Where the environment is kept from run to run."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "slurmfab-benchmarks" / f"peers-{sys.version_info[0]}.{sys.version_info[1]}"


def installed(place: Path) -> Tools:
    """The peers, installed if they are not there yet; one that pip cannot install is missing, with pip's words."""
    tools = Tools()
    programs = place / "bin"
    try:
        if not (programs / "pip").exists():
            output_of([sys.executable, "-m", "venv", str(place)])
    except ProgramFailed as error:
        tools.missing = dict.fromkeys(PACKAGES, f"there is no environment for it: {error}")
        return tools
    for name, package in PACKAGES.items():
        try:
            if not (programs / name.lower()).exists():
                output_of([str(programs / "pip"), "install", "--quiet", package], patience=INSTALL_SECONDS)
            version = output_of([str(programs / "python"), "-c", VERSION, package]).strip()
        except ProgramFailed as error:
            tools.missing[name] = f"pip does not install {package} here: {str(error)[-200:]}"
            continue
        tools.peers.append(MAKERS[name](programs, version))
    return tools


VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


def prepare(job: Job) -> None:
    """Write what a user would have beside the playbook: the munge key and an inventory for either tool."""
    job.directory.mkdir(parents=True, exist_ok=True)
    if not job.munge_key.exists():
        job.munge_key.touch(mode=0o600)
        job.munge_key.write_bytes(secrets.token_bytes(KEY_BYTES))
    controller, *nodes = job.hosts.names
    (job.directory / "inventory.ini").write_text("\n".join(ansible_inventory(job, controller, nodes)) + "\n")
    groups = {"controller": [controller], "compute": nodes}
    by_name = {place.name: place for place in job.hosts.places}
    hosts = {
        group: [
            (
                name,
                {
                    "ssh_hostname": by_name[name].address,
                    "ssh_port": by_name[name].port,
                    "ssh_user": "root",
                    "ssh_key": str(job.hosts.key),
                    "ssh_known_hosts_file": str(job.hosts.known_hosts),
                    "address": address(job, name),
                },
            )
            for name in names
        ]
        for group, names in groups.items()
    }
    lines = [f"{group} = {entries!r}" for group, entries in hosts.items()]
    (job.directory / "inventory.py").write_text("\n".join(lines) + "\n")


def address(job: Job, name: str) -> str:
    """A host's own address in its cluster, which is not where SSH goes when there is a proxy in between."""
    return next(place.behind or place.address for place in job.hosts.places if place.name == name)


def ansible_inventory(job: Job, controller: str, nodes: list[str]) -> list[str]:
    """The lines of Ansible's inventory."""
    return [
        *("[controller]", f"{controller} address={address(job, controller)}"),
        *("[compute]", *(f"{name} address={address(job, name)}" for name in nodes)),
        "[all:vars]",
        f"ansible_ssh_common_args=-F {job.hosts.config}",
        "ansible_python_interpreter=/usr/bin/python3",
    ]


def ansible(programs: Path, version: str) -> Peer:
    """Ansible with pipelining, and as many forks as slurmfab has."""

    def argv(job: Job) -> tuple[str, ...]:
        prepare(job)
        values = f"slurmd_timeout={job.timeout} munge_key={job.munge_key}"
        playbook = HERE / "ansible" / "site.yml"
        return (str(programs / "ansible-playbook"), "-i", "inventory.ini", "-e", values, str(playbook))

    def environment(job: Job) -> dict[str, str]:
        return {
            "ANSIBLE_CONFIG": str(HERE / "ansible" / "ansible.cfg"),
            "ANSIBLE_FORKS": str(FORKS),
            # Each run opens its own connections, as ours does; the default would find those of the round before.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": tempfile.mkdtemp(prefix="cp", dir=job.directory),
            "ANSIBLE_HOME": str(job.directory / "ansible"),
            "PATH": f"{programs}:{os.environ.get('PATH', '')}",
        }

    return Peer("Ansible", version, argv, environment)


def pyinfra(programs: Path, version: str) -> Peer:
    """pyinfra, which works on all hosts at once by itself."""

    def argv(job: Job) -> tuple[str, ...]:
        prepare(job)
        values = ("--data", f"slurmd_timeout={job.timeout}", "--data", f"munge_key={job.munge_key}")
        deploy = HERE / "pyinfra" / "deploy.py"
        return (str(programs / "pyinfra"), "-y", "--parallel", str(FORKS), *values, "inventory.py", str(deploy))

    return Peer("pyinfra", version, argv)


MAKERS = {"Ansible": ansible, "pyinfra": pyinfra}
