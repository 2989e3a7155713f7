"""Sending package files to many hosts over the SSH connections that are open already.

The files come from a bundle (`slurmfab.commands.bundle.sending`), or lie beside the cluster file
(`commands.bundle.sending_files`). Their pieces are read when they are sent, so memory does not grow with their sizes.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from slurmfab.base.archive import format_size
from slurmfab.base.errors import AgentFailed, HostFailed, InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.slurm.platform import DNF
from slurmfab.commands.bundle.archive import Bundle
from slurmfab.commands.bundle.pinned import bundles, pin_first_uses
from slurmfab.commands.bundle.selection import expected_series, lacking, newest_for, refusal
from slurmfab.core.engine.requests import apply_request
from slurmfab.core.plan.phases.packages import own, wanted
from slurmfab.core.plan.phases.slurm_source import in_files
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.packages.bundle_place import digest_of
from slurmfab.on_hosts.agent.packages.packages import InstalledPackages

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run
    from slurmfab.core.plan.plan_input import PlanInput


Answer = TypeVar("Answer")

PIECE_BYTES = 256 * 1024
"""Bytes that one request sends to a host: with 64 hosts at once, the program takes about 180 MB of memory."""

PROGRESS_SECONDS = 30.0  # without a terminal, a line of progress is printed at most this often


class PackageFile(NamedTuple):
    """A file that is sent to a host."""

    name: str
    size: int  # in bytes
    sha256: str  # its checksum, which the host compares after the last piece
    pieces: Iterable[tuple[int, bytes]]  # its bytes, each piece with its offset


class SentBytes:
    """Counts the bytes that were sent to all hosts, and shows the progress. `run`: the run whose progress is shown."""

    def __init__(self, run: Run) -> None:
        self.progress = run.progress
        self.lock = threading.Lock()
        self.begun = self.last_line = time.monotonic()
        self.sent = 0

    def add(self, size: int) -> None:
        """Count bytes that a host has stored."""
        with self.lock:
            before, self.sent = self.sent, self.sent + size
            self.progress.doing = f"pushing packages ({format_size(self.sent)} so far)"
            if before >> 22 != self.sent >> 22:
                self.progress.show_status()
            if not self.progress.is_terminal and time.monotonic() - self.last_line > PROGRESS_SECONDS:
                self.last_line = time.monotonic()
                self.progress.line(f"{self.progress.doing}; {len(self.progress.waiting)} hosts are not done yet")

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.begun


def send_to_each(run: Run, hosts: Collection[str], send: Callable[[str, SentBytes], Answer]) -> dict[str, Answer]:
    """Send packages to hosts at once by `send`; its results without excluded hosts, InputError if unreadable."""
    sent, answers = SentBytes(run), dict[str, Answer]()
    run.progress.begin("pushing packages", hosts)
    for host, answer in on_each(hosts, lambda host: send(host, sent)):
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            answers[host] = answer
            run.progress.host_done(host)
    if sent.sent:
        run.progress.line(f"Pushed {format_size(sent.sent)} of packages to {fold(hosts)} ({sent.seconds:.1f} s).")
    return answers


def send_file(run: Run, host: str, digest: str, file: PackageFile, sent: SentBytes) -> None:
    """Send a host a package file of a bundle or set; HostError of the host, InputError if it is unreadable."""
    for offset, data in file.pieces:
        is_last = offset + len(data) == file.size
        step = {"do": "write", "file": file.name, "at": offset, "sha256": file.sha256 if is_last else ""}
        request_step(run, host, digest, {**step, "data": base64.b64encode(data).decode()})
        sent.add(len(data))


def request_step(run: Run, host: str, digest: str, step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask a host to store package files, a step of it; HostError if the host is silent or refuses.

    `step`: as `slurmfab.on_hosts.agent.packages.bundle_staging` has it. `digest`: of the bundle, or of the files that
    are sent together. The answer to `begin` and `begin-files` has the names of the files that it needs, as `lacking`.
    """
    who = apply_request(run, (), dry_run=False)["who"]
    lines = run.transport.call(host, {"op": "bundle", "who": who, "bundle": digest, **step})
    return dict(answer_value(host, lines, "bundle"))


def deliver_bundle(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Send packages to the hosts that lack some, before a phase installs them from there.

    Returns the resources by host, unchanged without need. Raises InputError if a bundle is missing, damaged or another.
    """
    texts = {host: package_texts(wanted) for host, wanted in resources.items() if package_texts(wanted)}
    needing = {host: texts[host] for host in texts if plan_input.cluster.bundle and needs_some(plan_input, host)}
    digests = send_packages(run, plan_input, needing) if needing else {}
    return {
        host: tuple(
            replace(one, bundle=digests.get(host, "")) if isinstance(one, InstalledPackages) else one for one in wanted
        )
        for host, wanted in resources.items()
        if host not in run.failed_hosts
    }


def needs_some(plan_input: PlanInput, host: str) -> bool:
    """Whether a host lacks packages, or has some that it installs anew."""
    return bool(lacking(plan_input, host) or (host in plan_input.facts and killed(plan_input, host)))


def send_packages(run: Run, plan_input: PlanInput, needing: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Send packages to many hosts at the same time.

    `needing`: the packages to install, by host, each as `NAME` or `NAME=VERSION`. Returns the digest of the bundle that
    the packages came from, by host. Raises InputError if a bundle is missing, damaged or another one than before.
    """
    found = bundles(run.inventory)
    chosen = {host: newest_for(found, plan_input.facts[host]) for host in needing}
    pin_first_uses(run, filter(None, chosen.values()))

    def send(host: str, sent: SentBytes) -> str:
        bundle = chosen[host]
        if bundle is None:
            names, facts = tuple(text.partition("=")[0] for text in needing[host]), plan_input.facts[host]
            raise HostFailed(host, refusal(found, facts, names, expected_series(plan_input, facts)))
        manager = plan_input.platform_of(host).manager.name
        step = {"do": "begin", "manager": manager, "index": bundle.index, "names": needing[host]}
        send_bundle_to_host(run, host, bundle, step, sent)
        return bundle.digest

    return send_to_each(run, needing, send)


def package_texts(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    """All packages among resources, each as `NAME` or `NAME=VERSION`."""
    return tuple(text for one in resources if isinstance(one, InstalledPackages) for text in one.asked_of_bundle)


def send_bundle_to_host(run: Run, host: str, bundle: Bundle, step: Mapping[str, Any], sent: SentBytes) -> None:
    """Send a host the package files that it lacks; HostError of the host, InputError of a shorter bundle.

    `step`: the first step, which asks what the host lacks.
    """
    answer = request_step(run, host, bundle.digest, step)
    for name in answer["lacking"]:
        part = bundle.parts.get(name)
        if part is None:
            raise AgentFailed(
                host, f"it asks for {name}, which is not in {bundle.path}. This is a bug; please report it."
            )
        pieces = part.pieces(PIECE_BYTES, f"Make it again: {FAB} bundle.")
        send_file(run, host, bundle.digest, PackageFile(name, part.size, part.sha256, pieces), sent)


Files = tuple[tuple[FiledPackage, str], ...]  # packages, each with the SHA-256 of its file


def refusals(plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
    """The hosts, if they have facts, that lack a package whose file is for another architecture, and why."""
    reasons = {}
    for host in hosts:
        if host not in plan_input.facts:
            continue
        there = plan_input.facts[host].architecture
        wrong = [one for one in needed_files(plan_input, host) if there and not one.is_for(there)]
        if wrong:
            reasons[host] = (
                f"{wrong[0].path} is for {wrong[0].architecture}, and the host is {there}. Give it one of its own: "
                "groups under packages. Nothing was changed there."
            )
        absent = no_files(plan_input, host)
        if absent and not wrong:
            reasons[host] = (
                f"it lacks {', '.join(absent)}, and the directory of slurm.source has no such package for {there} of "
                "the Slurm that the host has or gets. Put it there. Nothing was changed on this host."
            )
    return reasons


def no_files(plan_input: PlanInput, host: str) -> list[str]:
    """Slurm's packages that a host with dnf lacks, and that no file of the cluster file's directory has for it."""
    if plan_input.platform_of(host).manager != DNF or plan_input.cluster.bundle:
        return []
    names = wanted(plan_input, host)
    files = {one.name for one in in_files(plan_input, host, names)}
    return sorted({*lacking(plan_input, host)} & {*plan_input.platform_of(host).slurm_packages} - files)


def needed_files(plan_input: PlanInput, host: str) -> tuple[FiledPackage, ...]:
    """The packages in files that a host lacks, or has in another version; empty without facts of it."""
    if host not in plan_input.facts:
        return ()
    absent = {*lacking(plan_input, host), *killed(plan_input, host)}
    files = plan_input.deb_files
    return (
        *(files[one.file] for one in own(plan_input, host) if one.file in files and one.name in absent),
        *(one for one in in_files(plan_input, host, wanted(plan_input, host)) if one.name in absent),
    )


def killed(plan_input: PlanInput, host: str) -> tuple[str, ...]:
    """The packages that a killed dnf has left, which it installs anew from their files."""
    return plan_input.facts[host].unfinished_packages if plan_input.platform_of(host).manager == DNF else ()


def deliver_files(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Send packages to the hosts that lack some, before a phase installs them.

    `resources`: the resources of the phase, by host. Returns the resources by host, whose packages are installed from
    the files that were sent. Raises InputError if a file cannot be read any more.
    """
    wanted = {host: needed_files(plan_input, host) for host in resources}
    digests = {path: one.digest() for path, one in {one.path: one for some in wanted.values() for one in some}.items()}
    needing = {host: tuple((one, digests[one.path]) for one in files) for host, files in wanted.items() if files}
    if needing:
        send_to_each(run, needing, lambda host, sent: send_files_to_host(run, host, needing[host], sent))
    return {
        host: tuple(from_files(one, needing.get(host, ())) for one in given)
        for host, given in resources.items()
        if host not in run.failed_hosts
    }


def from_files(resource: Resource, files: Files) -> Resource:
    """A resource that installs these packages from their files; resources of other kinds are unchanged."""
    if not isinstance(resource, InstalledPackages) or not files:
        return resource
    return replace(resource, files=tuple((one.name, one.file_name, sha256) for one, sha256 in files))


def send_files_to_host(run: Run, host: str, files: Files, sent: SentBytes) -> None:
    """Send a host the files that it lacks; HostError of the host, InputError if a file is unreadable now."""
    digest = digest_of((one.file_name, sha256) for one, sha256 in files)
    names = {one.file_name: sha256 for one, sha256 in files}
    sizes = [sum(one.size for one, _ in files), sum(one.installed_bytes for one, _ in files)]
    answer = request_step(run, host, digest, {"do": "begin-files", "files": names, "bytes": sizes})
    by_name = {one.file_name: (one, sha256) for one, sha256 in files}
    for name in answer["lacking"]:
        if name not in by_name:
            raise AgentFailed(host, f"it asks for {name!r:.80}, which is not for it. This is a bug; please report it.")
        one, sha256 = by_name[name]
        send_file(run, host, digest, PackageFile(name, one.size, sha256, one.pieces(PIECE_BYTES)), sent)
