"""Relays: nodes that only other hosts of the cluster reach, relays that die or forward nothing, and wrong keys."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import own_tasks
import pytest
from lab_cluster import AS_SLURM, DeployedLab, eventually, succeeded
from lab_user import words_of
from stock import Stock
from suites import SUITES

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory import loading
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.hosts.fan_out import on_each
from slurmfab.lab.layout import LabLayout

pytestmark = pytest.mark.lab

NODES = ("n1", "n2", "n3")
LOGINS_AGAIN = 30  # so often, sshd ended the connection several times for data of a channel that was closed before
LEFT_OUT = 3
HOLD = "touch /run/asked; until [ -e /run/go ]; do sleep 0.1; done"
"""What a start file of the login shell does before the agent of a host may start."""

FILTER = "table inet far {{\nchain in {{\ntype filter hook input priority 0\n{rule}\n}}\n}}\n"

IDLE_SECONDS = 8  # after this time a relay closes a channel on which nothing travels
ANSWERED_LATE = f"test $(($(date +%s) - $(stat -c %Y /run/asked))) -gt {IDLE_SECONDS + 4} && echo late"

ONE_LIMIT = 25.0
"""Seconds in which a run ends that waits once for a connection (10 s), on a machine with much else to do."""

LOGINS = "journalctl --sync; journalctl -o cat | grep 'Accepted publickey for root from' || true"


@dataclass(frozen=True)
class Far:
    """A lab whose nodes the machine that deploys does not reach, but ctl does.

    Args:
        hosts: the lab.
    """

    hosts: DeployedLab

    @property
    def deployer(self) -> str:
        """The address of the machine that deploys, as hosts see it."""
        return self.hosts.on("ctl", "ip route | awk '/^default/ {print $3}'")

    def nft(self, host: str, rules: str) -> None:
        """Set rules of the firewall of a host, from outside."""
        namespace = LabLayout(self.hosts.lab.name).host(host).namespace
        subprocess.run(["ip", "netns", "exec", namespace, "nft", "-f", "-"], input=rules, text=True, check=True)

    def block(self, host: str, verdict: str = "drop") -> None:
        """Let the machine that deploys reach this host's sshd no more."""
        self.nft(host, FILTER.format(rule=f"ip saddr {self.deployer} tcp dport 22 {verdict}"))

    def cut_off(self, host: str) -> None:
        """Let nobody reach this host's sshd any more; `open` ends that."""
        self.open(host)
        self.nft(host, FILTER.format(rule="tcp dport 22 drop"))

    def open(self, host: str) -> None:
        """Take the rules of `block` away."""
        self.nft(host, "table inet far; delete table inet far")

    def relays(self, relays: str) -> None:
        """Write these relays into the cluster file."""
        file = self.hosts.inventory_path
        lines = [line for line in file.read_text().splitlines() if not line.startswith("ssh: ")]
        ssh = f"ssh: {{user: root, key: {self.hosts.lab.ssh_key}, relays: {relays}}}"
        file.write_text("\n".join([*lines, ssh]) + "\n")

    def logins(self, host: str, origin: str) -> int:
        """How often root has logged in on a host from an address."""
        return self.hosts.on(host, LOGINS).count(f" from {origin} ")


@pytest.fixture(scope="module", params=SUITES)
def far(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Far]:
    with stock.copy(request.param) as hosts:
        made = Far(hosts)
        hosts.deploy()
        for node in NODES:
            made.block(node)
        yield made


@contextmanager
def held(far: Far, host: str) -> Iterator[None]:
    """Let no agent start on a host until the context ends."""
    far.hosts.on(host, f"rm -f /run/asked /run/go; cp /root/.bashrc /root/.bashrc.before; echo '{HOLD}' >/root/.bashrc")
    try:
        yield
    finally:
        far.hosts.on(host, "touch /run/go; mv /root/.bashrc.before /root/.bashrc")


def test_nodes_that_only_the_controller_reaches_when_it_is_the_relay_then_are_deployed_to_over_one_connection(
    far: Far,
) -> None:
    far.relays("ctl")
    far.hosts.on("n2", "systemctl stop slurmd; rm /etc/slurm/slurm.conf")
    before = far.hosts.on("ctl", "ls -A /root/.ssh /tmp")
    logins = far.logins("ctl", far.deployer)
    direct = [far.logins(node, far.deployer) for node in NODES]
    far.hosts.deploy()
    assert far.hosts.on("n2", "systemctl is-active slurmd && ls /etc/slurm/slurm.conf").startswith("active")
    assert far.logins("ctl", far.deployer) == logins + 1
    assert [far.logins(node, far.deployer) for node in NODES] == direct
    assert all(far.logins(node, far.hosts.lab.host("ctl").address) for node in NODES)
    assert far.hosts.on("ctl", "ls -A /root/.ssh /tmp") == before, "no key, and no socket of an agent"
    assert far.hosts.on("ctl", f"{AS_SLURM} srun -N3 hostname | sort | xargs") == "n1 n2 n3"
    assert far.hosts.slurmfab("plan").returncode == 0, "nothing is left to change"


def test_checks_and_ssh_when_nodes_are_behind_a_relay_then_reach_them(far: Far) -> None:
    far.relays("ctl")
    succeeded(far.hosts.slurmfab("check-cluster", "--only", "reachable,munge"))
    assert far.hosts.slurmfab("ssh", "n3", "--", "hostname").stdout.strip() == "n3"


def test_a_command_and_tasks_of_the_site_when_nodes_are_behind_a_relay_then_reach_them(
    far: Far, tmp_path: Path
) -> None:
    far.relays("ctl")
    names = sorted(NODES)
    done = succeeded(far.hosts.slurmfab("run", "uname -n", "--on", "compute"))
    assert done.stdout.splitlines() == [f"{node}: {node}" for node in names]
    environment = {**os.environ, "SLURMFAB_CLUSTER": str(far.hosts.inventory_path)}
    own_tasks.typed(tmp_path)
    for program in own_tasks.PROGRAMS:
        room = succeeded(own_tasks.call(program, tmp_path, environment, "scratch"))
        assert room.stdout.count("Filesystem") == len(NODES)
        each = succeeded(own_tasks.call(program, tmp_path, environment, "-H", fold(NODES), "driver"))
        assert each.stdout == "".join(f"{node} {node}\n" for node in names)


def test_a_relay_when_hosts_behind_it_are_logged_in_to_again_and_again_then_keeps_its_connection(far: Far) -> None:
    far.relays("ctl")
    known = loading.load(far.hosts.inventory_path)
    run = session.start(known, "", Output(), RunOptions("status"))
    logins = far.logins("ctl", far.deployer)
    with session.ending(run, tells=False):
        for _ in range(LOGINS_AGAIN):
            answers = dict(on_each(NODES, run.transport.log_in_again))
            assert not any(isinstance(answer, Exception) for answer in answers.values()), answers
    assert far.logins("ctl", far.deployer) == logins + 1


def test_a_relay_that_dies_while_hosts_are_asked_then_another_takes_its_place(far: Far) -> None:
    far.relays('{n1: "n[2-3]", ctl: ALL}')
    far.open("n1")
    ctl = far.hosts.lab.host("ctl").address
    before = far.logins("n2", ctl)
    with ThreadPoolExecutor(1) as pool:
        with held(far, "n2"):
            plan = pool.submit(far.hosts.slurmfab, "plan")
            far.hosts.until("n2", "cat /run/asked && echo asked", "asked")
            far.block("n1", "reject with tcp reset")
            eventually(lambda: far.logins("n2", ctl) > before, "n2 is reached through ctl", 120)
        done = plan.result(120)
    far.open("n1")
    far.block("n1")
    assert "n1: its connection was lost; the hosts behind it are reached anew." in words_of(done)
    assert "n1: not used as a relay, so the hosts behind it are reached another way: " in words_of(done)
    # n1 itself is gone; n2 and n3 answered by ctl.
    assert done.returncode in (0, LEFT_OUT), words_of(done)
    assert "n2: unreachable" not in words_of(done), words_of(done)
    assert far.logins("n2", far.hosts.lab.host("n1").address)


def test_a_relay_that_forwards_nothing_when_deployed_then_hosts_are_reached_directly_and_it_is_told(far: Far) -> None:
    far.relays("ctl")
    file = "/etc/ssh/sshd_config.d/no-forwarding.conf"
    far.hosts.on("ctl", f"echo 'AllowTcpForwarding no' >{file}; systemctl reload ssh")
    far.open("n3")
    try:
        done = far.hosts.slurmfab("plan")
    finally:
        far.block("n3")
        far.hosts.on("ctl", f"rm {file}; systemctl reload ssh")
    assert words_of(done).count("ctl: not used as a relay") == 1, words_of(done)
    assert "its sshd forwards no connections (AllowTcpForwarding" in words_of(done)
    assert "no answer from" in words_of(done), "n1 and n2 are out of reach"
    assert "n3: unreachable" not in words_of(done)


def test_a_host_with_another_key_behind_a_relay_when_deployed_then_is_refused_and_the_others_are_not(far: Far) -> None:
    far.relays("ctl")
    key = "/etc/ssh/ssh_host_ed25519_key"
    far.hosts.on("n2", f"mv {key} {key}.own; ssh-keygen -q -t ed25519 -N '' -f {key}; systemctl restart ssh")
    try:
        done = far.hosts.slurmfab("plan")
    finally:
        far.hosts.on("n2", f"mv {key}.own {key}; ssh-keygen -y -f {key} >{key}.pub; systemctl restart ssh")
    assert done.returncode == LEFT_OUT, words_of(done)
    assert "n2: unreachable: its SSH host key" in words_of(done), words_of(done)
    assert "differs from the pinned one" in words_of(done)
    assert "n3: unreachable" not in words_of(done)


def test_a_node_that_is_off_behind_a_relay_when_planned_then_it_costs_one_time_limit_and_the_others_nothing(
    far: Far,
) -> None:
    far.relays("ctl")
    far.cut_off("n3")
    begun = time.monotonic()
    try:
        done = far.hosts.slurmfab("plan")
    finally:
        far.open("n3")
        far.block("n3")
    assert done.returncode == LEFT_OUT, words_of(done)
    assert "n3: unreachable: its jump host cannot connect to" in words_of(done)
    assert words_of(done).count("unreachable: ") == 1, words_of(done)
    assert time.monotonic() - begun < ONE_LIMIT


def test_a_relay_that_closes_idle_channels_when_a_host_answers_late_then_the_host_stays_connected(far: Far) -> None:
    far.relays("ctl")
    file = "/etc/ssh/sshd_config.d/idle.conf"
    far.hosts.on("ctl", f"echo 'ChannelTimeout *={IDLE_SECONDS}s' >{file}; sshd -t && systemctl reload ssh")
    try:
        with ThreadPoolExecutor(1) as pool:
            with held(far, "n2"):
                plan = pool.submit(far.hosts.slurmfab, "plan")
                far.hosts.until("n2", "cat /run/asked && echo asked", "asked")
                far.hosts.until("n2", ANSWERED_LATE, "late")
            done = plan.result(120)
    finally:
        far.hosts.on("ctl", f"rm {file}; systemctl reload ssh")
    assert done.returncode == 0, words_of(done)
    assert "connection was lost" not in words_of(done)
