"""`fab bundle`: collects packages on a host and writes them into a bundle; a failure leaves no file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from slurmfab.base import archive as archives
from slurmfab.base import atomic_file, signatures
from slurmfab.base.archive import format_size
from slurmfab.base.errors import AgentFailed, HostFailed, InputError, SlurmfabError
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import deb_files, loading, repository_key, slurm_package_files
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.deb_files import DebFile
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.inventory.firewall import MANAGED
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.mounts import CLIENTS
from slurmfab.cluster.inventory.storage import named_mounts
from slurmfab.cluster.slurm.platform import DEBIAN, DNF, wanted
from slurmfab.cluster.slurm.software import (
    AGE,
    ALL_OF_MPI,
    APPTAINER,
    CERTIFICATES,
    JUPYTERHUB,
    MAILER,
    NFS_SERVER,
    NFTABLES,
    NODE_EXPORTER,
    OCI,
    OPENSSL,
    PODMAN,
    PROMETHEUS,
    QUOTA,
    REGISTRY_SERVER,
    RPCBIND,
    SQUASHFUSE,
    SSSD,
    WITHOUT_APPTAINER,
    docker_packages,
)
from slurmfab.commands.bundle import archive, pinned
from slurmfab.commands.bundle.sending import SentBytes, send_files_to_host
from slurmfab.core.engine import session
from slurmfab.core.engine.requests import apply_request, gather, outcomes_of
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.phases import slurm_source
from slurmfab.core.plan.preflight.enterprise_linux import refuse_bundle
from slurmfab.core.plan.preflight.hosts import wrong_system
from slurmfab.hosts.session import Line, answer_value, piece_of
from slurmfab.on_hosts.agent.backup import archive as backup_archive
from slurmfab.on_hosts.agent.backup.archive import Archive
from slurmfab.on_hosts.agent.core.resource import FAILED, ResourceFailed
from slurmfab.on_hosts.agent.packages.bundle_place import INDEX, checked, digest_of
from slurmfab.on_hosts.agent.slurm.package_source import OF, SlurmSource

ALWAYS = ("sudo", DEBIAN.bus)
"""Packages that a host may need besides those of its roles: sudo, where users become root, and D-Bus."""

INCOMPLETE = f"{backup_archive.UNFINISHED}bundle."  # the beginning of the names of incomplete bundles
PIECE_BYTES = 1 << 20  # bytes of a file beside the cluster file that are read at once


def make(cluster: str, source: str, to: str, output: Output) -> int:
    """Collect the packages that the roles of a cluster need, with their dependencies, in one file.

    `source`: the host that downloads; empty for the primary controller. `to`: a path that ends in .tar, or a directory;
    empty for the cluster file's. Raises InputError of these; SlurmfabError if the download fails; no file is left.
    """
    known = loading.load_named(cluster)
    host = source or known.cluster.controller
    refuse_bundle(known.cluster, host, names_for(known.cluster, host))
    if is_file_path(to) and Path(to).suffix != ".tar":
        raise InputError(f"--to {to}: the name of a bundle must end in .tar, so that it does not replace another file.")
    if not wanted(known.cluster, host).client:
        raise InputError("slurm: {packages: none}: Slurm is of no package here, so no bundle can have it.")
    run = session.start(known, host, output, RunOptions("bundle"))
    try:
        with session.ending(run):
            path = collect(run, host, to)
            made = archive.verified(path)
            signers = signatures.own_keys() if made.seal.signature else ()
            pinned.pin(known, {pinned.name_in(known, path): made.digest}, signers)
    except (OSError, ResourceFailed) as error:
        where = getattr(error, "filename", None) or to or known.path.parent
        reason = getattr(error, "strerror", None) or error
        raise SlurmfabError(f"The bundle cannot be written to {where}: {reason}. Name another place: --to.") from error
    print(summary(known, made))  # noqa: T201 - the output of the command
    return 0


def names_for(cluster: Cluster, source: str, codename: str = "") -> tuple[str, ...]:
    """The packages that hosts with the Slurm of one of them can need in a release (default: newest).

    `source`: that host; nodes may be added to the cluster.
    """
    slurm, platform = cluster.slurm_of(source), wanted(cluster, source)
    hosts = [host for host in cluster.hosts if cluster.slurm_of(host) == slurm]
    names = {*ALWAYS, *platform.packages_of({"compute", *(role for host in hosts for role in cluster.roles(host))})}
    if cluster.database and not cluster.database.external and cluster.database.host in hosts:
        names |= {*platform.database.packages}
    names |= {CLIENTS[mount.type] for _, mount in named_mounts(cluster) if mount.type in CLIENTS}
    names |= {NFS_SERVER} if cluster.exports else set()
    names |= {RPCBIND} if cluster.exports or any(mount.is_nfs for _, mount in named_mounts(cluster)) else set()
    names |= {QUOTA} if cluster.quota else set()
    names |= {NFTABLES} if cluster.firewall and cluster.firewall.mode == MANAGED else set()
    names |= of_containers(cluster, codename)
    names |= {REGISTRY_SERVER, OPENSSL, CERTIFICATES} if cluster.registry else set()
    names |= {*SSSD} if cluster.directory else set()
    names |= {platform.rest, platform.jwt} - {""} if cluster.rest and cluster.rest.host in hosts else set()
    names |= {JUPYTERHUB, OPENSSL} if cluster.jupyter else set()
    names |= {NODE_EXPORTER} if cluster.monitoring else set()
    names |= {PROMETHEUS} if cluster.monitoring and cluster.monitoring.prometheus else set()
    names |= {MAILER, CERTIFICATES} if cluster.mail else set()
    names |= {AGE} if cluster.backup and cluster.backup.encrypt_to else set()
    names |= {cluster.modules.system} if cluster.modules else set()
    names |= set(ALL_OF_MPI) if cluster.mpi else set()
    names |= set(PODMAN) if cluster.has_podman else set()
    names |= set(OCI) if cluster.uses_oci else set()
    return tuple(sorted(names | {one.name for one in cluster.packages.everything}))


def of_containers(cluster: Cluster, codename: str) -> set[str]:
    """The packages of ways of running containers that not all releases have, or have by other names."""
    ways = cluster.container_ways
    names = set(docker_packages(codename)) if "docker" in ways else set()
    if "apptainer" in ways:
        names |= {SQUASHFUSE} if codename in WITHOUT_APPTAINER else {APPTAINER, SQUASHFUSE}
    return names


def texts_for(cluster: Cluster, source: str, files: Iterable[DebFile] = (), codename: str = "") -> tuple[str, ...]:
    """Packages of sources for apt-get, `NAME` or `NAME=VERSION`, and what those in files need besides."""
    texts = {one.name: one.text for one in cluster.packages.everything}
    own = {*(one.name for one in cluster.packages.everything if one.file), *(one.name for one in files)}
    needed = {names[0] for one in files for names in one.depends if own.isdisjoint(names)}
    return tuple(texts.get(name, name) for name in sorted({*names_for(cluster, source, codename), *needed} - own))


def collect(run: Run, host: str, to: str) -> Path:
    """Let a host download the packages, and write them into a bundle.

    `to`: path of the bundle, or a directory; empty for the directory of the cluster file. Returns the path of the
    bundle. Raises SlurmfabError if the host does not answer, or cannot download the packages; no file is left.
    """
    facts = gather(run, (host,), may_prepare=False)
    if host not in facts:
        raise SlurmfabError(f"The bundle needs this host. To use another one: {FAB} bundle --from HOST.")
    reason = wrong_system(facts[host], run.inventory.cluster)
    if reason:
        raise SlurmfabError(f"{host}: {reason}")
    of_slurm = (one for some in slurm_package_files.read(run.inventory).values() for one in some)
    beside = (*deb_files.read(run.inventory).values(), *of_slurm)
    fitting = tuple(one for one in beside if one.is_for(facts[host].architecture))
    has_debs = wanted(run.inventory.cluster, host).manager != DNF
    files = tuple(one for one in fitting if has_debs and isinstance(one, DebFile))
    others = tuple(one for one in fitting if not isinstance(one, DebFile))
    place = Path(to)
    is_file = is_file_path(to)
    directory = place.parent if is_file else (place if to else run.inventory.path.parent)
    usual = archive.path_of(run.inventory.path, facts[host].codename, facts[host].architecture)
    path = place if is_file else directory / usual.name
    folder = atomic_file.opened(directory, 0o755)
    backup_archive.sweep_in(folder, INCOMPLETE)
    archive_file = Archive(folder, f"bundle.{os.getpid()}", "")
    try:
        with slurms_source(run, facts[host]):
            index = fetch(run, facts[host], archive_file, files, lend(run, facts[host], others))
        sign = signatures.signer(archive.KIND.name, run.progress.line)
        about = manifest(run, facts[host], index, files)
        archive_file.finish(about, sign, over=path.name, mode=atomic_file.READABLE_BY_ALL)
    finally:
        archive_file.abandon()
    return path


@contextmanager
def slurms_source(run: Run, source: HostFacts) -> Iterator[None]:
    """A context in which a host has the source of Slurm's packages, if not before; HostError if it cannot."""
    asked = slurm_source.of_apt(run.inventory.cluster.slurm_of(source.name), repository_key.read(run.inventory))
    if asked is None:
        yield
        return
    # apt takes packages from a directory (file:) without a copy of them, which the bundle needs.
    put_there(run, source.name, replace(asked, uris=tuple(re.sub("^file:", "copy:", one) for one in asked.uris)))
    try:
        yield
    finally:
        put_there(run, source.name, asked if OF in source.owned else SlurmSource())


def put_there(run: Run, host: str, source: SlurmSource) -> None:
    """Let a host have a source of Slurm's packages, or none. Raises HostError if it cannot."""
    lines = run.transport.call(host, apply_request(run, (source,), dry_run=False))
    (outcome,) = outcomes_of(host, lines, (source,))
    if outcome.status == FAILED:
        raise HostFailed(host, outcome.message)


def lend(run: Run, source: HostFacts, files: Sequence[FiledPackage]) -> str:
    """Send a host the .rpm files of Slurm's packages that are no source's; their digest, empty for none; HostError.

    dnf chooses there what these need of the sources, and the request to collect removes them.
    """
    if wanted(run.inventory.cluster, source.name).manager != DNF or not files:
        return ""
    known = tuple((one, one.digest()) for one in files)
    send_files_to_host(run, source.name, known, SentBytes(run))
    return digest_of((one.file_name, sha256) for one, sha256 in known)


def is_file_path(to: str) -> bool:
    """Whether the value of `--to` is the path of the bundle, and not a directory for it."""
    return bool(to) and not Path(to).is_dir() and not to.endswith(os.sep)


def fetch(run: Run, source: HostFacts, archive_file: Archive, files: tuple[DebFile, ...] = (), lent: str = "") -> str:
    """Fetch packages from a host, and those in files, into an archive; the index's text, or HostError.

    `lent`: the digest of packages that the host was sent, if any.
    """
    host, current, received = source.name, list[str](), 0

    def on_line(line: Line) -> None:
        nonlocal received
        if "file" in line:
            end_file(archive_file, current)
            current.append(package_file_name(host, answer_value(host, (line,), "file")))
            archive_file.begin()
        elif "piece" in line:
            if not current:
                raise AgentFailed(host, "the agent sent data before a file name. This is a bug; please report it.")
            data = piece_of(host, line)
            archive_file.write(data)
            received += len(data)
            run.progress.doing = f"collecting packages ({format_size(received)})"
            run.progress.show_status()

    run.progress.begin("collecting packages", (host,))
    asked = {**request(run.inventory, source, files), **({"lent": lent} if lent else {})}
    lines = run.transport.call(host, asked, on_line)
    index = str(answer_value(host, lines, "collected")["index"])
    end_file(archive_file, current)
    index += add_files(archive_file, files)
    archive_file.add(INDEX, index.encode())
    run.progress.host_done(host)
    return index


def request(known: Inventory, source: HostFacts, files: tuple[DebFile, ...]) -> dict[str, Any]:
    """What a host is asked to collect."""
    slurm, kind = known.cluster.slurm_of(source.name), wanted(known.cluster, source.name)
    own = () if slurm.is_default else sorted({*kind.slurm_packages} - {one.name for one in files})
    names = texts_for(known.cluster, source.name, files, source.codename)
    manager = kind.manager.name
    asked = {"op": "collect", "manager": manager, "names": names, "slurm": own, "version": slurm.version or ""}
    return {**asked, **slurm_source.asked_of_dnf(slurm, repository_key.read(known))}


def add_files(archive_file: Archive, files: Iterable[DebFile]) -> str:
    """Add packages beside the cluster file to an archive, and return what the index gains."""
    entries = []
    for one in files:
        archive_file.begin()
        for _, data in one.pieces(PIECE_BYTES):
            archive_file.write(data)
        archive_file.end(one.file_name)
        entries.append(f"\n{one.index_entry()}\n")
    return "".join(entries)


def end_file(archive_file: Archive, current: list[str]) -> None:
    """End the file of the archive that is being written, if there is one, and forget its name."""
    if current:
        archive_file.end(current.pop())


def package_file_name(host: str, text: str) -> str:
    """The file name of a package that a host sends. Raises AgentFailed if it is not a file name of a package."""
    try:
        return checked(text)
    except ResourceFailed as error:
        raise AgentFailed(host, f"{error}. This is a bug; please report it.") from error


def manifest(run: Run, source: HostFacts, index: str, files: Iterable[DebFile] = ()) -> dict[str, Any]:
    """The manifest's values besides parts, by the downloading host; AgentFailed if Slurm is not included."""
    kind = wanted(run.inventory.cluster, source.name)
    slurm = re.search(kind.manager.indexed % re.escape(kind.client), index, re.MULTILINE)
    if slurm is None:
        raise AgentFailed(source.name, f"the packages that it downloaded do not include {kind.client}.")
    names = names_for(run.inventory.cluster, source.name, source.codename)
    return {
        "kind": archive.KIND.name,
        "suite": source.codename,
        "architecture": source.architecture,
        "slurm": "-".join(slurm.groups()),
        **archives.origin(run.started),
        "host": source.name,
        "names": sorted({*names, *(one.name for one in files)}),
    }


def summary(known: Inventory, bundle: archive.Bundle) -> str:
    """The text that the command ends with; it says how to use the bundle if the cluster file does not name it yet."""
    lines = [archive.description(bundle), f"{loading.lock_path(known.path)} has its SHA-256: commit both files."]
    name = pinned.name_in(known, bundle.path)
    if name not in known.cluster.bundle:
        key = f"[{', '.join((*known.cluster.bundle, name))}]" if known.cluster.bundle else name
        lines.append(f"To install packages from it, write into {known.path}:\nbundle: {key}")
    return "\n".join(lines)


def list_bundles(cluster: str) -> int:
    """Describe and verify the file's bundles, and others there; 1 if one is missing, damaged or unlike the lock."""
    known = loading.load_named(cluster)
    beside = sorted(known.path.parent.glob(f"{known.path.stem}.bundle-*.tar"))
    names = {path: name for name, path in archive.paths_by_name(known).items()}
    paths = tuple(dict.fromkeys((*names, *beside)))

    def describe(path: Path) -> str:
        bundle = archive.verified(path)
        text = archive.description(bundle)
        if path not in names:
            return f"{text}\n  not used: the key bundle in {known.path} does not name it"
        before = known.lock.bundles.get(names[path], bundle.digest)
        if before != bundle.digest:
            raise InputError(pinned.other_bundle(known, bundle, before))
        pinned.refuse_unknown(known, names[path], bundle)
        return text

    if not paths:
        print(f"There is no bundle for {known.path}. Make one: {FAB} bundle.")  # noqa: T201 - the output of the command
    return archives.print_descriptions(paths, describe)
