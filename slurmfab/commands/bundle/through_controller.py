"""Packages through the controller (`packages: {through: controller}`): its apt fetches them once, SSH brings them."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from slurmfab.base.archive import format_size
from slurmfab.base.errors import AgentFailed, HostFailed, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.own_directory import own_directory
from slurmfab.cluster.slurm.platform import APT
from slurmfab.commands.bundle.making import slurms_source
from slurmfab.commands.bundle.selection import lacking
from slurmfab.commands.bundle.sending import PIECE_BYTES, PackageFile, SentBytes, request_step, send_file, send_to_each
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.requests import apply_request, outcomes_of
from slurmfab.hosts.session import Line, answer_value, piece_of
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, Resource
from slurmfab.on_hosts.agent.packages.package_way import PackageWay
from slurmfab.on_hosts.agent.packages.packages import InstalledPackages
from slurmfab.on_hosts.agent.slurm.package_source import SlurmSource

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run
    from slurmfab.core.plan.plan_input import PlanInput

MOST_BYTES = 16 << 30  # of all files, which are on this machine's disk until the hosts have them
MOST_OF_HOST = 8 << 30  # bytes of the packages that one host may lack: a host that lies fills no disk
MOST_PACKAGES = 2000  # that one host may lack
MARGIN = 256 << 20  # bytes that stay free on this machine's disk

_LIST = re.compile(r"[0-9a-f]{64}\.gz")
_LACKING = re.compile(r"([0-9a-f]{64}) ([a-z0-9][a-z0-9.+-]*_[A-Za-z0-9.+~%-]+_[a-z0-9-]+\.deb)")


class TooLarge(Exception):
    """Packages that the controller has not fetched, since they have more bytes than it was allowed."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Kept(NamedTuple):
    """A file from the controller."""

    path: Path
    size: int  # in bytes
    sha256: str

    def as_named(self, name: str) -> PackageFile:
        """The file as it is sent to a host under a name."""
        return PackageFile(name, self.size, self.sha256, self.pieces())

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """Yield its bytes, each piece with its offset."""
        with self.path.open("rb") as file:
            while data := file.read(PIECE_BYTES):
                yield file.tell() - len(data), data


@dataclass
class Collected:
    """Files from the controller in a directory of this machine, for as long as hosts are sent them."""

    run: Run
    place: Path
    files: dict[str, Kept] = field(default_factory=dict)
    size: int = 0  # bytes of all

    def fetch(self, wanted: re.Pattern[str], request: Mapping[str, Any]) -> dict[str, Kept]:
        """Fetch files whose names match, a part of them; HostError of the controller."""
        host, found, name, digest, size = self.run.controller, dict[str, Kept](), "", hashlib.sha256(), 0

        def end_file() -> None:
            if name:
                found[name] = Kept(self.place / name, size, digest.hexdigest())

        def on_line(line: Line) -> None:
            nonlocal name, digest, size
            if "file" in line:
                end_file()
                name, digest, size = str(answer_value(host, (line,), "file")), hashlib.sha256(), 0
                if not wanted.fullmatch(name) or name in self.files or name in found:
                    raise AgentFailed(host, f"it sent {name!r:.80}, which was not asked for. Please report this bug.")
                (self.place / name).touch()
            elif "piece" in line:
                data = piece_of(host, line)
                if not name or self.size + len(data) > MOST_BYTES:
                    raise AgentFailed(host, "it sent data before a file name, or more than packages have.")
                with (self.place / name).open("ab") as file:
                    file.write(data)
                digest.update(data)
                size, self.size = size + len(data), self.size + len(data)
                self.run.progress.doing = f"collecting packages ({format_size(self.size)})"
                self.run.progress.show_status()

        self.run.progress.begin("collecting packages", (host,))
        lines = self.run.transport.call(host, {"op": "collect", "manager": APT.name, **request}, on_line)
        refused = int(answer_value(host, lines, "collected").get("refused", 0))
        if refused:
            raise TooLarge(refused)
        end_file()
        self.files |= found
        self.run.progress.host_done(host)
        return found

    def fetch_for(self, wanted: Mapping[str, list[tuple[str, str]]]) -> dict[str, Kept]:
        """Fetch the packages that hosts lack, and exclude a host whose packages are too many bytes, or not to be had.

        Hosts that lack what others lack come first, so that one that lies takes no room from them. `wanted`: keys and
        names by host. Raises HostError of the controller, but not for what it cannot fetch.
        """
        found, asked = dict[str, Kept](), set[str]()
        lacking = {host: {name for _, name in pairs} for host, pairs in wanted.items()}
        shared = Counter(name for names in lacking.values() for name in names)

        def sharing(host: str) -> float:
            return sum(shared[name] for name in lacking[host]) / max(len(lacking[host]), 1)

        for host in sorted(lacking, key=sharing, reverse=True):
            names = lacking[host]
            new = sorted(names - asked)
            most = min(MOST_OF_HOST, MOST_BYTES - self.size, shutil.disk_usage(self.place).free - MARGIN)
            try:
                if new:
                    request = {"part": "packages", "names": new, "most": max(most, 0)}
                    found |= self.fetch(re.compile("|".join(map(re.escape, new))), request)
                asked.update(new)
            except TooLarge as error:
                told = f"it lacks {len(new)} packages of {format_size(error.size)}, and {format_size(max(most, 0))} may"
                self.run.exclude(host, HostFailed(host, f"{told} come through {self.run.controller}."))
            except AgentFailed as error:
                told = f"{self.run.controller} cannot fetch the packages that it lacks: {error.reason}"
                self.run.exclude(host, HostFailed(host, told))
        return found


def deliver(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Have the controller fetch what hosts lack, and send it to them, before they install it by their own apt.

    Where the controller cannot, hosts go their own ways, and the reason is told. Raises HostError of the controller.
    """
    hosts = needing(plan_input, resources)
    if not hosts:
        return dict(resources)
    with (
        own_directory("packages") as place,
        slurms_source(run, plan_input.facts[run.controller]),
    ):
        collected = Collected(run, place)
        try:
            lists = collected.fetch(_LIST, {"part": "lists"})
        except AgentFailed as error:
            run.progress.line(f"Packages do not come through {run.controller}, but by each host's own way: {error}")
            return dict(resources)
        try:
            text = "".join(f"{name} {one.sha256}\n" for name, one in sorted(lists.items()))
            digest = hashlib.sha256(text.encode()).hexdigest()
            wanted = send_lists(run, digest, lists, {host: resources[host] for host in hosts})
            packages = collected.fetch_for(wanted)
            wanted = {host: pairs for host, pairs in wanted.items() if host not in run.failed_hosts}
            told = f"{len(lists) + len(packages)} files of packages ({format_size(collected.size)})"
            run.progress.line(f"{run.controller} fetched {told} once for {fold(hosts)}.")
            send_packages(run, digest, packages, wanted)
        finally:
            with suppress(SlurmfabError):
                run.transport.call(run.controller, {"op": "collect", "manager": APT.name, "part": "end"})
    return {
        host: (PackageWay(digest), *given) if host in hosts else given
        for host, given in resources.items()
        if host not in run.failed_hosts
    }


def send_lists(
    run: Run, digest: str, lists: Mapping[str, Kept], resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, list[tuple[str, str]]]:
    """Send hosts the lists, and let them have Slurm's source; the keys and names of packages that each would fetch."""

    def send(host: str, sent: SentBytes) -> list[tuple[str, str]]:
        step = {"do": "begin-lists", "files": {name: one.sha256 for name, one in lists.items()}}
        for name in request_step(run, host, digest, step)["lacking"]:
            if name not in lists:
                raise AgentFailed(host, f"it asks for {name!r:.80}, which is not for it. Please report this bug.")
            send_file(run, host, digest, lists[name].as_named(name), sent)
        begin_there(run, host, digest, tuple(one for one in resources[host] if isinstance(one, SlurmSource)))
        packages = [one for one in resources[host] if isinstance(one, InstalledPackages)]
        names = [text for one in packages for text in one.asked_of_bundle]
        of_slurm = next(((one.slurm, one.slurm_version) for one in packages if one.slurm), ((), ""))
        files = [one for some in packages for one in some.files]
        asked = {"do": "needed", "names": names, "slurm": of_slurm[0], "version": of_slurm[1], "files": files}
        found = [_LACKING.fullmatch(line) for line in request_step(run, host, digest, asked)["lacking"]]
        if len(found) > MOST_PACKAGES:
            raise AgentFailed(host, f"it asks for {len(found)} packages, which is more than slurmfab installs.")
        return [(one[1], one[2]) for one in found if one]

    return send_to_each(run, tuple(resources), send)


def begin_there(run: Run, host: str, digest: str, source: tuple[Resource, ...]) -> None:
    """Have a host's apt take files from the controller alone, and have Slurm's source; HostError if it cannot."""
    begun, wanted = time.monotonic(), (PackageWay(digest), *source)
    outcomes = outcomes_of(host, run.transport.call(host, apply_request(run, wanted, dry_run=False)), wanted)
    changed = tuple(one for one in outcomes if one.status == CHANGED)
    if changed:
        run.record_steps(Step("packages", host, changed, time.monotonic() - begun))
    for one in outcomes:
        if one.status == FAILED:
            raise HostFailed(host, one.message)


def send_packages(
    run: Run, digest: str, packages: Mapping[str, Kept], wanted: Mapping[str, list[tuple[str, str]]]
) -> None:
    """Send hosts the packages that they would fetch."""

    def send(host: str, sent: SentBytes) -> None:
        for key, name in wanted[host]:
            if name in packages:
                send_file(run, host, digest, packages[name].as_named(key), sent)

    send_to_each(run, [host for host, pairs in wanted.items() if pairs], send)


def refusals(plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
    """The hosts that lack packages which the controller's package sources do not have, by release or architecture."""
    controller = plan_input.cluster.controller
    if controller not in plan_input.facts:
        return {}
    there = kind_of(plan_input, controller)
    return {
        host: f"it lacks packages and is {kind_of(plan_input, host)}, and the controller, whose packages it would get, "
        f"is {there}. A bundle can be of another host: remove packages: {{through: controller}}, and see "
        "docs/offline.md. Nothing was changed there."
        for host in needing(plan_input, hosts)
        if kind_of(plan_input, host) != there
    }


def kind_of(plan_input: PlanInput, host: str) -> str:
    """The release and architecture of a host."""
    return f"{plan_input.facts[host].codename} {plan_input.facts[host].architecture}"


def needing(plan_input: PlanInput, hosts: Iterable[str]) -> list[str]:
    """The hosts besides the controller that have apt and its Slurm, and lack packages."""
    cluster = plan_input.cluster
    return [
        host
        for host in hosts
        if host != cluster.controller
        and host in plan_input.facts
        and plan_input.platform_of(host).manager == APT
        and cluster.slurm_of(host) == cluster.slurm_of(cluster.controller)
        and lacking(plan_input, host)
    ]
