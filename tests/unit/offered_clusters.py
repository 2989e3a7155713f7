"""Clusters whose users get a guide and a form, with nodes that are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import HostLock, Lock

CONFIGS = Path(__file__).parents[2] / "configs"
PLAIN = Hardware(CPUs=64, Boards=1, SocketsPerBoard=2, CoresPerSocket=16, ThreadsPerCore=2, RealMemory=257000)
LARGE = Hardware(CPUs=128, Boards=1, SocketsPerBoard=2, CoresPerSocket=32, ThreadsPerCore=2, RealMemory=1031000)
GPUS = tuple(Gpu(f"/dev/nvidia{number}", "a100") for number in range(4))

FORM = """\
cluster: aurora
controllers: [mn01]
login: [login01]
database: mn01
nodes:
  - hosts: cn[01-08]
  - {hosts: "gpu[01-02]", Gres: "gpu:a100:4"}
  - {hosts: "gpu[03-06]", Gres: "gpu:v100:2"}
partitions:
  - {PartitionName: batch, Nodes: "cn[01-08]", Default: YES, MaxTime: 7-00:00:00, MaxNodes: 4}
  - {PartitionName: gpu, Nodes: "gpu[01-06]", MaxTime: 2-00:00:00, QOS: gpu}
  - {PartitionName: physics, Nodes: "cn[07-08]", AllowAccounts: physics}
qos:
  - {name: gpu, MaxTRESPU: gres/gpu=6}
  - {name: urgent, MaxWall: "12:00:00"}
accounts:
  - {name: physics, QOS: "normal,urgent"}
  - {name: biology, GrpTRES: cpu=96}
users: [{name: ann, accounts: [physics]}]
modules: lmod
scratch: {size: 800G}
containers: [podman, apptainer]
packages: {all: [./apptainer_1.4.5_amd64.deb]}
"""
"""A cluster with whatever the form can ask for."""


def example(name: str) -> Cluster:
    """The cluster of `configs/example-NAME.yaml`."""
    return loading.load(CONFIGS / f"example-{name}.yaml").cluster


def form_cluster() -> Cluster:
    """The cluster of `FORM`."""
    return loading.parse(FORM, "cluster.yaml")


def known(cluster: Cluster) -> Lock:
    """A lock with the hardware of all compute nodes; hosts called `gpu…` are large and have GPUs."""
    hosts = {}
    for name in cluster.compute_nodes:
        plain = HostLock(hostname=name, hardware=PLAIN)
        hosts[name] = replace(plain, hardware=LARGE, gpus=GPUS) if name.startswith("gpu") else plain
    return Lock(hosts=hosts)
