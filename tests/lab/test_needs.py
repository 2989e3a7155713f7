"""What changes of slurm.conf need and whom they hurt, on real Slurm of each suite: the tables of slurmfab.core.impact.

One job runs through all of it, and has to be there at the end, under the daemons' control. The changes add up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, report
from stock import Stock, in_turn

from slurmfab.cluster.slurm.versions import distribution_version, reconfigure_renews_daemons

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
SHOWN = "scontrol show config | awk '$1 == \"{}\" {{print $3}}'"
PROCESSES = "pgrep -fxc 'sleep 3600'"
ENDS = "scontrol -o show job {} | grep -o 'JobState=[A-Z]*'"
FILES = "sha256sum /etc/slurm/*.conf; systemctl show -p MainPID slurmctld slurmd"


@dataclass
class Changing:
    """A cluster with a job on n2, whose file gains one change after the other.

    Args:
        lab: the lab.
        suite: of Debian.
        text: its cluster file as it was before.
        job: the job's number.
        begun: when the job began, in Slurm's words.
        cluster: its name now.
        settings: of slurm.conf so far.
        more: further lines of the cluster file so far.
        nodes: lines of the `nodes` section.
        partitions: lines of the `partitions` section.
    """

    lab: DeployedLab
    suite: str
    text: str
    job: str = ""
    begun: str = ""
    cluster: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    more: str = ""
    nodes: str = "  - hosts: n[1-2]\n"
    partitions: str = "  - {PartitionName: main, Nodes: ALL, Default: YES, MaxTime: 1-00:00:00}\n"

    def on(self, host: str, script: str) -> str:
        return self.lab.on(host, script)

    def submit(self, options: str, script: str) -> str:
        """A job on n2 that has begun; its number."""
        submit = AS_SLURM + f"sbatch --parsable -w n2 --mem=50 {options} -o /dev/null --wrap '{script}'"
        number = self.on("ctl", submit)
        self.lab.until("ctl", f"squeue -h -j {number} -o %T", "RUNNING")
        return number

    def seen(self, number: str) -> str:
        """A job's state, start and number of new beginnings."""
        shown = f"scontrol -o show job {number} | grep -oE ' (JobState|StartTime|Restarts)=[^ ]+' | paste -sd ''"
        return self.on("ctl", shown)

    def write(self) -> None:
        """Write the cluster file as it is by now."""
        head = self.text.partition("nodes:")[0].replace("cluster: ", f"cluster: {self.cluster} # ", 1)
        settings = ", ".join(f"{key}: {value}" for key, value in self.settings.items())
        self.lab.inventory_path.write_text(
            f"{head}nodes:\n{self.nodes}partitions:\n{self.partitions}slurm_conf: {{{settings}}}\n{self.more}"
        )

    def deploy(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.write()
        return self.lab.slurmfab("deploy", *words)

    def change(self, *words: str) -> None:
        """Deploy, and see that all daemons have the new files, nothing is left to do, and the job is there."""
        done = self.deploy(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        for host in HOSTS:
            assert "Match" in self.on(host, "scontrol show config | grep HASH_VAL")
        assert self.lab.deploy(*words)["steps"] == []
        assert self.seen(self.job) == self.begun
        assert self.on("n2", PROCESSES) == "1"

    def plan(self) -> dict[str, Any]:
        self.write()
        done = ended(self.lab.slurmfab("plan", "--json", "-"), 4)
        return report(subprocess.CompletedProcess([], 0, done.stdout, done.stderr))

    def shown(self, key: str) -> str:
        """A value that slurmctld works with."""
        return self.on("ctl", SHOWN.format(key))


@pytest.fixture(scope="module", params=in_turn("needs"))
def changing(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Changing]:
    suite = request.param
    with stock.copy(suite, nodes=2, gpus=("n2:2",)) as lab:
        lab.deploy()
        running = Changing(lab, suite, lab.inventory_path.read_text(), cluster=lab.lab.name)
        running.job = running.submit("-n1", "sleep 3600")
        lab.until("n2", PROCESSES, "1")
        running.begun = running.seen(running.job)
        yield running


def is_old(suite: str) -> bool:
    """Whether the Slurm of a suite is older than 23.11."""
    return not reconfigure_renews_daemons(distribution_version(suite))


def test_a_plan_labels_each_change_with_what_it_needs_on_this_version(changing: Changing) -> None:
    changing.settings = {"SlurmdTimeout": "400", "MaxJobCount": "5000", "SelectTypeParameters": "CR_CPU_Memory"}
    changing.nodes = "  - {hosts: 'n[1-2]', RealMemory: 4000, Feature: big}\n"
    changing.partitions += "  - {PartitionName: more, Nodes: n1}\n"
    changing.more = "cgroup_conf: {ConstrainRAMSpace: no}\n"
    told = changing.plan()
    old = is_old(changing.suite)
    restart, slurmctld = ("restart of slurmctld and slurmd", "restart of slurmctld") if old else ("reconfigure",) * 2
    labels = {one["name"]: one["needs"] for one in told["slurm_conf"]}
    assert labels.pop("DefMemPerCPU") == "reconfigure"
    assert labels == {
        "SlurmdTimeout": "reconfigure",
        "MaxJobCount": slurmctld,
        "SelectTypeParameters": slurmctld,
        "nodes n[1-2]: RealMemory": restart,
        "nodes n[1-2]: Feature": restart,
        "partition more": "reconfigure",
        "ConstrainRAMSpace": "reconfigure",
    }
    assert told["dangers"] == []
    how = "slurmctld on ctl and slurmd on n[1-2]"
    assert told["daemons"] == (f"{how} restart." if old else f"scontrol reconfigure renews {how}.")


def test_what_needs_a_reconfigure_or_a_restart_is_in_force_everywhere_afterwards(changing: Changing) -> None:
    changing.settings |= {"TaskPlugin": "task/affinity", "JobAcctGatherFrequency": "task=60", "KillWait": "20"}
    changing.change()
    values = {key: changing.shown(key) for key in ("SlurmdTimeout", "MaxJobCount", "TaskPlugin", "KillWait")}
    assert values == {"SlurmdTimeout": "400", "MaxJobCount": "5000", "TaskPlugin": "task/affinity", "KillWait": "20"}
    assert changing.on("ctl", "sinfo -h -p main -o '%m %f' | sort -u") == "4000 big"
    assert changing.on("ctl", "sinfo -h -p more -o %N") == "n1"


def test_another_port_of_slurmctld_is_refused_while_jobs_run(changing: Changing) -> None:
    changing.settings["SlurmctldPort"] = "6827"
    before = {host: changing.on(host, FILES) for host in HOSTS}
    refused = changing.deploy()
    assert refused.returncode == 1
    assert "SlurmctldPort: 6817 -> 6827: Running srun and salloc" in refused.stderr
    assert f"job {changing.job} of slurm, on n2" in refused.stderr
    assert "--drain-first or --allow SlurmctldPort" in refused.stderr
    assert {host: changing.on(host, FILES) for host in HOSTS} == before
    del changing.settings["SlurmctldPort"]


def test_other_ports_and_another_state_directory_are_in_force_and_no_job_is_lost(changing: Changing) -> None:
    ending = changing.submit("-n1", "until [ -e /tmp/end ]; do sleep 0.1; done")
    # From 23.11 on steps learn of slurmctld's other port; what does not, srun and salloc, does not run here.
    ports = {"SlurmdPort": "6828"} | ({"SlurmctldPort": "6827"} if not is_old(changing.suite) else {})
    changing.settings |= ports
    changing.more += "state_directory: /var/lib/slurm/elsewhere\n"
    told = changing.plan()
    labels = {label["name"]: label["needs"] for label in told["slurm_conf"]}
    both = "restart of slurmctld and slurmd"
    assert labels == {"StateSaveLocation": "restart of slurmctld"} | dict.fromkeys(ports, both)
    assert [danger["name"] for danger in told["dangers"]] == [name for name in ports if name == "SlurmctldPort"]
    changing.change("--allow", "SlurmctldPort")
    assert changing.shown("StateSaveLocation") == "/var/lib/slurm/elsewhere"
    listening = "ss -Hltn 'sport = {}' | wc -l"
    assert [changing.on(node, listening.format(port)) for node in ("n1", "n2") for port in (6818, 6828)] == list("0101")
    assert changing.on("ctl", listening.format(ports.get("SlurmctldPort", 6817))) == "1"
    assert changing.on("ctl", "sinfo -h -N -p main -o %t | sort | paste -sd ' '") == "alloc idle"
    changing.on("n2", "touch /tmp/end")
    changing.lab.until("ctl", ENDS.format(ending), "JobState=COMPLETED")


def test_another_name_of_the_cluster_is_refused_until_it_is_allowed_and_then_no_job_is_lost(changing: Changing) -> None:
    mark = "cut -d '|' -f 1 /var/lib/slurm/elsewhere/clustername"
    before, name = {host: changing.on(host, FILES) for host in HOSTS}, changing.cluster
    changing.cluster = "other"
    refused = changing.deploy()
    assert (refused.returncode, "--allow ClusterName" in refused.stderr) == (2, True)
    assert {host: changing.on(host, FILES) for host in HOSTS} == before
    assert changing.on("ctl", mark) == name
    changing.change("--allow", "ClusterName")
    assert (changing.shown("ClusterName"), changing.on("ctl", mark)) == ("other", "other")
    new = changing.submit("-n1", "true; sleep 0.5")
    changing.lab.until("ctl", ENDS.format(new), "JobState=COMPLETED")


def test_fewer_gpus_of_a_node_end_the_job_that_has_them_and_no_other(changing: Changing) -> None:
    having = changing.submit("-n1 --gres=gpu:1", "sleep 3500")
    one = changing.nodes.replace("'n[1-2]'", "{}")
    changing.nodes = one.replace("{}", "n1") + one.replace("{}", "n2, Gres: 'gpu:1'")
    refused = changing.deploy()
    assert (refused.returncode, "--drain-first or --allow node-gres" in refused.stderr) == (1, True)
    assert f"job {having} of slurm, on n2" in refused.stderr
    assert f"job {changing.job} of" not in refused.stderr
    allowed = changing.deploy("--allow", "node-gres")
    assert f"{having} (slurm) on n2" in allowed.stdout + allowed.stderr
    assert changing.seen(having) != changing.begun.replace(changing.job, having)
    assert changing.on("ctl", f"squeue -h -t R -j {having} -o %i | wc -l") == "0"
    assert changing.seen(changing.job) == changing.begun


def test_after_all_this_the_daemons_still_have_the_job_in_hand(changing: Changing) -> None:
    changing.on("ctl", f"scancel {changing.job}")
    changing.lab.until("ctl", ENDS.format(changing.job), "JobState=CANCELLED")
    changing.lab.until("n2", f"{PROCESSES} || true", "0")
