"""Sources of pages to test with, small and large, without hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from support import host_facts

from slurmfab.cluster.facts import Account, Gpu, Hardware, HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.checks.kept import CheckRun
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Result, Verdict
from slurmfab.commands.report.section import Sources
from slurmfab.core.status.cluster_state import Status
from slurmfab.core.status.snapshot import Controller, Job, Node, Partition, Snapshot
from slurmfab.on_hosts.agent.nodes.states import state_of

MADE = datetime(2026, 11, 23, 9, 30, tzinfo=timezone.utc)
HOSTILE = "<script>document.title='stolen'</script>"
"""A reason that somebody gave a node, in the hope that a browser runs it."""

BIG = Hardware(CPUs=128, Boards=1, SocketsPerBoard=2, CoresPerSocket=32, ThreadsPerCore=2, RealMemory=515000)
SMALL = Hardware(CPUs=64, Boards=1, SocketsPerBoard=1, CoresPerSocket=32, ThreadsPerCore=2, RealMemory=257000)
GPUS = tuple(
    Gpu(f"/dev/nvidia{number}", "a100-sxm4-80gb", f"0000:{number + 16:02x}:00.0", ("0-31", "32-63")[number // 4])
    for number in range(8)
)  # fmt: skip

TITLES = {
    "reachable": ("SSH login with the pinned host key works, and gives root",),
    "daemons": ("the daemons of its roles run", "they are enabled", "they loaded the files that are there"),
    "munge": ("the munge key is the same as the controller's", "a credential of the controller is accepted"),
    "nodes": ("Slurm knows the node with its CPUs and memory", "the node is in service"),
    "jobs": ("a job runs on the node as the slurm user", "a job that takes too much memory is ended"),
    "gpus": ("a job sees its own GPU and no other",),
}


def cluster_file(gpu_nodes: int, cpu_nodes: int) -> str:
    """The text of a cluster file with two groups of nodes."""
    return (
        f"cluster: alpine\ncontrollers: [ctl1, ctl2]\nstate_directory: /shared/state\nlogin: [login]\nnodes:\n"
        f'- {{hosts: "gpu[001-{gpu_nodes:03}]", Gres: "gpu:a100:8"}}\n- {{hosts: "cn[0001-{cpu_nodes:04}]"}}\n'
        f'partitions:\n- {{PartitionName: gpu, Nodes: "gpu[001-{gpu_nodes:03}]"}}\n'
        f'- {{PartitionName: main, Nodes: "cn[0001-{cpu_nodes:04}]", Default: "YES"}}\n'
    )


def state_text(number: int) -> dict[str, str]:
    """The fields of State and Reason of one node."""
    by = {"ReasonBy": "ann", "ReasonSince": "2026-11-20T09:00:00"}
    if number % 37 == 5:
        return {
            "State": "IDLE+DRAIN",
            "Reason": f"slurmfab: fan 3 is broken {HOSTILE} (ann@desk 2026-11-20T09:00)",
            **by,
        }
    if number % 53 == 7:
        return {"State": "DOWN*", "Reason": "Not responding", "ReasonBy": "slurm", "ReasonSince": "2026-11-23T08:12:00"}
    return {"State": ("MIXED", "ALLOCATED", "IDLE", "MIXED")[number % 4]}


def node(name: str, number: int, hardware: Hardware, gpus: int, partition: str) -> Node:
    """One node as Slurm shows it."""
    state = state_of({"NodeName": name, **state_text(number)})
    busy = {"ALLOCATED": 1.0, "MIXED": 0.5}.get(next(iter(state.flags & {"ALLOCATED", "MIXED"}), ""), 0.0)
    used = gpus if busy == 1 else number % gpus if busy and gpus else 0
    return Node(
        name, state, hardware.CPUs, int(hardware.CPUs * busy), gpus, used, hardware.RealMemory,
        int(hardware.RealMemory * busy), (partition,), "24.11.5",
    )  # fmt: skip


def facts(name: str, number: int, hardware: Hardware | None, gpus: tuple[Gpu, ...]) -> HostFacts:
    """What one host tells."""
    return host_facts(
        name, hardware=hardware, gpus=gpus, architecture="amd64",
        addresses=(f"10.0.{number // 250}.{number % 250 + 1}",),
        accounts={"slurm": Account(64030, 64030, "/h", "/bin/sh"), "munge": Account(450, 450, "/h", "/bin/sh")},
        packages={"slurm-client": "24.11.5-4"}, ssh_host_keys={"ssh-ed25519": f"AAAAC3NzaC1lZDI1NTE5AAAA{number:08}"},
    )  # fmt: skip


def checks(known: Inventory, silent: str) -> CheckRun:
    """A run of checks in which some failed."""
    results = []
    for group, titles in TITLES.items():
        for title in titles:
            for host in known.cluster.hosts:
                is_node = "compute" in known.cluster.roles(host)
                if group in ("nodes", "jobs", "gpus") and not is_node:
                    continue
                one = Result(group, title.replace(" ", "_"), title, host, PASSED)
                if host == silent:
                    lost = "no SSH connection: nothing listens at port 22."
                    one = replace(one, outcome=FAILED if group == "reachable" else NOT_RUN, cause=lost)
                    one = replace(one, is_unreachable=True)
                elif "controller's" in title and host.endswith("3"):
                    repair = f"fab deploy --hosts {host}"
                    one = replace(one, outcome=FAILED, cause="changed file: its munge key differs.", repair=repair)
                results.append(one)
    return CheckRun(MADE, "ann@desk", Verdict(known.cluster.name, tuple(results), 41.5))


def sources(gpu_nodes: int = 6, cpu_nodes: int = 18) -> Sources:
    """The sources of a page about a cluster of so many nodes, of which one does not answer."""
    cluster = loading.parse(cluster_file(gpu_nodes, cpu_nodes), "alpine.yaml")
    names = cluster.hosts
    is_gpu = {name: name.startswith("gpu") for name in names}
    kinds = {name: BIG if is_gpu[name] else SMALL for name in names}
    silent = "cn0004"
    lock = Lock(slurm="24.11.5", hosts={name: HostLock(name, hardware=kinds[name]) for name in names})
    known = Inventory(cluster, lock, Path("alpine.yaml"))
    nodes = tuple(
        node(name, number, kinds[name], 8 if is_gpu[name] else 0, "gpu" if is_gpu[name] else "main")
        for number, name in enumerate(cluster.compute_nodes)
    )
    job = Job("12", "12", "ann", ("main",), "RUNNING", "", 1, 64, 0, 100, "1:00:00", "cn0001", "train")
    waiting = replace(job, id="13", number="13", state="PENDING", reason="Resources", node_list="")
    parts = (Partition("gpu", False, "UP", "7-00:00:00"), Partition("main", True, "UP", "UNLIMITED"))
    seen = Snapshot(
        (Controller("ctl1", "primary", True), Controller("ctl2", "backup", True)), nodes, parts, (job, waiting)
    )
    told = {
        name: facts(name, number, kinds[name], GPUS if is_gpu[name] else ())
        for number, name in enumerate(names)
        if name != silent
    }
    return Sources(
        known, MADE, "ann@desk", silent={silent: "no SSH connection: nothing listens at port 22."},
        status=Status("alpine", seen, {}), facts=told, checks=checks(known, silent),
    )  # fmt: skip
