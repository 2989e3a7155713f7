"""Who reaches the cluster's ports on real hosts: strangers do not, members and jobs do, and nobody is shut out.

One lab goes through all of it, in this order. The stranger is a second address of n2's.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, succeeded
from lab_user import Person, words_of
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

LEFT_OUT = 3
NAMED = "database: ctl\nslurm_conf: {SrunPortRange: 60001-60100}\n"
MANAGED = f"{NAMED}firewall: managed\n"
TABLE = "nft list table inet slurmfab"
CLOSED = {"ctl": (6817, 6819, 3306, 60001), "n1": (6818, 60001)}
EARLIER = "/var/lib/slurmfab/earlier-logins"
INSTALL = "{ apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install nftables; } >/dev/null 2>&1"
LEFT = (
    "nft list table inet slurmfab 2>/dev/null; ls -d /etc/slurmfab-firewall* /var/lib/slurmfab/owned/firewall.json"
    " /var/lib/slurmfab/earlier-logins* /etc/systemd/system/*firewall* /etc/systemd/system/*/*firewall* 2>/dev/null;"
    " true"
)
"""Prints what a host has because of the rules."""

HOLD = f"echo 'while [ -d {EARLIER} ]; do sleep 0.1; done' >/etc/ssh/sshrc"
CONNECT = """
import errno, socket, sys
source, goal = sys.argv[1:3]
for port in sys.argv[3:]:
    try:
        socket.create_connection((goal, port), 6, (source, 0)).close()
        print(port, "open")
    except OSError as error:
        print(port, errno.errorcode.get(error.errno, "silent"))
"""
TALK = """
import os, socket, sys, time
with socket.create_connection((sys.argv[2], 22), 6, (sys.argv[1], 0)) as one:
    one.recv(99)
    open("/tmp/talks", "w").close()
    while not os.path.exists("/tmp/closed"):
        time.sleep(0.1)
    one.sendall(b"SSH-2.0-x" + bytes((13, 10)))
    print(len(one.recv(9)))
"""
"""Begins to talk to sshd of a host, and goes on when its ports have been closed."""

SITES_OWN = (
    "nft 'table inet site { chain in { type filter hook input priority 0; policy %s; iif lo accept;"
    " tcp dport 22 accept; ct state established,related accept; ip saddr %s tcp dport %d drop; }; }'"
)
BY_A_PROGRAM = "Host {}\n  HostName {}\n  ProxyCommand bash -c 'exec 3<>/dev/tcp/%h/%p; cat <&3 & cat >&3'\n"
"""A way to hosts of which slurmfab does not know from which address it comes."""


@dataclass
class Site:
    """A cluster of two nodes beside a third host, the text of its file without n3, and the address of a stranger."""

    lab: DeployedLab
    text: str
    stranger: str

    def write(self, more: str) -> None:
        self.lab.inventory_path.write_text(self.text + more)

    def deploy(self, more: str) -> list[str]:
        """The resources that a deployment of this changes."""
        self.write(more)
        return [outcome["id"] for step in self.lab.deploy()["steps"] for outcome in step["outcomes"]]

    def address(self, host: str) -> str:
        return self.lab.lab.host(host).address

    def tries(self, goal: str, source: str) -> dict[int, str]:
        """What becomes of connections from an address of n2's to the ports of a host that are closed to strangers."""
        ports = " ".join(map(str, CLOSED[goal]))
        told = self.lab.on("n2", f"python3 -c '{CONNECT}' {source} {self.address(goal)} {ports}")
        return {int(port): word for port, word in (line.split() for line in told.splitlines())}

    def passes(self, *words: str) -> None:
        done = self.lab.slurmfab("check-cluster", *words)
        assert done.returncode in (0, 5), done.stdout + done.stderr


@pytest.fixture(scope="module", params=in_turn("firewall"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, database=True, nodes=3, bare=("n3",)) as lab_with:
        text = lab_with.inventory_path.read_text().replace("hosts: n[1-3]", "hosts: n[1-2]")
        address = lab_with.lab.host("n3").address
        stranger = address.rpartition(".")[0] + ".251"
        lab_with.on("n2", f"ip address add {stranger}/24 dev eth0")
        made = Site(lab_with, text.replace(f", n3: {address}", ""), stranger)
        made.deploy(NAMED)
        yield made


def test_a_plan_shows_the_rules_and_a_deployment_closes_the_ports_without_cutting_a_connection(site: Site) -> None:
    kept = "table ip site { chain kept { type filter hook input priority 5; }; }"
    site.lab.on("ctl", f"{INSTALL}; nft '{kept}'")
    before = site.tries("ctl", site.stranger)
    assert {before[6817], before[6819]} == {"open"}, before
    job = site.lab.on("ctl", f"{AS_SLURM}sbatch --parsable -w n1 -o /dev/null --wrap 'srun sleep 600'")
    site.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    talk = f"nohup python3 -c '{TALK}' {site.stranger} {site.address('ctl')} >/tmp/heard 2>&1 </dev/null &"
    site.lab.on("n2", f"{talk} until [ -e /tmp/talks ]; do sleep 0.1; done")
    site.write(f"{NAMED}firewall: {{admins: {site.address('ctl').rpartition('.')[0]}.1, users: 192.0.2.0/24}}\n")
    planned = site.lab.slurmfab("plan")
    assert "tcp dport { 3306, 6817, 6819, 60001-60100 } counter reject" in planned.stdout, words_of(planned)
    assert site.lab.on("ctl", LEFT) == "", "a plan changes nothing"
    site.lab.deploy()
    assert site.lab.deploy()["steps"] == []
    for host in CLOSED:
        assert set(site.tries(host, site.stranger).values()) == {"EHOSTUNREACH"}, host
        assert "EHOSTUNREACH" not in site.tries(host, site.address("n2")).values(), host
    site.lab.on("n2", "touch /tmp/closed")
    site.lab.until("n2", "cat /tmp/heard", "9")
    again = f"python3 -c '{CONNECT}' {site.stranger} {site.address('ctl')} 22"
    assert site.lab.on("n2", again) == "22 EHOSTUNREACH", "a new one is refused"
    assert site.lab.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    assert "chain kept" in site.lab.on("ctl", "nft list table ip site")
    site.lab.on("ctl", f"scancel {job}")


def test_jobs_run_with_input_from_a_terminal_and_all_checks_pass(site: Site) -> None:
    site.deploy(MANAGED)
    said = site.lab.on(
        "ctl", f"cd /tmp; echo typed | runuser -u slurm -- srun -N2 -i0 cat; {AS_SLURM}srun -N2 hostname | sort"
    )
    assert said.split() == ["typed", "n1", "n2"]
    site.passes()
    assert site.lab.deploy()["steps"] == []


def test_rules_that_somebody_deletes_are_missed_by_a_check_and_come_back(site: Site) -> None:
    site.lab.on("n1", "nft delete table inet slurmfab")
    done = site.lab.slurmfab("check-cluster", "--only", "network")
    assert (done.returncode, "n1 has no rules of slurmfab's" in words_of(done)) == (1, True), words_of(done)
    assert site.deploy(MANAGED) == ["firewall-rules:firewall"]
    site.lab.on("n1", "nft add rule inet slurmfab begins tcp dport 22 drop; nft flush chain inet slurmfab begins")
    assert site.deploy(MANAGED) == ["firewall-rules:firewall"]
    site.lab.on("n1", "systemctl restart nftables")
    assert "reject" in site.lab.on("n1", TABLE), "nftables.service flushes all rules, and brings ours back"
    site.passes("--only", "network")


def test_a_node_that_joins_is_let_in_by_the_others(site: Site) -> None:
    succeeded(site.lab.slurmfab("add-node", site.address("n3"), "--accept-new-host-keys"))
    site.text = site.lab.inventory_path.read_text().replace(MANAGED, "")
    assert site.lab.on("ctl", f"{AS_SLURM}srun -N3 hostname | sort").split() == ["n1", "n2", "n3"]
    assert "reject" in site.lab.on("n3", TABLE)
    assert site.lab.deploy()["steps"] == []


def test_rules_that_shut_the_deployer_out_are_taken_back(site: Site, tmp_path: Path) -> None:
    rules = site.lab.on("n1", TABLE)
    site.write(f"{NAMED}firewall: {{admins: 192.0.2.0/24}}\n")
    done = site.lab.slurmfab("deploy")
    said = words_of(done)
    assert (done.returncode, "which is in no network of admins" in said) == (2, True), said
    person = Person.at(tmp_path)
    ways = (BY_A_PROGRAM.format(host, site.address(host)) for host in ("ctl", "n1", "n2", "n3"))
    (person.home / ".ssh" / "config").write_text("".join(ways))
    done = person.slurmfab("deploy", "--cluster", str(site.lab.inventory_path))
    said = words_of(done)
    assert (done.returncode, "with this, another login failed" in said) == (LEFT_OUT, True), said
    assert site.lab.on("n1", TABLE) == rules
    assert site.lab.on("n1", f"ls -d {EARLIER} 2>/dev/null; true") == ""
    assert site.deploy(MANAGED) == [], "nothing was left of it, on the controller neither, where SSH is for users"


@pytest.mark.parametrize("ends", ["deployer", "power"])
def test_rules_that_nobody_proves_are_taken_back_by_the_host_itself(site: Site, ends: str) -> None:
    site.deploy(MANAGED)
    rules = site.lab.on("n1", TABLE)
    site.lab.on("n1", HOLD)
    site.write(f"{NAMED}firewall: {{trusted: 192.0.2.0/24}}\n")
    words = [*PROGRAM, "deploy", "--cluster", str(site.lab.inventory_path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        site.lab.until("n1", f"test -d {EARLIER} && {TABLE} | grep -c 192.0.2", "1")
        if ends == "power":
            lab.kill_host(site.lab.lab, "n1")
            lab.start_host(site.lab.lab, "n1")
        process.kill()
    site.lab.until("n1", f"ls -d {EARLIER} 2>/dev/null; {TABLE}", rules)
    site.lab.on("n1", "rm /etc/ssh/sshrc")
    site.lab.until("ctl", "flock --nonblock /run/slurmfab.lock echo free", "free")
    site.deploy(MANAGED)


def test_rules_are_there_after_a_boot_before_anything_is_deployed(site: Site) -> None:
    rules = site.lab.on("n1", TABLE)
    lab.kill_host(site.lab.lab, "n1")
    lab.start_host(site.lab.lab, "n1")
    assert site.lab.on("n1", TABLE) == rules
    site.lab.until("ctl", "sinfo -h -N -n n1 -o %t | uniq", "idle")


def test_what_a_firewall_of_the_sites_own_blocks_is_told_by_plan_and_deploy(site: Site) -> None:
    site.lab.on("ctl", SITES_OWN % ("accept", site.address("n1"), 6817))
    words = "n1 cannot connect to slurmctld on ctl"
    for mode in ("managed", "checked"):
        site.write(f"{NAMED}firewall: {mode}\n")
        planned = site.lab.slurmfab("plan")
        assert "slurmctld on ctl port 6817: no answer within 4 s -> open" in words_of(planned), words_of(planned)
        done = site.lab.slurmfab("deploy")
        assert (done.returncode, words in words_of(done)) == (LEFT_OUT, True), words_of(done)
    site.lab.on("ctl", "nft delete table inet site")
    site.deploy(f"{NAMED}firewall: checked\n")
    site.lab.on("n2", f"{INSTALL}; " + SITES_OWN % ("drop", "192.0.2.1", 1))
    planned = words_of(site.lab.slurmfab("plan"))
    assert "n2 has a firewall of its own (inet site in)" in planned.replace("n2: has", "n2 has"), planned
    assert "slurmd on n2 port 6818: no answer within 4 s -> open" in planned
    done = site.lab.slurmfab("deploy")
    assert (done.returncode, "ctl cannot connect to slurmd on n2" in words_of(done)) == (LEFT_OUT, True), words_of(done)
    site.lab.on("n2", "nft delete table inet site")


def test_without_the_key_nothing_is_left(site: Site) -> None:
    site.deploy(MANAGED)
    succeeded(site.lab.slurmfab("remove-node", "n3"))
    assert site.lab.on("n3", LEFT) == ""
    site.text = site.lab.inventory_path.read_text().replace(MANAGED, "")
    assert site.address("n3") not in site.lab.on("n1", TABLE)
    site.deploy(f"{NAMED}firewall: none\n")
    assert site.lab.deploy()["steps"] == []
    for host in ("ctl", "n1", "n2"):
        assert site.lab.on(host, LEFT) == "", host
    assert "chain kept" in site.lab.on("ctl", "nft list table ip site"), "who had nft before keeps it"
    package = "dpkg-query -W -f '${db:Status-Status}' nftables 2>/dev/null; true"
    assert "installed" not in site.lab.on("n1", package)
    assert site.lab.on("n2", package) == "installed", "somebody has installed it there by hand"
    assert "open" in site.tries("ctl", site.stranger).values()
    done = site.lab.slurmfab("rollback")
    said = words_of(done)
    assert (done.returncode, "nft is not installed" in said) == (LEFT_OUT, True), said
    assert "reject" in site.lab.on("ctl", TABLE), "a rollback brings the rules back where nft has stayed"
    assert site.lab.on("ctl", "systemctl is-enabled slurmfab-firewall") == "enabled"
