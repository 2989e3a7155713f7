"""Up to ten thousand stand-ins for hosts: what one host of many costs the deployer, and what dead ones do to a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from benchmarks import endpoints
from benchmarks.measuring import Way
from benchmarks.plan_10000 import facts_of
from benchmarks.programs import PROGRAM, ProgramFailed, output_of, surroundings, timed
from benchmarks.results import MEMORY, MEMORY_EACH, PROCESSORS, SECONDS, Sample, Target
from benchmarks.scenarios.scenario import Scenario, Setting
from slurmfab.cluster.facts import OURS, adapter
from slurmfab.cluster.inventory import loading

PORT = 2300
SIZES = (64, 512, 2000)
MOST = 10_000
DEAD = 200
MOST_PROCESSORS = 12
"""Milliseconds of the deployer's processors for each host."""

MOST_MEMORY = 40
"""KiB of the deployer's memory for each host."""

OWN = int(IPv4Address("198.18.0.0"))
"""The first of the addresses that Slurm would use (RFC 2544, for benchmarks); nobody connects to them."""

LEFT_OUT = 3
PATIENCE = 300


@dataclass(frozen=True)
class Far:
    """Stand-ins that answer, and a cluster file for them.

    Args:
        file: the cluster file.
        process: of the stand-ins.
    """

    file: Path
    process: subprocess.Popen[str]

    def cost(self) -> float:
        """Seconds of a processor that the stand-ins have taken."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("cost\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def deploy(self, *codes: int) -> Sample:
        """A deployment with nothing to change, with the processor seconds of the deployer alone."""
        return timed((*PROGRAM, "deploy", "--cluster", str(self.file)), codes=codes or (0,), patience=PATIENCE)

    def ways(self, count: int, dead: int = 0) -> Iterator[Way]:
        """A deployment with nothing to change, and what the stand-ins took for it."""
        spent: list[float] = []

        def deployed() -> Sample:
            before = self.cost()
            done = self.deploy(*((LEFT_OUT,) if dead else ()))
            spent.append(self.cost() - before)
            return done

        yield Way(name_of(count, dead), deployed)
        if not dead:
            yield Way(of_stand_ins(count), lambda: Sample(spent[-1], spent[-1]))


def name_of(count: int, dead: int = 0) -> str:
    """The way with so many endpoints."""
    return f"slurmfab, {count:,}" + (f", {dead} of them dead" if dead else "")


def of_stand_ins(count: int) -> str:
    """What so many endpoints took themselves."""
    return f"the stand-ins themselves, {count:,}"


def hostlist(first: int, count: int) -> str:
    """Addresses in a row as a hostlist."""
    parts = []
    for block in range(first >> 8, (first + count - 1 >> 8) + 1):
        low, high = max(first, block << 8), min(first + count - 1, (block << 8) + 255)
        parts.append(f"{IPv4Address(low)!s}".rpartition(".")[0] + f".[{low & 255}-{high & 255}]")
    return ",".join(parts)


def cluster_file(directory: Path, count: int, dead: int = 0) -> Path:
    """A cluster file and a lock for so many endpoints, of which the last ones are dead."""
    file, nodes, living = directory / f"far{count}-{dead}.yaml", count - 1, count - 1 - dead
    ends = [f'ctl: {IPv4Address(endpoints.FIRST)}, "n[1-{living}]": "{hostlist(endpoints.FIRST + 1, living)}"']
    if dead:
        places = [f"{one}:{PORT + 1}" for one in hostlist(endpoints.FIRST + count - dead, dead).split(",")]
        ends.append(f'"n[{living + 1}-{nodes}]": "{",".join(places)}"')
    file.write_text(
        f"cluster: far\nssh: {{user: root, port: {PORT}, key: {directory / 'key'}, endpoints: {{{', '.join(ends)}}}}}\n"
        f'addresses: {{ctl: {IPv4Address(OWN)}, "n[1-{nodes}]": "{hostlist(OWN + 1, nodes)}"}}\n'
        f"controllers: [ctl]\nnodes: [{{hosts: 'n[1-{nodes}]'}}]\n"
    )
    kind, public = (directory / "host_key.pub").read_text().split()[:2]
    hosts = {host: {"host_keys": {kind: public}} for host in ("ctl", *(f"n{number}" for number in range(1, count)))}
    file.with_suffix(".lock.json").write_text(json.dumps({"version": 1, "hosts": hosts}))
    return file


def answers(directory: Path) -> None:
    """Write the facts that stand-ins answer with, and the keys."""
    for name in ("key", "host_key"):
        output_of(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)])
    kind, public = (directory / "host_key.pub").read_text().split()[:2]
    small = loading.parse("cluster: far\ncontrollers: [ctl]\nnodes: [{hosts: n1}]\n", "far")
    made = {}
    for role, facts in zip(("controller", "node"), facts_of(small, "").values(), strict=True):
        plain = adapter().dump_python(facts, mode="json", exclude=OURS)
        made[role] = {**plain, "hostname": "@HOST@", "ssh_host_keys": {kind: public}, "gpus": []}
    (directory / "answers.json").write_text(json.dumps(made))


@contextmanager
def running(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """The process of all stand-ins, as long as this lasts."""
    answers(directory)
    argv = [sys.executable, "-m", "benchmarks.endpoints", str(PORT), str(directory)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings({})
    ) as process:
        try:
            assert process.stdout
            if process.stdout.readline() != "ready\n":
                raise ProgramFailed("the stand-ins for hosts do not start; see above.")
            yield process
        finally:
            process.kill()


class Stage:
    """The stand-ins of a scenario. `sizes`: how many of them take part, and how many of these are dead."""

    def __init__(self, *sizes: tuple[int, int]) -> None:
        self.sizes = sizes
        self.stack = ExitStack()

    def ways(self, setting: Setting) -> Iterable[Way]:
        """Deployments with nothing to change; an earlier one writes the lock and is not measured, but for the most."""
        directory = setting.directory / "far"
        directory.mkdir(exist_ok=True)
        process = self.stack.enter_context(running(directory))
        for count, dead in self.sizes:
            far = Far(cluster_file(directory, count, dead), process)
            if count < MOST:
                setting.say(f"deploying to {count:,} stand-ins")
                far.deploy(0, LEFT_OUT)
            yield from far.ways(count, dead)

    def end(self, _: Setting) -> None:
        """End the stand-ins."""
        self.stack.close()


SOME, ALL = Stage(*((size, 0) for size in SIZES), (SIZES[-1], DEAD)), Stage((MOST, 0))
NOTE = (
    "Stand-ins for hosts: one process speaks real SSH at an address of the loopback network for each (curve25519, "
    "ed25519, aes128-ctr) and answers as the agent does, with made-up facts. Processor time is that of the deployer "
    "alone; what the stand-ins take is told apart. They answer at once, so elapsed times are those of the deployer."
)
FAR = Scenario(
    "far-hosts",
    "no-change run on 64, 512 and 2,000 stand-ins for hosts",
    SOME.ways,
    (
        *(
            Target(name_of(size), at_most=MOST_PROCESSORS if size > SIZES[0] else None, unit=PROCESSORS, hosts=size)
            for size in SIZES
        ),
        *(Target(of_stand_ins(size), unit=PROCESSORS, hosts=size) for size in SIZES),
        *(Target(name_of(size), unit=MEMORY) for size in SIZES),
        *(Target(name_of(SIZES[-1], dead), unit=SECONDS) for dead in (0, DEAD)),
    ),
    needs_hosts=False,
    warm_ups=0,
    minutes=5,
    rounds=3,
    tidy=SOME.end,
    notes=(NOTE,),
)
FAR_10000 = Scenario(
    "far-10000",
    "no-change run on 10,000 stand-ins for hosts",
    ALL.ways,
    (
        Target(name_of(MOST), at_most=MOST_PROCESSORS, unit=PROCESSORS, hosts=MOST),
        Target(of_stand_ins(MOST), unit=PROCESSORS, hosts=MOST),
        Target(name_of(MOST), at_most=MOST_MEMORY, unit=MEMORY_EACH, hosts=MOST),
        Target(name_of(MOST), unit=SECONDS),
    ),
    needs_hosts=False,
    warm_ups=0,
    minutes=1,  # one round
    rounds=3,
    tidy=ALL.end,
    notes=(NOTE,),
)
