"""`fab bundle`: from the words on the command line to a file with all packages, or none."""

from __future__ import annotations

import base64
import os
import re
import socket
from getpass import getuser
from pathlib import Path
from typing import Any

from slurmfab import __version__, inventory, operations
from slurmfab.agent import backup_archive
from slurmfab.agent.backup_archive import Archive
from slurmfab.agent.bundle_place import INDEX, checked
from slurmfab.agent.resource import ResourceFailed
from slurmfab.asking import gather
from slurmfab.backup.archive import size_words
from slurmfab.bundle import archive
from slurmfab.cluster import Cluster
from slurmfab.errors import AgentFailed, InputError, SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.fitness.hosts import wrong_system
from slurmfab.inventory import Inventory
from slurmfab.operations import Output
from slurmfab.run import Run
from slurmfab.slurm.versions import BUS, DATABASE_SERVER, packages
from slurmfab.ssh.session import Line

ALWAYS = ("sudo", BUS)
"""What a host may need besides its roles' packages: sudo, where people become root, and the bus."""

NEW = f"{backup_archive.NEW}bundle."
"""How the name of a file begins that is not a bundle yet, or never became one."""

OPEN_TO_READ = 0o644


def make(cluster: str, source: str, to: str, output: Output) -> int:
    """Collect the packages that a cluster's roles need, with all that these need, in one file.

    Args:
        cluster: the cluster file's path, empty for the default one.
        source: the host that reaches its mirror, empty for the primary controller.
        to: the file, or a directory for it; empty for beside the cluster file.
        output: what to tell.

    Returns:
        The exit code.

    Raises:
        InputError: there is no such host, or `to` is the name of something else.
        SlurmfabError: the host does not answer, or cannot fetch the packages; nothing is left of it.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    host = source or known.cluster.controller
    if is_name_of_file(to) and Path(to).suffix != ".tar":
        raise InputError(f"--to {to}: the name of a bundle ends in .tar, so that none takes another file's place.")
    run = operations.start(known, host, output, command="bundle")
    try:
        path = collect(run, host, to)
    except SlurmfabError:
        operations.say_failures(run)
        raise
    except OSError as error:
        where, why = error.filename or to or known.path.parent, error.strerror or error
        words = f"The bundle cannot be written to {where}: {why}. Nothing is left of it; --to names another place."
        raise SlurmfabError(words) from error
    finally:
        run.progress.end()
        run.transport.close()
    print(told(known, archive.verified(path)))  # noqa: T201 - the last word of the command
    return 0


def names_for(cluster: Cluster) -> tuple[str, ...]:
    """The packages that any host of a cluster can need, sorted: of compute nodes, too, before there are any."""
    roles = {"compute", *(role for host in cluster.hosts for role in cluster.roles(host))}
    names = {*ALWAYS, *(name for role in roles for name in packages(role))}
    if cluster.database and not cluster.database.external:
        names |= set(DATABASE_SERVER)
    return tuple(sorted(names))


def collect(run: Run, host: str, to: str) -> Path:
    """Have a host collect packages, and write them as they come.

    Raises:
        SlurmfabError: it cannot; nothing is left of it.
    """
    facts = gather(run, (host,), may_prepare=False)
    if host not in facts:
        raise SlurmfabError("Without it there is no bundle; another host may do: fab bundle --from HOST.")
    reason = wrong_system(facts[host])
    if reason:
        raise SlurmfabError(f"{host}: {reason}")
    place = Path(to)
    is_file = is_name_of_file(to)
    directory = place.parent if is_file else (place if to else run.inventory.path.parent)
    usual = archive.path_of(run.inventory.path, facts[host].codename, facts[host].architecture)
    path = place if is_file else directory / usual.name
    directory.mkdir(parents=True, exist_ok=True)
    backup_archive.sweep(str(directory), NEW)
    made = Archive(str(directory), f"bundle.{os.getpid()}", "")
    try:
        index = fetch(run, host, made)
        made.name = f"{NEW}{os.getpid()}"
        whole = Path(made.finish(manifest(run, facts[host], index)))
    finally:
        made.abandon()
    whole.chmod(OPEN_TO_READ)
    return whole.replace(path)


def is_name_of_file(to: str) -> bool:
    """Whether a bundle shall be this very file, rather than lie in a directory of this name."""
    return bool(to) and not Path(to).is_dir() and not to.endswith(os.sep)


def fetch(run: Run, host: str, made: Archive) -> str:
    """Add all packages to an archive that is being written, each as it comes, and the index after them.

    Returns:
        The index.

    Raises:
        HostError: it does not send them to the end.
    """
    current: list[str] = []
    received = 0

    def end() -> None:
        if current:
            made.end(current.pop())

    def heard(line: Line) -> None:
        nonlocal received
        if "file" in line:
            end()
            current.append(name_of(host, line["file"]))
            made.begin()
        elif "piece" in line:
            data = base64.b64decode(line["piece"])
            made.write(data)
            received += len(data)
            run.progress.doing = f"collecting packages ({size_words(received)})"
            run.progress.show_status()

    run.progress.begin("collecting packages", (host,))
    lines = run.transport.call(host, {"op": "collect", "names": names_for(run.inventory.cluster)}, heard)
    index = next((str(line["collected"]["index"]) for line in lines if "collected" in line), None)
    if index is None:
        raise AgentFailed(host, "the agent ended the bundle without a word; please report this.")
    end()
    made.add(INDEX, index.encode())
    run.progress.host_done(host)
    return index


def name_of(host: str, text: str) -> str:
    """The name of a package's file as a host gives it.

    Raises:
        AgentFailed: it is none.
    """
    try:
        return checked(text)
    except ResourceFailed as error:
        raise AgentFailed(host, f"{error}; please report this.") from error


def manifest(run: Run, source: HostFacts, index: str) -> dict[str, Any]:
    """What the manifest says besides the parts."""
    slurm = re.search(r"^Package: slurm-client\n(?:.+\n)*?Version: (\S+)", index, re.MULTILINE)
    if slurm is None:
        raise AgentFailed(source.name, "there is no slurm-client among the packages that it has collected.")
    return {
        "kind": archive.KIND,
        "suite": source.codename,
        "architecture": source.architecture,
        "slurm": slurm[1],
        "made": run.started.isoformat(timespec="seconds"),
        "by": f"{getuser()}@{socket.gethostname()}",
        "slurmfab": __version__,
        "host": source.name,
        "names": list(names_for(run.inventory.cluster)),
    }


def told(known: Inventory, bundle: archive.Bundle) -> str:
    """What to say of a new bundle."""
    lines = [archive.described(bundle)]
    if bundle.path.absolute() not in [path.absolute() for path in archive.of_cluster(known)]:
        is_beside = bundle.path.absolute().parent == known.path.absolute().parent
        name = bundle.path.name if is_beside else str(bundle.path.absolute())
        key = f"[{', '.join((*known.cluster.bundle, name))}]" if known.cluster.bundle else name
        lines.append(f"So that hosts get their packages from it, write into {known.path}:\nbundle: {key}")
    return "\n".join(lines)


def listing(cluster: str) -> int:
    """Tell what the bundles of a cluster hold: those that its file names, and those that lie beside it.

    Returns:
        The exit code: 1 when one of them is missing or damaged.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    beside = sorted(known.path.parent.glob(f"{known.path.stem}.bundle-*.tar"))
    code = 0
    paths = tuple(dict.fromkeys((*archive.of_cluster(known), *beside)))
    for path in paths:
        try:
            print(archive.described(archive.verified(path)))  # noqa: T201 - the answer
            if path not in archive.of_cluster(known):
                print(f"  not used: the key bundle in {known.path} does not name it")  # noqa: T201 - the answer
        except InputError as error:
            print(error)  # noqa: T201 - the answer
            code = 1
    if not paths:
        print(f"There is no bundle for {known.path}. Make one: fab bundle.")  # noqa: T201 - the answer
    return code
