"""Bringing packages of a bundle to the hosts that lack them, over the connections that are open already.

Each host is told the bundle's index and says which files it needs; only those are sent, in pieces that are read from
the bundle as they go, so that memory does not grow with the bundle or with the number of hosts.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slurmfab.agent.packages import Packages
from slurmfab.agent.resource import Resource
from slurmfab.asking import apply_request
from slurmfab.backup.archive import size_words
from slurmfab.bundle.archive import Bundle
from slurmfab.bundle.suiting import bundles, lacking, refusal, suited
from slurmfab.errors import AgentFailed, HostFailed, InputError, SlurmfabError
from slurmfab.hostlist import fold
from slurmfab.ssh.fan_out import on_each

if TYPE_CHECKING:
    from slurmfab.run import Run
    from slurmfab.situation import Situation

PIECE = 256 * 1024
"""Bytes that go to a host at a time: with 64 hosts at once, all of the program takes some 180 MB of memory."""

TELL_SECONDS = 30.0
"""How often somebody without a terminal is told how far it is."""


class Tally:
    """How much was sent, told as it grows.

    Args:
        run: whom to tell.
    """

    def __init__(self, run: Run) -> None:
        self.progress = run.progress
        self.lock = threading.Lock()
        self.begun = self.told = time.monotonic()
        self.sent = 0

    def add(self, size: int) -> None:
        """Count bytes that a host has taken."""
        with self.lock:
            before, self.sent = self.sent, self.sent + size
            self.progress.doing = f"pushing packages ({size_words(self.sent)} so far)"
            if before >> 22 != self.sent >> 22:
                self.progress.show_status()
            if not self.progress.is_terminal and time.monotonic() - self.told > TELL_SECONDS:
                self.told = time.monotonic()
                self.progress.line(f"{self.progress.doing}; not yet through: {len(self.progress.waiting)} hosts")

    @property
    def seconds(self) -> float:
        """How long it has taken."""
        return time.monotonic() - self.begun


def delivered(
    run: Run, situation: Situation, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """The resources of a phase, with packages brought from a bundle to the hosts that lack some.

    Without `bundle` in the cluster file, and where nothing is lacking, they are what they were.

    Args:
        run: the run; a host to which nothing can be brought is lost to it.
        situation: what is wanted and known.
        resources: by host.

    Raises:
        InputError: a bundle is missing, or damaged by now.
    """
    names = {host: names_in(wanted) for host, wanted in resources.items() if names_in(wanted)}
    needing = {host: names[host] for host in names if situation.cluster.bundle and lacking(situation, host)}
    digests = push_to(run, situation, needing) if needing else {}
    return {
        host: tuple(from_bundle(one, digests.get(host, "")) for one in wanted)
        for host, wanted in resources.items()
        if host not in run.lost
    }


def push_to(run: Run, situation: Situation, needing: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Bring packages to hosts, many at once.

    Args:
        run: the run; a host to which nothing can be brought is lost to it.
        situation: what is known.
        needing: the packages that shall be installed, by host.

    Returns:
        The digest of the bundle that each host got its packages from.

    Raises:
        InputError: a bundle is missing, or damaged by now.
    """
    found, tally, digests = bundles(run), Tally(run), dict[str, str]()

    def push(host: str) -> str:
        bundle = suited(found, situation.facts[host])
        if bundle is None:
            raise HostFailed(host, refusal(found, situation.facts[host], needing[host], situation.slurm_version))
        bring(run, host, bundle, needing[host], tally)
        return bundle.digest

    run.progress.begin("pushing packages", needing)
    for host, answer in on_each(needing, push):
        if isinstance(answer, InputError):
            raise answer
        if isinstance(answer, SlurmfabError):
            run.lose(host, answer)
        else:
            digests[host] = answer
            run.progress.host_done(host)
    if tally.sent:
        run.progress.line(f"Pushed {size_words(tally.sent)} of packages to {fold(needing)} ({tally.seconds:.1f} s).")
    return digests


def names_in(resources: tuple[Resource, ...]) -> tuple[str, ...]:
    """The packages that resources want."""
    return tuple(name for one in resources if isinstance(one, Packages) for name in one.names)


def from_bundle(resource: Resource, digest: str) -> Resource:
    """A resource whose packages were brought there from a bundle; any other as it is."""
    return replace(resource, bundle=digest) if isinstance(resource, Packages) else resource


def bring(run: Run, host: str, bundle: Bundle, names: tuple[str, ...], tally: Tally) -> None:
    """Bring a host the files that it lacks for these packages.

    Raises:
        HostError: they cannot be brought there.
        InputError: the bundle has become shorter meanwhile.
    """
    answer = tell(run, host, bundle, {"do": "begin", "index": bundle.index, "names": names})
    with bundle.path.open("rb") as file:
        for name in answer["lacking"]:
            if name not in bundle.parts:
                raise AgentFailed(host, f"it asks for {name}, which {bundle.path} has not; please report this.")
            part, at = bundle.parts[name], 0
            while at < part.size:
                file.seek(part.at + at)
                data = file.read(min(PIECE, part.size - at))
                if not data:
                    raise InputError(f"{bundle.path} has become shorter meanwhile. Make it anew: fab bundle.")
                is_last = at + len(data) == part.size
                step = {"do": "write", "file": name, "at": at, "sha256": part.sha256 if is_last else ""}
                tell(run, host, bundle, {**step, "data": base64.b64encode(data).decode()})
                at += len(data)
                tally.add(len(data))


def tell(run: Run, host: str, bundle: Bundle, step: Mapping[str, Any]) -> Mapping[str, Any]:
    """Have a host do a step of it, and return its answer.

    Raises:
        HostError: it cannot.
    """
    who = apply_request(run, (), dry_run=False)["who"]
    lines = run.transport.call(host, {"op": "bundle", "who": who, "bundle": bundle.digest, **step})
    answer = next((line["bundle"] for line in lines if "bundle" in line), None)
    if answer is None:
        raise AgentFailed(host, "the agent took packages without a word; please report this.")
    return dict(answer)
