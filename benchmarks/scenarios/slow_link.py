"""A deployment with nothing to change over a long line, beside one login on every host over the same line."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import proxy
from benchmarks.access import Access
from benchmarks.clusters import with_endpoints
from benchmarks.measuring import Way
from benchmarks.peers.peer import Job
from benchmarks.results import Target
from benchmarks.scenarios.running_cluster import OTHERS, peer_jobs
from benchmarks.scenarios.scenario import SLURMFAB, SSH_TRUE, Scenario, Setting, floors

NODES = 4
TREE = Path(__file__).parents[2]


class Link:
    """Proxies in front of hosts, in a process of their own.

    Args:
        hosts: the way to them without a proxy.
        round_trip: seconds.
        directory: for the files of the way through the proxies.
    """

    def __init__(self, hosts: Access, round_trip: float, directory: Path) -> None:
        targets = {place.name: (place.address, place.port) for place in hosts.places}
        self.process = subprocess.Popen(
            proxy.command(round_trip, targets), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TREE
        )
        assert self.process.stdout
        words = self.process.stdout.readline().split()
        if words[:1] != [proxy.READY]:
            raise OSError("The delaying proxy did not start.")
        places = (
            replace(place, address="127.0.0.1", port=int(port), behind=place.address)
            for place, port in zip(hosts.places, words[1:], strict=True)
        )
        self.hosts = Access(tuple(places), hosts.key, directory).write()

    def close(self) -> None:
        """End the proxies."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=10)


class Links:
    """All links of a scenario, to be closed at its end."""

    def __init__(self) -> None:
        self.open: list[Link] = []

    def ways(self, round_trip: float, setting: Setting) -> Iterable[Way]:
        """One login on every host, and a deployment with nothing to change, over the same line."""
        name = f"{round_trip * 1000:.0f}ms"
        direct = setting.labs.deployed(NODES)
        far = self.to(direct.access, round_trip, setting.directory / f"link-{name}")
        cluster = with_endpoints(direct, far, setting.directory / f"link-{name}.yaml")
        cluster.require_no_change()
        yield from floors(far)
        yield Way(SLURMFAB, lambda: cluster.slurmfab("deploy"))
        for peer, job in peer_jobs(setting, NODES):
            distant = self.to(job.hosts, round_trip, setting.directory / f"link-{name}-{peer.name}")
            yield Way(peer.name, partial(peer.deploy, Job(distant, job.directory, job.timeout)), is_peer=True)

    def to(self, hosts: Access, round_trip: float, directory: Path) -> Access:
        """The way to hosts over a line of this length."""
        link = Link(hosts, round_trip, directory)
        self.open.append(link)
        return link.hosts

    def close(self, _: Setting) -> None:
        """End all proxies."""
        while self.open:
            self.open.pop().close()


def scenario(milliseconds: int) -> Scenario:
    """The scenario of a line with this round trip."""
    links = Links()
    return Scenario(
        f"slow-link-{milliseconds}",
        f"no-change run over a link with {milliseconds} ms round trip, 5 hosts",
        partial(links.ways, milliseconds / 1000),
        (Target(SLURMFAB, SSH_TRUE, 3), *OTHERS),
        tidy=links.close,
        notes=(
            "The link is a TCP proxy of the benchmark suite that delays both directions and does not limit bandwidth.",
        ),
    )


SLOW_20 = scenario(20)
SLOW_100 = scenario(100)
