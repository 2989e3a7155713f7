"""Sending packages of a bundle to the hosts that lack them, over the SSH connections that are open already.

Each host gets the bundle's index and answers which files it needs. Only these are sent, in pieces that are read from
the bundle when they are sent, so that memory does not grow with the size of the bundle.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurmfab.agent.core.resource import Resource
from slurmfab.agent.packages.packages import Packages
from slurmfab.archive import format_size
from slurmfab.bundle.archive import Bundle
from slurmfab.bundle.pinned import bundles, pin_first_uses
from slurmfab.bundle.selection import lacking, newest_for, refusal
from slurmfab.engine.requests import apply_request
from slurmfab.errors import AgentFailed, HostFailed, InputError, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.program_name import FAB
from slurmfab.ssh.fan_out import on_each
from slurmfab.ssh.session import answer_value

if TYPE_CHECKING:
    from slurmfab.engine.run import Run
    from slurmfab.plan.plan_input import PlanInput

PIECE_BYTES = 256 * 1024
"""Bytes that one request sends to a host: with 64 hosts at once, the program takes about 180 MB of memory."""

PROGRESS_SECONDS = 30.0
"""Without a terminal, a line of progress is printed at most this often."""


class SentBytes:
    """Counts the bytes that were sent to all hosts, and shows the progress.

    Args:
        run: the run whose progress is shown.
    """

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


def deliver(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Send packages to the hosts that lack some, before a phase installs them.

    Args:
        run: the run; a host to which packages cannot be sent is excluded from it.
        plan_input: facts and wanted state.
        resources: the resources of the phase, by host.

    Returns:
        The resources by host, whose packages are installed from what was sent. Without `bundle` in the cluster file,
        and on hosts that lack nothing, they are unchanged.

    Raises:
        InputError: a bundle is missing, damaged or another one than before.
    """
    texts = {host: package_texts(wanted) for host, wanted in resources.items() if package_texts(wanted)}
    needing = {host: texts[host] for host in texts if plan_input.cluster.bundle and lacking(plan_input, host)}
    digests = send_packages(run, plan_input, needing) if needing else {}
    return {
        host: tuple(from_bundle(one, digests.get(host, "")) for one in wanted)
        for host, wanted in resources.items()
        if host not in run.failed_hosts
    }


def send_packages(run: Run, plan_input: PlanInput, needing: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Send packages to many hosts at the same time.

    Args:
        run: the run; a host to which packages cannot be sent is excluded from it.
        plan_input: facts and wanted state.
        needing: the packages to install, by host, each as `NAME` or `NAME=VERSION`.

    Returns:
        The digest of the bundle that the packages came from, by host.

    Raises:
        InputError: a bundle is missing, damaged or another one than before.
    """
    found, sent, digests = bundles(run.inventory), SentBytes(run), dict[str, str]()
    chosen = {host: newest_for(found, plan_input.facts[host]) for host in needing}
    pin_first_uses(run, filter(None, chosen.values()))

    def push(host: str) -> str:
        bundle = chosen[host]
        if bundle is None:
            names = names_in(needing[host])
            raise HostFailed(host, refusal(found, plan_input.facts[host], names, plan_input.slurm_version))
        send_to_host(run, host, bundle, needing[host], sent)
        return bundle.digest

    run.progress.begin("pushing packages", needing)
    for host, answer in on_each(needing, push):
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            digests[host] = answer
            run.progress.host_done(host)
    if sent.sent:
        run.progress.line(f"Pushed {format_size(sent.sent)} of packages to {fold(needing)} ({sent.seconds:.1f} s).")
    return digests


def package_texts(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    """All packages among resources, each as `NAME` or `NAME=VERSION`."""
    return tuple(text for one in resources if isinstance(one, Packages) for text in one.texts(one.names))


def names_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The names of packages, each given as `NAME` or `NAME=VERSION`."""
    return tuple(text.partition("=")[0] for text in texts)


def from_bundle(resource: Resource, digest: str) -> Resource:
    """A resource that installs its packages from a bundle; resources of other kinds are unchanged."""
    return replace(resource, bundle=digest) if isinstance(resource, Packages) else resource


def send_to_host(run: Run, host: str, bundle: Bundle, names: tuple[str, ...], sent: SentBytes) -> None:
    """Send a host the package files that it lacks.

    Args:
        run: the run.
        host: the host.
        bundle: the bundle.
        names: the packages to install.
        sent: counts the bytes.

    Raises:
        HostError: the host cannot be reached, or cannot store the files.
        InputError: the bundle has become shorter.
    """
    answer = request_step(run, host, bundle, {"do": "begin", "index": bundle.index, "names": names})
    for name in answer["lacking"]:
        part = bundle.parts.get(name)
        if part is None:
            raise AgentFailed(
                host, f"it asks for {name}, which is not in {bundle.path}. This is a bug; please report it."
            )
        for offset, data in part.pieces(PIECE_BYTES, f"Make it again: {FAB} bundle."):
            is_last = offset + len(data) == part.size
            step = {"do": "write", "file": name, "at": offset, "sha256": part.sha256 if is_last else ""}
            request_step(run, host, bundle, {**step, "data": base64.b64encode(data).decode()})
            sent.add(len(data))


def request_step(run: Run, host: str, bundle: Bundle, step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask a host to store package files.

    Args:
        run: the run.
        host: the host.
        bundle: the bundle.
        step: `do` is `begin`, with `index` and `names`, or `write`, with `file`, `at`, `sha256` and `data`.

    Returns:
        The agent's answer; for `begin` it has the names of the files that the host needs, as `lacking`.

    Raises:
        HostError: the host cannot be reached, or the step failed.
    """
    who = apply_request(run, (), dry_run=False)["who"]
    lines = run.transport.call(host, {"op": "bundle", "who": who, "bundle": bundle.digest, **step})
    return dict(answer_value(host, lines, "bundle"))
