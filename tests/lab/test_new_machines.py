"""New machines of other kinds than before: several at once, at another address, with other hardware; jobs run on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import Person, words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

CLUSTER_FILE = """\
cluster: {cluster}
ssh: {{user: root, key: {key}}}
addresses: {{ctl: {ctl}, n1: {n1}, n2: {n2}}}
controllers: [ctl]
nodes:
  - hosts: n[1-2]
"""


@dataclass(frozen=True)
class Rack:
    """A cluster of two nodes, with a job on the first, beside hosts that could join."""

    hosts: DeployedLab
    person: Person
    job: str

    def address(self, name: str) -> str:
        return self.hosts.lab.host(name).address

    def done(self, *words: str) -> str:
        """What slurmfab says of something that succeeds."""
        done = succeeded(self.person.slurmfab(*words))
        return words_of(done)

    @property
    def lock(self) -> Path:
        return self.person.cluster_file.parent / "cluster.lock.json"

    def pins(self, *names: str, **hardware: int) -> None:
        """Write these numbers into the lock, as if the machines had others now."""
        lock = json.loads(self.lock.read_text())
        for name in names:
            lock["hosts"][name]["hardware"].update(hardware)
        self.lock.write_text(json.dumps(lock))

    def on_ctl(self, script: str) -> str:
        return self.hosts.on("ctl", script)


@pytest.fixture(scope="module", params=in_turn("new_machines"))
def rack(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    person = Person.at(tmp_path_factory.mktemp("rack"))
    with stock.copy(request.param, nodes=5, bare=("n3",)) as hosts:
        addresses = {name: hosts.lab.host(name).address for name in ("ctl", "n1", "n2")}
        person.writes(CLUSTER_FILE.format(cluster=hosts.lab.name, key=hosts.lab.ssh_key, **addresses))
        person.has_seen(hosts.lab, "ctl", "n1", "n2")
        succeeded(person.slurmfab("deploy"))
        job = hosts.on("ctl", AS_SLURM + "sbatch --parsable -w n1 -o /dev/null --wrap 'sleep 900'")
        hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
        yield Rack(hosts, person, job)


def test_machines_that_are_new_when_they_come_then_each_runs_jobs_and_the_running_one_goes_on(rack: Rack) -> None:
    """One story in four parts, since each needs the cluster that the one before left."""
    rack.done("add-node", f"{rack.address('n3')},{rack.address('n4')}", "--accept-new-host-keys")
    assert sorted(rack.hosts.on("ctl", AS_SLURM + "srun -w n[3-4] -N2 hostname").split()) == [
        "n3",
        "n4",
    ]

    lock = json.loads(rack.lock.read_text())
    lock["hosts"]["n2"]["hardware"]["RealMemory"] += 4096
    rack.lock.write_text(json.dumps(lock))
    refused = ended(rack.person.slurmfab("replace-node", "n2"), 2)
    assert "--accept-hardware" in words_of(refused)
    rack.done("replace-node", "n2", "--accept-hardware")
    assert rack.hosts.on("ctl", AS_SLURM + "srun -w n2 hostname") == "n2"

    rack.hosts.on("n5", "hostnamectl set-hostname n4 2>/dev/null || { echo n4 >/etc/hostname; hostname n4; }")
    rack.hosts.on("n4", "systemctl stop slurmd")
    rack.done("replace-node", "n4", "--address", rack.address("n5"), "--accept-new-host-keys")
    address = rack.hosts.on("ctl", "scontrol show node n4 | grep -o 'NodeAddr=[0-9.]*'")
    assert address == f"NodeAddr={rack.address('n5')}"
    assert rack.hosts.on("ctl", AS_SLURM + "srun -w n4 hostname") == "n4"

    assert rack.hosts.on("ctl", f"squeue -h -j {rack.job} -o %T") == "RUNNING"
    assert "nothing changed" in rack.done("deploy")


DRAINED = "sinfo -h -N -t drain -o %N | sort -u | xargs"
CPUS = "scontrol -o show node {} | grep -o 'CPUTot=[0-9]*'"


def test_nodes_with_other_hardware_when_accepted_at_once_then_have_it_but_for_those_whose_jobs_would_not_survive(
    rack: Rack,
) -> None:
    """What is asked for in the file is in force for all nodes at once; later, one of two has a job on its cores."""
    rack.done("deploy")
    memory = json.loads(rack.lock.read_text())["hosts"]["n1"]["hardware"]["RealMemory"]
    text = rack.person.cluster_file.read_text()
    rack.pins("n1", "n2", RealMemory=memory - 4096)
    asking = re.sub(r"- hosts: (\S+)", rf'- {{hosts: "\1", RealMemory: {memory - 3000}}}', text, count=1)
    rack.person.cluster_file.write_text(asking)
    named = re.search(
        r"accept that: slurmfab (accept-hardware [^.]*)\.", words_of(ended(rack.person.slurmfab("plan"), 2))
    )
    assert named
    for words in (("accept-hardware", "n2"), ("accept-hardware", "ctl"), ("accept-hardware", "n9")):
        ended(rack.person.slurmfab(*words, "--yes"), 2)
        assert rack.on_ctl(DRAINED) == ""
    rack.done(*shlex.split(named[1]), "--yes")
    shown = rack.on_ctl("scontrol -o show node n1,n2 | grep -o RealMemory=[0-9]* | sort -u")
    assert shown == f"RealMemory={memory - 3000}"
    assert rack.on_ctl(f"squeue -h -j {rack.job} -o %T") == "RUNNING"
    assert rack.on_ctl(DRAINED) == ""

    cores = json.loads(rack.lock.read_text())["hosts"]["n2"]["hardware"]
    one = {"CPUs": 1, "SocketsPerBoard": 1, "CoresPerSocket": 1, "ThreadsPerCore": 1}
    rack.pins("n2", "n3", **one)
    rack.person.slurmfab("deploy")
    assert rack.on_ctl(CPUS.format("n3")) == "CPUTot=1"
    job = rack.on_ctl(AS_SLURM + "sbatch --parsable -w n3 --mem=50 -o /dev/null --wrap 'sleep 900'")
    rack.hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    told = words_of(ended(rack.person.slurmfab("accept-hardware", "n[1-3]", "--yes"), 3))
    assert "n3: its jobs do not survive this, so its hardware is left as it is" in told
    assert "n1: the hardware is as in the lock" in told
    assert rack.on_ctl(f"squeue -h -j {job} -o %T") == "RUNNING"
    assert [rack.on_ctl(CPUS.format(name)) for name in ("n2", "n3")] == [f"CPUTot={cores['CPUs']}", "CPUTot=1"]
    rack.on_ctl(f"scancel {job}")
    rack.hosts.until("ctl", f"squeue -h -j {job}", "")
    rack.done("accept-hardware", "n3", "--yes")
    assert rack.on_ctl(AS_SLURM + "srun -w n[2-3] -N2 hostname | sort").split() == ["n2", "n3"]
    assert "nothing changed" in rack.done("deploy")
