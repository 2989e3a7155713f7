"""A deployer that is killed: hosts finish what they were at, no file is torn, and the next deployment converges."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from lab_cluster import DeployedLab
from lab_user import HOLD_LOCK, Person, running_lab, words_of

from slurmfab import lab
from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

SPEC = LabSpec(name="hcut", suite="trixie", nodes=2)
ALL = ("ctl", "n1", "n2")
KEY = "/etc/munge/munge.key"
MANAGED = ("/etc/hosts", "/etc/slurm/slurm.conf", "/etc/slurm/cgroup.conf", "/etc/ssh/ssh_known_hosts", KEY)
SUMS = f"sha256sum {' '.join(MANAGED)} 2>/dev/null || true"
PACKAGE_KEY = f"[ -s {KEY} ] && stat -c %s {KEY} | sed 's/^128$/whole/' || echo absent"
"""The key that munge's package makes on every host is of 128 bytes, as is the one that replaces it."""
AT_WORK = "pgrep -fc '[p]ython3 -I -B' || true"
LEFTOVERS = "find / /run -xdev '(' -name '*slurmfab*' -o -path '/usr/sbin/*policy-rc.d*' ')' ! -path /run/slurmfab.lock"
"""Temporary files and staging directories anywhere, and the policy that keeps daemons from starting; not the lock."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    with running_lab(SPEC, tmp_path_factory.mktemp("cut")) as made:
        yield made


def until_line(start: str) -> Callable[[subprocess.Popen[str], DeployedLab], None]:
    """The moment when the deployer says that a host is through with a phase."""

    def come(process: subprocess.Popen[str], _: DeployedLab) -> None:
        assert process.stdout
        assert any(line.startswith(start) for line in process.stdout), f"no line begins with {start}"

    return come


def until_program(name: str) -> Callable[[subprocess.Popen[str], DeployedLab], None]:
    """The moment when a program runs on the last node."""

    def come(_: subprocess.Popen[str], hosts: DeployedLab) -> None:
        hosts.until("n2", f"pgrep -x {name} >/dev/null && echo runs", "runs")

    return come


def cut_off(
    hosts: DeployedLab,
    person: Person,
    moment: Callable[[subprocess.Popen[str], DeployedLab], None],
    power: str = "",
) -> dict[str, set[str]]:
    """Deploy and kill the deployer at a moment, together with one host's power; the sums of all managed files then."""
    process = person.start("deploy", "--cluster", str(hosts.inventory_path))
    try:
        moment(process, hosts)
        if power:
            lab.kill_host(hosts.lab, power)
    finally:
        process.kill()
        process.communicate()
    if power:
        lab.start_host(hosts.lab, power)
    return managed(hosts)


def managed(hosts: DeployedLab) -> dict[str, set[str]]:
    """The sums of all managed files that are there, as soon as nobody works on the hosts any more."""
    for host in ALL:
        hosts.until(host, AT_WORK, "0", 120)
        assert hosts.on(host, PACKAGE_KEY) in ("whole", "absent")
    return {host: set(hosts.on(host, SUMS).splitlines()) for host in ALL}


def test_a_first_deployment_that_is_killed_again_and_again_when_it_may_end_then_converges_and_no_file_was_ever_torn(
    hosts: DeployedLab, person: Person
) -> None:
    bare = managed(hosts)
    seen = [
        cut_off(hosts, person, until_line("users ")),
        cut_off(hosts, person, until_program("dpkg"), power="n2"),
        cut_off(hosts, person, until_line("munge key ")),
        cut_off(hosts, person, until_line("slurm.conf ")),
    ]
    done = person.slurmfab("deploy", "--cluster", str(hosts.inventory_path))
    assert done.returncode == 0, words_of(done)
    final = managed(hosts)
    assert all(len(sums) == len(MANAGED) for sums in final.values())
    for sums in seen:
        assert sums["ctl"] <= bare["ctl"] | final["ctl"]
        for node in ("n1", "n2"):
            assert {line for line in sums[node] if not line.endswith(KEY)} <= bare[node] | final[node]
    for host in ALL:
        assert hosts.on(host, LEFTOVERS) == ""
        assert hosts.on(host, "dpkg --audit") == ""
    assert sorted(hosts.on("ctl", "cd /tmp && srun -N2 hostname").split()) == ["n1", "n2"]


def test_a_deployment_that_is_interrupted_at_the_keyboard_then_says_how_to_go_on(
    hosts: DeployedLab, person: Person
) -> None:
    done = person.slurmfab("deploy", "--cluster", str(hosts.inventory_path))
    assert done.returncode == 0, words_of(done)
    lock = hosts.inventory_path.with_suffix(".lock.json")
    before = lock.read_text()
    hosts.on("ctl", "dpkg --force-depends --purge slurm-client")
    hosts.on("ctl", f'systemd-run --quiet python3 -c "{HOLD_LOCK}"')
    hosts.until("ctl", "ls /tmp/held", "/tmp/held")
    process = person.start("deploy", "--cluster", str(hosts.inventory_path))
    hosts.until("ctl", "pgrep -xc apt-get", "1")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    hosts.on("ctl", "touch /tmp/release")
    managed(hosts)
    assert process.returncode == 130
    assert "Interrupted. Hosts finish what they were at; run the same command again to go on." in said
    assert "Traceback" not in said
    assert lock.read_text() == before


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person.at(tmp_path_factory.mktemp("person"))
