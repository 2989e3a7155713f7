"""Nodes that sleep: idle ones are switched off and wake for jobs, drained ones stay on, and all goes with the key.

Lab hosts have no IPMI controllers, and their network cards wake nothing: both are stand-ins. The packets are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, eventually, succeeded
from lab_user import words_of
from power_switch import PASSWORD, PLACE, SITES, PowerSwitch, switched
from stock import Stock, in_turn

from slurmfab import lab
from slurmfab.on_hosts.programs.power.switches import PACKETS

pytestmark = pytest.mark.lab

KEY = """power:
  nodes: n[1-2]
  suspend_after: 4s
  suspend_timeout: 6s
  resume_timeout: 90s
  how: """
IPMI = '{ipmi: {address: "{node}-ipmi", user: lab, password_file: ipmi.password}}'
WAKE_ON_LAN = "{{wake_on_lan: {{mac: {}}}}}"
COMMAND = "{command: {suspend: /usr/local/sbin/site-off, resume: /usr/local/sbin/site-on}}"
STATE = "scontrol -o show node {} | grep -o 'State=[A-Z+_*~#!%]*'"
DRAIN = "scontrol update NodeName=n2 State=DRAIN Reason='loose cable'"
SUSPEND = "runuser -u slurm -- /usr/local/lib/slurmfab/suspend n2; echo $?"
STAYS = "hostname >/tmp/where; sleep 600"
"""A job that keeps its node awake until it is cancelled."""

KEPT = "/var/lib/slurm/slurmctld"
SAVE = f"systemctl stop slurmctld; cp -a {KEPT} /root/before; systemctl start slurmctld"
FORGET = f"systemctl stop slurmctld; rm -r {KEPT}; cp -a /root/before {KEPT}; systemctl start slurmctld"
RECOVERED = "journalctl -q -u slurmfab-recovery -o cat | grep -c 'n1 answers, and slurmctld'"

LEFT = (
    "grep -i suspend /etc/slurm/slurm.conf; ls -d /etc/slurmfab-power* /usr/local/lib/slurmfab/power "
    "/usr/local/lib/slurmfab/suspend /usr/local/lib/slurmfab/resume 2>/dev/null; "
    "systemctl list-unit-files --no-legend 'slurmfab-power.*'"
)
"""Prints what a deployment without the key must not leave."""


@dataclass
class Sleepers:
    """A cluster of two nodes that may sleep, of which n2 is drained, and its power switch."""

    hosts: DeployedLab
    switch: PowerSwitch
    without: str
    macs: dict[str, str]

    def write(self, how: str) -> None:
        """Write the cluster file with this way to switch nodes."""
        self.hosts.inventory_path.write_text(f"{self.without}{KEY}{how}\n")

    def state(self, node: str) -> str:
        """A node's state in Slurm."""
        return self.hosts.on("ctl", STATE.format(node), check=False)

    def until_asleep(self, node: str) -> None:
        """Wait until Slurm has powered a node down."""
        eventually(lambda: "POWERED_DOWN" in self.state(node), lambda: f"{node}: {self.state(node)}")


@pytest.fixture(scope="module", params=in_turn("power"))
def sleepers(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Sleepers]:
    """The cluster, with n1 asleep."""
    with stock.copy(request.param, nodes=2) as hosts:
        hosts.deploy()
        hosts.on("ctl", DRAIN)
        path = hosts.inventory_path
        password = path.with_name("ipmi.password")
        password.write_text(f"{PASSWORD}\n")
        password.chmod(0o600)
        text = path.read_text()
        with switched(hosts) as switch:
            found = Sleepers(hosts, switch, text, switch.listen(["n1", "n2"]))
            found.write(IPMI)
            hosts.deploy()
            found.until_asleep("n1")
            yield found


def test_an_idle_node_is_switched_off_and_a_drained_one_stays_on(sleepers: Sleepers) -> None:
    assert set(sleepers.switch.done) <= {"soft n1", "off n1"}
    assert sleepers.switch.done[0] == "soft n1"
    assert sleepers.state("n2") == "State=IDLE+DRAIN"
    assert sleepers.hosts.on("n2", "systemctl is-active slurmd") == "active"
    assert sleepers.hosts.on("ctl", "stat -c '%U %a' /etc/slurmfab-power.password") == "slurm 600"


def test_commands_name_a_sleeping_node_as_asleep(sleepers: Sleepers) -> None:
    deployed = ended(sleepers.hosts.slurmfab("deploy"), 3)
    assert "n1: asleep: it is asleep" in deployed.stderr, words_of(deployed)
    assert "unreachable" not in words_of(deployed)
    checked = ended(sleepers.hosts.slurmfab("check-cluster", "--only", "reachable,power,network"), 5)
    assert "n1 is asleep" in words_of(checked)


def test_the_program_refuses_to_switch_off_a_drained_node(sleepers: Sleepers) -> None:
    before = list(sleepers.switch.done)
    assert sleepers.hosts.on("ctl", SUSPEND) == "1"
    checked = sleepers.hosts.slurmfab("check-cluster", "--only", "power", "--hosts", "ctl")
    assert (checked.returncode, "loose cable" in words_of(checked)) == (1, True), words_of(checked)
    sleepers.hosts.on("ctl", "rm /var/lib/slurmfab/power/n2")
    assert [line for line in sleepers.switch.done if line not in before and "n2" in line] == []


def test_a_deployment_that_wakes_deploys_to_the_node_as_well(sleepers: Sleepers) -> None:
    macs = ", ".join(f"{node}: '{mac}'" for node, mac in sleepers.macs.items())
    sleepers.write(WAKE_ON_LAN.format(f"{{{macs}}}"))
    steps = sleepers.hosts.deploy("--wake")["steps"]
    assert "on n1" in sleepers.switch.done
    assert {step["host"] for step in steps if step["phase"] == "power programs"} == {"ctl", "n1", "n2"}


def test_a_job_wakes_the_node_by_magic_packets_and_runs_there(sleepers: Sleepers) -> None:
    sleepers.until_asleep("n1")
    eventually(lambda: lab.load(sleepers.hosts.lab.name).host("n1").pid is None, "n1 was not shut down by SSH")
    job = sleepers.hosts.on("ctl", AS_SLURM + f"sbatch --parsable -w n1 -o /dev/null --wrap '{STAYS}'")
    sleepers.hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING", patience=90)
    sleepers.hosts.until("n1", "cat /tmp/where", "n1")
    eventually(lambda: sleepers.switch.done.count("packet n1") == PACKETS, lambda: str(sleepers.switch.done))
    assert [line for line in sleepers.switch.done if line.endswith("n2")] == []


def test_programs_of_the_site_are_called_with_the_node(sleepers: Sleepers) -> None:
    sleepers.hosts.on("ctl", SITES)
    sleepers.write(COMMAND)
    sleepers.hosts.deploy()
    sleepers.hosts.on("ctl", "squeue -h -o %i | xargs scancel")
    sleepers.until_asleep("n1")
    assert sleepers.switch.done[-1] == "site-off n1"
    assert sleepers.hosts.on("n2", "ls /etc/sudoers.d | grep -c slurmfab", check=False) == "0"


def test_a_node_whose_waking_slurmctld_had_not_saved_is_in_service_without_a_hand(sleepers: Sleepers) -> None:
    hosts = sleepers.hosts
    eventually(lambda: lab.load(hosts.lab.name).host("n1").pid is None, "n1 was not switched off")
    job = hosts.on("ctl", AS_SLURM + f"sbatch --parsable -w n1 -o /dev/null --wrap '{STAYS}'")
    hosts.until("ctl", f"cat {PLACE}/n1", "on", patience=90)
    hosts.on("ctl", SAVE)
    hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING", patience=90)
    hosts.on("ctl", FORGET)
    assert "POWERING_UP" in sleepers.state("n1")
    in_service = "State=MIXED", "State=ALLOCATED", "State=IDLE"
    eventually(lambda: sleepers.state("n1") in in_service, lambda: sleepers.state("n1"), 60)
    assert hosts.on("ctl", RECOVERED) == "1"
    # Slurm has the job wait again where it had not saved either that it had started it.
    assert hosts.on("ctl", f"squeue -h -j {job} -o %T") in ("PENDING", "CONFIGURING", "RUNNING")
    hosts.on("ctl", f"scancel {job}")
    sleepers.until_asleep("n1")


def test_without_the_key_sleeping_nodes_are_woken_and_nothing_is_left(sleepers: Sleepers) -> None:
    sleepers.hosts.inventory_path.write_text(sleepers.without)
    sleepers.hosts.deploy()
    assert sleepers.switch.done[-1] == "site-on n1"
    assert sleepers.state("n1") == "State=IDLE"
    assert sleepers.hosts.on("ctl", LEFT, check=False) == ""
    sleepers.hosts.on("ctl", "scontrol update NodeName=n2 State=RESUME")
    assert sleepers.hosts.on("ctl", AS_SLURM + "srun -N2 hostname | sort").split() == ["n1", "n2"]
    succeeded(sleepers.hosts.slurmfab("check-cluster"))
