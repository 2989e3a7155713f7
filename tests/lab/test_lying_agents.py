"""Compute nodes whose root alters what the agent says: what becomes of the run, and of the other hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, succeeded
from lab_user import words_of
from lying_agent import honest_again, make_liar
from stock import shared_in_turn

from slurmfab.cluster.inventory.loading import lock_path

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "lying_agents")]

FACTS = "def lie(told):\n    if 'facts' in told:\n        {}\n        return told\n"
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGx5aW5nbHlpbmdseWluZ2x5aW5nbHlpbmdseWlu"
EVIL = "6.6.6.6"
PROCESSORS = ("CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
ROUNDS = (
    {
        "n1": (FACTS.format(f"told['facts']['ssh_host_keys'] = {{'@cert-authority * ssh-ed25519': '{KEY}'}}"),
               "its facts were refused: ssh_host_keys"),
        "n2": (FACTS.format("told['facts']['gpus'][0]['cores'] = '0\\nNodeName=n1 Name=gpu File=/dev/null'"),
               "its facts were refused: gpus.0.cores"),
        "n3": (FACTS.format("told['facts']['hostname'] = 'n1'"), "it calls itself n1, as n1 does"),
    },
    {
        "n1": ("def lie(told):\n    while 'facts' in told:\n        sys.stdout.buffer.write(b'x' * 65536)\n",
               "its answer to 'facts' exceeds"),
        "n2": ("def lie(told):\n    return b'{\"facts\": ' + b'[' * 500000 + b'\\n' if 'facts' in told else told\n",
               "its answer is nested too deeply"),
        "n3": (FACTS.format(f"told['facts']['public_key'] += '\\nssh-ed25519 {KEY} slurm@n3'"),
               "its facts were refused: public_key"),
    },
    {
        "n1": (FACTS.format(f"told['facts']['hardware'] |= dict.fromkeys({PROCESSORS!r}, 65533)"),
               "its facts were refused: hardware: a node has at most 8192 CPUs"),
        "n2": (FACTS.format("told['facts']['hardware'] |= {'SocketsPerBoard': 256, 'CoresPerSocket': 256}"),
               "its facts were refused: hardware: a node has at most 8192 CPUs"),
        "n3": (FACTS.format("told['facts']['kernel'] = {**told['facts']['hardware'], 'Boards': 9000}"),
               "its facts were refused: hardware: a node has at most 8192 CPUs"),
    },
    {
        "n1": ("def lie(told):\n    return {'outcome': [told['outcome']]} if 'outcome' in told else told\n",
               "its outcome was refused"),
        "n2": ("def lie(told):\n    return {**told, 'evil': 1} if 'outcome' in told else told\n",
               "its answer to 'apply' contains 'evil', which is unknown"),
        "n3": (FACTS.format(f"told['facts']['hostname'] = 'n3\\n{EVIL} packages.example.org'"),
               "its facts were refused: hostname"),
    },
)  # fmt: skip
"""By round and host: what its agent says instead of the truth, and the words of the line that tells of the host."""

NETWORK = "100.77.0"
"""The beginning of the addresses of a network that hosts get beside the lab's; nothing outside the lab has them."""

ADD = "ip addr add {}/24 dev $(ip -o -4 route show default | sed 's/.* dev \\([^ ]*\\).*/\\1/')"
REMOVE = ADD.replace(" add ", " del ", 1)
STOLEN = "/tmp/stolen"
SLURM_GOES = (
    "cd / && exec runuser -u slurm -- ssh -n -F none -o BatchMode=yes -o ConnectTimeout=20 -b {} {} {} hostname 2>&1"
)
USER_GOES = f"""
cd / && exec unshare -m sh -ec '
for end in "" .pub; do mount --bind {STOLEN}.host$end /etc/ssh/ssh_host_ed25519_key$end; done
exec runuser -u slurmuser -- ssh -n -o BatchMode=yes -o ConnectTimeout=20 -o HostbasedAuthentication=yes \\
  -o PreferredAuthentications=hostbased -b {{}} {{}} hostname 2>&1'
"""
"""A login by slurm's key, and one for which the host vouches, with the keys of another host and from an address."""

FILES = "/etc/hosts /etc/ssh/ssh_known_hosts /etc/slurm/*.conf"


@pytest.fixture
def liars(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The cluster; its compute nodes are honest again afterwards."""
    yield deployed_lab
    for node in ("n1", "n2", "n3"):
        honest_again(deployed_lab, node)


@pytest.mark.parametrize("lies", ROUNDS, ids=["lines of others", "endless", "numbers", "outcomes"])
def test_nodes_that_lie_when_deployed_then_each_is_left_out_with_its_reason_and_the_controller_is_done(
    liars: DeployedLab, lies: dict[str, tuple[str, str]]
) -> None:
    for node, (lie, _) in lies.items():
        make_liar(liars, node, lie)
    before = liars.on("ctl", f"sha256sum {FILES}")
    liars.on("ctl", "sed -i '/^KillWait/d' /etc/slurm/cgroup.conf && echo '# spoilt' >>/etc/slurm/cgroup.conf")
    done = liars.slurmfab("deploy")
    said = words_of(done)
    assert (done.returncode, "Traceback" in said) == (3, False), said
    for node, (_, reason) in lies.items():
        # Hosts with the same reason have one line.
        assert f"{node}: {reason}" in said or f"n[1-3]: {reason}" in said, said
    assert liars.on("ctl", f"sha256sum {FILES}") == before
    assert liars.on("ctl", f"grep -l -e '{KEY}' -e '{EVIL}' -e cert-authority {FILES} || true") == ""
    lock = lock_path(liars.inventory_path).read_text()
    assert not any(word in lock for word in (KEY, EVIL, "cert-authority", "NodeName"))
    assert sorted(json.loads(lock)["hosts"]) == ["ctl", "n1", "n2", "n3"]


HIGHEST = (
    "CPUs=8192 Boards=1 SocketsPerBoard=64 CoresPerSocket=64 ThreadsPerCore=2 RealMemory=1099511627776",
    "CPUs=65533 Sockets=65533 CoresPerSocket=1 ThreadsPerCore=1",
    "CPUs=65533 Sockets=1 CoresPerSocket=65533 ThreadsPerCore=1",
    "CPUs=65533 Sockets=1 CoresPerSocket=1 ThreadsPerCore=65533",
    "CPUs=1 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=16383",
)
"""What hosts may say at most, and cluster files: five lines of nodes."""

RESTART = (
    "systemctl restart slurmctld; for try in $(seq 60); do scontrol ping | grep UP && exit; sleep 0.5; done; exit 1"
)


def test_slurmctld_when_nodes_have_the_highest_numbers_that_are_allowed_then_starts_and_forgets_them(
    deployed_lab: DeployedLab,
) -> None:
    conf = "/etc/slurm/slurm.conf"
    deployed_lab.on("ctl", f"cp -a {conf} /root/kept.conf")
    try:
        for number, line in enumerate(HIGHEST):
            deployed_lab.on("ctl", f"echo 'NodeName=high{number} NodeAddr=127.0.0.1 {line} State=DOWN' >>{conf}")
        for _ in range(2):  # the second time from the state that it wrote
            deployed_lab.on("ctl", RESTART)
            found = deployed_lab.on("ctl", "sinfo --noheader --Node --format=%N | sort -u").split()
            assert {f"high{number}" for number in range(len(HIGHEST))} < {*found}
    finally:
        deployed_lab.on("ctl", f"cp -a /root/kept.conf {conf}")
    for _ in range(2):
        deployed_lab.on("ctl", RESTART)
        assert "high" not in deployed_lab.on("ctl", "sinfo --noheader --Node --format=%N")
    deployed_lab.on("ctl", "scontrol reconfigure")


CLAIMS = {
    "n1": ("told['facts']['uids']['64030'] = 'me'", "UID 64030, wanted for slurm, belongs to me there."),
    "n2": ("told['facts']['groups']['munge'] = 7", "group munge has GID 7 there, but the cluster uses"),
}
"""What would be in the way of everybody if it were true of most hosts, and the words for it."""


def test_a_node_that_claims_what_would_be_in_the_way_of_all_then_is_left_out_alone_with_what_it_said(
    liars: DeployedLab,
) -> None:
    before = lock_path(liars.inventory_path).read_text()
    for node, (lie, _) in CLAIMS.items():
        make_liar(liars, node, FACTS.format(lie))
    for words, among in (((), CLAIMS), (("--hosts", "n1,n3"), {"n1": CLAIMS["n1"]})):
        liars.on("n3", "echo '# spoilt' >>/etc/slurm/cgroup.conf")
        done = liars.slurmfab("deploy", *words)
        assert done.returncode == 3, words_of(done)
        assert liars.on("n3", "grep -c spoilt /etc/slurm/cgroup.conf", check=False) == "0"
        for node, (_, reason) in among.items():
            assert f"{node}: {reason}" in words_of(done)
    assert liars.on("ctl", "sinfo --noheader --Node --nodes=n1,n2 --format=%T | sort -u").startswith("drain")
    for node in CLAIMS:
        honest_again(liars, node)
    assert liars.slurmfab("deploy", "--hosts", "n1,n2").returncode == 0
    assert succeeded(liars.slurmfab("resume", "n1,n2"))
    assert json.loads(lock_path(liars.inventory_path).read_text())["hosts"] == json.loads(before)["hosts"]


SHADOWS = "python3 dpkg-query apt-get apt-cache systemctl scontrol sinfo slurmd munge unmunge getent id stat uname"
OF_STAFF = f"""
useradd --groups staff eve
for place in /usr/local /usr/local/bin /usr/local/sbin; do chgrp staff $place; chmod 2775 $place; done
cd /usr/local
printf '#!/bin/sh\n/usr/bin/id -u >>/var/tmp/ran-$(/usr/bin/basename "$0")\nexit 1\n' >/var/tmp/shadow
chmod 755 /var/tmp/shadow
for name in {SHADOWS} no-such-program; do
    for folder in bin sbin; do /sbin/runuser -u eve -- /bin/cp /var/tmp/shadow /usr/local/$folder/$name; done
done
"""
AS_BEFORE = f"""
cd /usr/local && for name in {SHADOWS} no-such-program; do rm -f bin/$name sbin/$name; done
rm -f /var/tmp/ran-* /var/tmp/shadow; userdel eve; chgrp root . bin sbin; chmod 755 . bin sbin
"""
"""Has somebody of the group staff put programs into /usr/local, which old Debian hosts give to that group."""


def test_programs_that_a_member_of_staff_puts_into_usr_local_when_the_host_is_deployed_and_checked_then_none_runs(
    deployed_lab: DeployedLab,
) -> None:
    deployed_lab.on("n1", OF_STAFF)
    try:
        deployed_lab.on("n1", "echo '# spoilt' >>/etc/slurm/cgroup.conf")
        deployed = deployed_lab.slurmfab("deploy")
        checked = deployed_lab.slurmfab("check-cluster", "--only", "identity,munge,daemons", "--hosts", "n1")
        ran = deployed_lab.on("n1", "/bin/ls /var/tmp/ | /bin/grep ^ran- || :")
    finally:
        deployed_lab.on("n1", AS_BEFORE)
    assert (deployed.returncode, ran) == (0, ""), words_of(deployed)
    assert checked.returncode in (0, 1)
    assert deployed_lab.slurmfab("deploy").returncode == 0


def test_nodes_that_lied_when_they_are_honest_again_then_nothing_has_to_be_changed(deployed_lab: DeployedLab) -> None:
    done = deployed_lab.slurmfab("deploy")
    assert (done.returncode, "nothing changed on 4 hosts" in words_of(done)) == (0, True), words_of(done)


def test_a_fifo_in_the_place_of_the_munge_key_when_deployed_then_nobody_waits_for_it(
    deployed_lab: DeployedLab,
) -> None:
    key = "/etc/munge/munge.key"
    deployed_lab.on("n1", f"mv {key} /root/kept.key && mkfifo -m 400 {key}")
    try:
        done = deployed_lab.slurmfab("deploy")
    finally:
        deployed_lab.on("n1", f"rm {key} && cp -a /root/kept.key {key}")
    assert done.returncode == 3, words_of(done)
    assert f"n1: file:{key}: {key} is not a regular file" in words_of(done)
    deployed_lab.deploy()


@pytest.fixture
def with_network(liars: DeployedLab) -> Iterator[DeployedLab]:
    """The cluster with a second network, of which n1 says that it has ADDRESS.66, where n2 stands, beside others'."""
    text = liars.inventory_path.read_text()
    liars.inventory_path.write_text(f"{text}slurm_ssh: both\n")
    liars.deploy()
    places = {"ctl": f"{NETWORK}.10", "n1": f"{NETWORK}.11", "n2": f"{NETWORK}.66", "n3": f"{NETWORK}.13"}
    for host, place in places.items():
        liars.on(host, f"{ADD.format(place)}; useradd -u 4711 -m slurmuser")
    others = [liars.lab.host("ctl").address, gateway_of(liars), f"{NETWORK}.66", f"{NETWORK}.77"]
    make_liar(liars, "n1", FACTS.format(f"told['facts']['addresses'] += {others!r}"))
    steal(liars, "n1", "n2")
    yield liars
    liars.inventory_path.write_text(text)
    for host, place in places.items():
        liars.on(host, f"{REMOVE.format(place)}; userdel -r slurmuser 2>/dev/null; rm -f {STOLEN}*", check=False)
    honest_again(liars, "n1")
    liars.deploy()


def gateway_of(hosts: DeployedLab) -> str:
    """The address of this machine in the lab, from which it deploys."""
    return hosts.on("ctl", "ip -o -4 route show default").split()[2]


def steal(hosts: DeployedLab, victim: str, thief: str) -> None:
    """Give a host the slurm user's key of another one, and its SSH host key."""
    host_key = "/etc/ssh/ssh_host_ed25519_key"
    for path, name in (
        ("/var/lib/slurm/home/.ssh/id_ed25519", ""),
        (host_key, ".host"),
        (f"{host_key}.pub", ".host.pub"),
    ):
        text = hosts.on(victim, f"base64 -w0 {path}")
        hosts.on(thief, f"echo {text} | base64 -d >{STOLEN}{name} && chmod 600 {STOLEN}*")
    hosts.on(thief, f"chown slurm {STOLEN}")


def test_a_node_that_claims_addresses_of_others_then_is_trusted_at_its_own_and_the_plan_tells_of_it(
    with_network: DeployedLab,
) -> None:
    hosts, text = with_network, with_network.inventory_path.read_text()
    own, ctl = hosts.lab.host("n1").address, hosts.lab.host("ctl").address
    hosts.inventory_path.write_text(f"{text}user_ssh: hostbased\n")
    done = hosts.slurmfab("deploy")
    assert (done.returncode, f"n1: it has the address {ctl} of ctl, where nobody trusts it" in words_of(done)) == (
        0,
        True,
    )
    line = hosts.on("ctl", "grep slurm@n1 /var/lib/slurm/home/.ssh/authorized_keys")
    assert f'from="{own}" ' in line, line
    for host in ("n2", "n3"):
        assert NETWORK not in hosts.on(
            host, "cat /etc/ssh/shosts.equiv /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
        )
        found = hosts.on(
            host, f"ssh-keygen -F {ctl} -f /etc/ssh/ssh_known_hosts2 | cut -d' ' -f3- | sort -u", check=False
        )
        assert hosts.lab.host("n1").host_keys["ssh-ed25519"] not in found, found
    stolen = SLURM_GOES.format(f"{NETWORK}.66", f"-o StrictHostKeyChecking=no -i {STOLEN}", f"{NETWORK}.10")
    assert "Permission denied" in hosts.on("n2", stolen, check=False)
    vouched = USER_GOES.format(f"{NETWORK}.66", f"-o StrictHostKeyChecking=no {NETWORK}.13")
    assert "Permission denied" in hosts.on("n2", vouched, check=False)


def test_a_second_network_when_it_is_named_then_counts_but_for_addresses_that_are_others(
    with_network: DeployedLab,
) -> None:
    hosts, text = with_network, with_network.inventory_path.read_text()
    goes = SLURM_GOES.format(f"{NETWORK}.11", "-i ~slurm/.ssh/id_ed25519 -o StrictHostKeyChecking=no", f"{NETWORK}.10")
    assert "Permission denied" in hosts.on("n1", goes, check=False)
    gateway, ctl = gateway_of(hosts), hosts.lab.host("ctl").address
    net = f"{NETWORK}.0/24, {gateway.rpartition('.')[0]}.0/24"
    assert "ssh: {" in text
    hosts.inventory_path.write_text(text.replace("ssh: {", f"ssh: {{networks: [{net}], ", 1))
    done = succeeded(hosts.slurmfab("deploy"))
    assert re.search(
        rf"ctl,n\[1,3\]: others trust its address {NETWORK}\.\[10-11,.*\], which it tells of", words_of(done)
    )
    assert f"n[1-2]: others do not trust its address {NETWORK}.66: " in words_of(done)
    line = hosts.on("ctl", "grep slurm@n1 /var/lib/slurm/home/.ssh/authorized_keys")
    believed = line.partition('from="')[2].partition('"')[0].split(",")
    assert {f"{NETWORK}.11", f"{NETWORK}.77"} < {*believed}, "a host's word counts in a network that is named"
    assert not {f"{NETWORK}.66", gateway, ctl} & {*believed}, "n2 has .66, this machine and ctl the others"
    assert hosts.on("n1", goes) == "ctl"
    assert hosts.slurmfab("plan").returncode == 0
