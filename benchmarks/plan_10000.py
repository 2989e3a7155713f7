"""How long a plan over ten thousand hosts takes, and how much memory: everything that `fab plan --save` does but SSH.

    .venv/bin/python benchmarks/plan_10000.py
    .venv/bin/python benchmarks/plan_10000.py --nodes 1000 --json out.json

The hosts are made up: a cluster that was deployed, whose cluster file then gained a partition and a few settings, so
that every host lacks the same lines of slurm.conf; one node in a hundred was edited by hand, and one in a thousand has
lost half of its memory. Prints a processor's seconds for each step, and the peak of memory of the whole process.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from slurmfab.base.json_output import as_json
from slurmfab.cli.tasks.command import load_quickly
from slurmfab.cluster.facts import Account, Cgroup, Gpu, Hardware, HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.engine import changed_since, drift, saved_plan
from slurmfab.core.engine.plan_text import plan_text
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Report, Step, outcome_from
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.saved_plan import Files
from slurmfab.core.impact.forecast import Forecast, labelled
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan import Plan, make_plan
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.differences import difference, digests
from slurmfab.on_hosts.agent.core.resource import OK, WOULD_CHANGE, Change, Outcome, as_request
from slurmfab.on_hosts.agent.kinds import build

BEFORE = """\
cluster: huge
addresses: {{mn01: 10.200.0.1, "cn[00001-{last}]": "{addresses}"}}
controllers: [mn01]
nodes:
  - hosts: cn[00001-{half}]
    Weight: 10
  - hosts: cn[{next}-{last}]
    Weight: 20
partitions:
  - {{PartitionName: main, Nodes: ALL, Default: YES}}
"""
AFTER = """\
  - {{PartitionName: long, Nodes: "cn[00001-{half}]", MaxTime: 14-00:00:00}}
slurm_conf: {{SlurmdTimeout: 600, KillWait: 60}}
"""
"""What the cluster file gained."""

NODE = Hardware(CPUs=128, Boards=1, SocketsPerBoard=2, CoresPerSocket=32, ThreadsPerCore=2, RealMemory=515000)
GPUS = tuple(Gpu(f"/dev/nvidia{number}", "a100") for number in range(4))
IDS = {0: "root", 450: "munge", 1000: "admin", 64030: "slurm"}
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAI"
EDITED, BROKEN = 100, 1000
"""One node in so many was edited by hand; one in so many has lost memory."""

DIGEST_KEY = "0123456789abcdef"
Result = TypeVar("Result")


@dataclass
class Measured:
    """Seconds of one processor by step, as they are measured; what else the machine does is not in them."""

    seconds: dict[str, float] = field(default_factory=dict)

    def step(self, name: str, work: Callable[[], Result]) -> Result:
        """Do a step and note how long it took."""
        begun = time.process_time()
        done = work()
        self.seconds[name] = round(time.process_time() - begun, 3)
        return done


def text_of(nodes: int, *, after: bool) -> str:
    """The cluster file before or after somebody edited it."""
    last, addresses = f"{nodes:05}", ",".join(f"10.{100 + block}.[0-249].[1-4]" for block in range(-(-nodes // 1000)))
    half, following = f"{nodes // 2:05}", f"{nodes // 2 + 1:05}"
    names = {"last": last, "half": half, "next": following, "addresses": addresses}
    return (BEFORE + (AFTER if after else "")).format(**names)


def facts_of(cluster: Cluster, slurm_conf: str) -> dict[str, HostFacts]:
    """What every host says of itself; each has strings of its own, as when they come over the network."""
    return {
        host: HostFacts(
            name=host,
            hostname=host,
            os_id="debian",
            codename="trixie",
            accounts={
                "slurm": Account(64030, 64030, "/var/lib/slurm/home", "/bin/bash"),
                "munge": Account(450, 450, "/nonexistent", "/usr/sbin/nologin"),
            },
            groups={"slurm": 64030, "munge": 450},
            uids=dict(IDS),
            gids=dict(IDS),
            packages={"slurm-client": "24.11.5-1", "munge": "0.5.16-1"},
            hardware=replace(NODE),
            gpus=GPUS if "compute" in cluster.roles(host) else (),
            cgroup=Cgroup("v2", ("cpuset", "devices", "memory"), swap=True),
            ssh_host_keys={kind: f"{KEY}{kind}{host}" for kind in ("ssh-ed25519", "ssh-rsa")},
            public_key=f"ssh-ed25519 {KEY}{host} slurm@{host}",
            munge_key="bXVuZ2U=" if host == cluster.controller else "",
            slurm_conf=slurm_conf if host == cluster.controller else "",
            services={"slurmctld": "active"} if host == cluster.controller else {},
        )
        for host in cluster.hosts
    }


def with_less_memory(facts: dict[str, HostFacts]) -> dict[str, HostFacts]:
    """The facts as they are today: some nodes have lost half of their memory."""
    broken = replace(NODE, RealMemory=NODE.RealMemory // 2)
    return {
        host: replace(fact, hardware=broken) if number % BROKEN == BROKEN - 1 else fact
        for number, (host, fact) in enumerate(facts.items())
    }


def answers(plan: Plan, before: dict[str, str], after: dict[str, str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What the agents of all hosts would answer, as parsed JSON: slurm.conf differs, and so daemons would restart."""
    texts = {False: before["slurm.conf"], True: before["slurm.conf"] + "# by hand\n"}
    diffs = {edited: difference(text, after["slurm.conf"]) for edited, text in texts.items()}
    prints = {edited: digests(text, after["slurm.conf"], DIGEST_KEY) for edited, text in texts.items()}
    stale = Change("loaded", "slurm.conf before its change", "as on disk")
    said: dict[tuple[bool, tuple[str, ...]], str] = {}
    for number, host in enumerate(plan.hosts):
        edited = number % EDITED == EDITED - 1
        names = tuple(wanted.id for _, wanted in plan.of_host(host))
        if (edited, names) not in said:
            conf = Change("slurm.conf", diff=diffs[edited], digest=prints[edited])
            changes = {"slurm-files:/etc/slurm": (conf,), "service:slurmd": (stale,), "service:slurmctld": (stale,)}
            lines = [Outcome(name, WOULD_CHANGE if name in changes else OK, changes.get(name, ())) for name in names]
            said[edited, names] = json.dumps([asdict(line) for line in lines])
        # Out of JSON each time, so that no two hosts share a string, as when it comes over the network.
        yield host, [{**line, "seconds": number / 1e6} for line in json.loads(said[edited, names])]


def surveyed(plan: Plan, before: dict[str, str], after: dict[str, str]) -> list[Step]:
    """The steps that a comparison of all hosts makes of their answers."""
    steps = []
    for host, lines in answers(plan, before, after):
        by_phase: dict[str, list[Outcome]] = {}
        for (phase, _), line in zip(plan.of_host(host), lines, strict=True):
            by_phase.setdefault(phase.name, []).append(outcome_from(line))
        steps += [Step(name, host, tuple(outcomes)) for name, outcomes in by_phase.items()]
    return steps


def requested(plan: Plan) -> int:
    """How many resources all requests name, each made and dropped again as in a run; and built as on the hosts."""
    count = 0
    for number, host in enumerate(plan.hosts):
        requests = [as_request(wanted) for _, wanted in plan.of_host(host)]
        count += len(requests)
        if number % EDITED == 0:
            assert all(build(json.loads(json.dumps(one))).id for one in requests)
    return count


class Nobody:
    """A transport that is never asked."""

    def call(self, *_: Any) -> tuple[Any, ...]:
        """Nothing."""
        return ()

    def install_python(self, host: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def measure(nodes: int, directory: Path) -> dict[str, Any]:
    """Go through all steps once.

    Args:
        nodes: how many compute nodes.
        directory: where files are written.

    Returns:
        Seconds by step, peak memory in MiB, sizes.
    """
    clock = Measured()
    old = loading.parse(text_of(nodes, after=False), "before")
    known = facts_of(old, "")
    path = directory / "huge.yaml"
    path.write_text(text_of(nodes, after=True))
    before = dict(PlanInput(old, pin(old, Lock(), known), known).files)
    cluster = clock.step("cluster file", lambda: loading.parse(path.read_text(), "huge.yaml"))
    facts = clock.step("facts", lambda: with_less_memory(facts_of(cluster, before["slurm.conf"])))
    lock = pin(old, Lock(), known)
    pinned = clock.step("lock", lambda: pin(cluster, lock, facts))
    plan_input = PlanInput(cluster, pinned, facts, stamp="ann@laptop 2026-11-21T09:00")
    after = clock.step("render", lambda: dict(plan_input.files))
    labels = clock.step("labels", lambda: labelled(plan_input.differences, plan_input.slurm_version))
    plan = clock.step("plan", lambda: make_plan(plan_input, cluster.hosts))
    resources = clock.step("requests", lambda: requested(plan))
    steps = clock.step("answers", lambda: surveyed(plan, before, after))
    told = clock.step("drift", lambda: drift.with_drift(plan_input, steps))
    report = Report("plan", cluster.name, cluster.hosts, tuple(told), {}, 1.0, forecast=Forecast(labels))
    text = clock.step("plan text", lambda: plan_text(report, report.steps))
    clock.step("report as JSON", lambda: json.dumps(as_json(report)))
    options = RunOptions("plan", digest_key=DIGEST_KEY)
    run = Run(options, Inventory(cluster, pinned, path), cluster.hosts, Nobody(), Progress(quiet=True))
    run.record_steps(*told)
    target = directory / "plan.json"
    clock.step("saved plan", lambda: saved_plan.save(saved_plan.from_run(run, Files.of(path)), target))
    loaded = clock.step("loaded plan", lambda: saved_plan.load(target))
    reasons = clock.step("compared plan", lambda: changed_since.reasons_on_hosts(loaded, steps, {}))
    assert reasons == [], reasons
    return {
        "nodes": nodes,
        "python": platform.python_version(),
        "seconds": clock.seconds,
        "total_seconds": round(sum(clock.seconds.values()), 3),
        "cpu_seconds": round(time.process_time(), 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "resources": resources,
        "plan_lines": len(text.splitlines()),
        "saved_kib": round(target.stat().st_size / 1024),
    }


def main() -> None:
    """Measure, print, and write the JSON that was asked for."""
    load_quickly()  # as the program itself: otherwise Python looks for garbage a thousand times
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=10000, help="compute nodes, a multiple of 1000 (default: 10000)")
    parser.add_argument("--json", default="", help="file for the result as JSON, - for standard output")
    options = parser.parse_args()
    if options.nodes < 1000 or options.nodes % 1000:  # noqa: PLR2004 - addresses are made up by the thousand
        parser.error("--nodes: a multiple of 1000.")
    with tempfile.TemporaryDirectory() as directory:
        found = measure(options.nodes, Path(directory))
    if options.json == "-":
        json.dump(found, sys.stdout, indent=2)
        return
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=2) + "\n")
    lines = [f"{name:<16} {seconds:8.3f} s" for name, seconds in found["seconds"].items()]
    lines.append(f"{'all':<16} {found['total_seconds']:8.3f} s, at most {found['peak_mib']} MiB")
    lines.append(f"{found['resources']} resources; {found['plan_lines']} lines of text, {found['saved_kib']} KiB saved")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
