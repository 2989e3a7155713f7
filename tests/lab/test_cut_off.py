"""A deployer that is killed: hosts finish what they were at, no file is torn, and the next deployment converges."""

from __future__ import annotations

import getpass
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fingerprints import AT_WORK, INSTALLS, KEY, LEFTOVERS, PACKAGE_KEY, at_rest
from lab_cluster import AS_SLURM, DeployedLab, eventually, succeeded
from lab_user import Person, held_up, platform_of, running_lab, wait_for_dpkg, words_of
from suites import NEWEST

from slurmfab import lab
from slurmfab.lab import LabSpec
from slurmfab.on_hosts.agent.core.lifeline import SILENCE

pytestmark = pytest.mark.lab

SPEC = LabSpec(name="hcut", suite=NEWEST, nodes=2)
ALL = ("ctl", "n1", "n2")
MANAGED = ("/etc/hosts", "/etc/slurm/slurm.conf", "/etc/slurm/cgroup.conf", "/etc/ssh/ssh_known_hosts", KEY)
SUMS = f"sha256sum {' '.join(MANAGED)} 2>/dev/null || true"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    with running_lab(SPEC, tmp_path_factory.mktemp("cut")) as made:
        yield made


FREEZE = "until [ -e /usr/sbin/slurmd-wlm ] || [ -e /usr/sbin/slurmd ]; do :; done; kill -STOP $(pgrep -x dpkg)"
"""Stops dpkg as soon as it unpacks slurmd."""


def until_line(start: str) -> Callable[[subprocess.Popen[str], DeployedLab], None]:
    """The moment when the deployer says that a host is through with a phase."""

    def come(process: subprocess.Popen[str], _: DeployedLab) -> None:
        assert process.stdout
        assert any(line.startswith(start) for line in process.stdout), f"no line begins with {start}"

    return come


def until_unpacking(_: subprocess.Popen[str], hosts: DeployedLab) -> None:
    """The moment when packages are installed on the last node."""
    hosts.until("n2", INSTALLS, "installs")


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


def test_a_first_deployment_that_is_killed_with_a_hosts_power_when_it_may_end_then_converges_and_no_file_was_torn(
    hosts: DeployedLab, person: Person
) -> None:
    bare = managed(hosts)
    seen = [
        cut_off(hosts, person, until_unpacking, power="n2"),
        cut_off(hosts, person, until_line("slurm.conf ")),
    ]
    succeeded(person.slurmfab("deploy", "--cluster", str(hosts.inventory_path)))
    final = managed(hosts)
    assert all(len(sums) == len(MANAGED) for sums in final.values())
    for sums in seen:
        assert sums["ctl"] <= bare["ctl"] | final["ctl"]
        for node in ("n1", "n2"):
            assert {line for line in sums[node] if not line.endswith(KEY)} <= bare[node] | final[node]
    for host in ALL:
        assert hosts.on(host, LEFTOVERS) == ""
        assert hosts.on(host, "dpkg --audit") == ""
    assert sorted(hosts.on("ctl", AS_SLURM + "srun -N2 hostname").split()) == ["n1", "n2"]


def test_a_deployment_that_is_interrupted_at_the_keyboard_then_says_how_to_go_on_and_lets_go_of_all_hosts(
    hosts: DeployedLab, person: Person
) -> None:
    succeeded(person.slurmfab("deploy", "--cluster", str(hosts.inventory_path)))
    lock = hosts.inventory_path.with_suffix(".lock.json")
    before = lock.read_text()
    with held_up(hosts, *ALL):
        process = person.start("deploy", "--cluster", str(hosts.inventory_path))
        wait_for_dpkg(hosts, *ALL)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        again = person.slurmfab("deploy", "--cluster", str(hosts.inventory_path))
        patient = person.start("deploy", "--cluster", str(hosts.inventory_path))
        assert patient.stdout
        waits = "waiting up to 20 s for the last step of an interrupted run"
        assert any(waits in line for line in patient.stdout), "it waits for nothing"
    rest, _ = patient.communicate(timeout=120)
    at_rest(hosts, *ALL)
    assert patient.returncode == 0, rest
    assert process.returncode == 130
    assert "Interrupted. Hosts finish the step that they are at. Run the same command again to go on." in said
    assert "Traceback" not in said
    assert lock.read_text() == before
    assert again.returncode == 1
    interrupted = "that run was interrupted; this host is still completing its last step. This run changed nothing."
    assert f"fab deploy; {interrupted}" in words_of(again)
    assert all(hosts.on(host, "dpkg-query -Wf '${Status}' slurm-client") == "install ok installed" for host in ALL)


@pytest.mark.parametrize("order", [("ann", "bob"), ("bob", "ann")])
def test_two_deployments_at_the_same_moment_then_one_changes_all_and_the_other_is_told_who_it_is_and_changes_nothing(
    hosts: DeployedLab, order: tuple[str, str], tmp_path: Path
) -> None:
    people = {name: Person.at(tmp_path / name) for name in order}
    values = {"ann": "41", "bob": "42"}
    locked = hosts.inventory_path.with_suffix(".lock.json").read_text()
    for name, somebody in people.items():
        somebody.writes(f"{hosts.inventory_path.read_text()}slurm_conf: {{KillWait: {values[name]}}}\n")
        somebody.cluster_file.with_suffix(".lock.json").write_text(locked)
    with held_up(hosts, "n1"):
        started = {name: somebody.start("deploy") for name, somebody in people.items()}
        eventually(lambda: any(process.poll() is not None for process in started.values()), "one of them ends")
    said = {name: process.communicate(timeout=120)[0] for name, process in started.items()}
    winner, loser = sorted(started, key=lambda name: started[name].returncode)
    assert (started[winner].returncode, started[loser].returncode) == (0, 1), said
    assert f"ctl: another run is changing this cluster: {getpass.getuser()}@" in said[loser]
    assert "This run changed nothing." in said[loser]
    for host in ALL:
        assert hosts.on(host, "grep -o 'KillWait=.*' /etc/slurm/slurm.conf") == f"KillWait={values[winner]}"
    succeeded(people[loser].slurmfab("deploy"))
    assert hosts.on("n1", "grep -o 'KillWait=.*' /etc/slurm/slurm.conf") == f"KillWait={values[loser]}"


def test_an_agent_that_is_killed_then_leaves_a_lock_file_that_keeps_nobody_out(
    hosts: DeployedLab, person: Person
) -> None:
    succeeded(person.slurmfab("deploy", "--cluster", str(hosts.inventory_path)))
    with held_up(hosts, "n1"):
        process = person.start("deploy", "--cluster", str(hosts.inventory_path))
        wait_for_dpkg(hosts, "n1")
        # What it has begun goes on by itself, as apt-get here; the lock is the agent's alone.
        hosts.on("n1", "kill -KILL $(pgrep -f '[p]ython3 -I -B')")
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 3, said
    assert "n1: the connection was lost: the agent ended in the middle of its answer" in said
    assert ", fab deploy" in hosts.on("n1", "cat /run/slurmfab.lock")
    hosts.until("n1", "pgrep -c '^(apt-get|dpkg)$' || true", "0")
    succeeded(person.slurmfab("deploy", "--retry-failed", "--cluster", str(hosts.inventory_path)))


def test_a_deployer_that_is_frozen_then_the_hosts_give_it_up_after_a_minute_and_it_says_so_when_it_goes_on(
    hosts: DeployedLab, person: Person
) -> None:
    words = "deploy", "--cluster", str(hosts.inventory_path)
    with held_up(hosts, "n1"):
        frozen = person.start(*words)
        try:
            wait_for_dpkg(hosts, "n1")
            frozen.send_signal(signal.SIGSTOP)
            refused = person.slurmfab(*words)
            for host in ("ctl", "n2"):
                hosts.until(host, AT_WORK, "0", SILENCE + 15)
            # The host that is in the middle of something finishes it, and says whose it was.
            second = person.slurmfab(*words)
            hosts.on("n1", "touch /tmp/release")
            at_rest(hosts, *ALL)
            third = person.slurmfab(*words)
        finally:
            frozen.send_signal(signal.SIGCONT)
        said, _ = frozen.communicate(timeout=60)
    assert refused.returncode == 1
    assert "ctl: another run is changing this cluster: " in words_of(refused)
    assert second.returncode == 3, words_of(second)
    assert "fab deploy; that run was interrupted; this host is still completing its last step." in words_of(second)
    assert third.returncode == 0, words_of(third)
    assert frozen.returncode == 1
    assert re.search(r"^(\w+,)*ctl(,\w+)*: (unreachable: )?the connection was lost", said, re.MULTILINE), said
    assert "ctl is the controller, so nothing else was started." in said
    assert "Traceback" not in said


def test_a_node_whose_packages_are_half_unpacked_then_is_not_taken_for_one_with_a_slurm_of_no_package(
    hosts: DeployedLab, person: Person
) -> None:
    words = "--cluster", str(hosts.inventory_path)
    succeeded(person.slurmfab("deploy", *words))
    hosts.on("n1", f"systemctl stop slurmd; dpkg --force-depends --purge {' '.join(platform_of(SPEC).telling)}")
    hosts.on("n1", f"systemd-run --quiet sh -c '{FREEZE}'")
    process = person.start("deploy", *words)
    try:
        hosts.until("n1", "ps -o state= -C dpkg", "T", 120)
        hosts.on("n1", "kill -KILL $(pgrep -f '[p]ython3 -I -B')")
        planned = words_of(person.slurmfab("plan", *words))
    finally:
        hosts.on("n1", "kill -CONT $(pgrep -x dpkg)")
        process.communicate(timeout=120)
    assert re.search(r"slurmd: (half-installed|unpacked) -> installed", planned), planned
    assert "of no package" not in planned
    assert "rm -r" not in planned
    succeeded(person.slurmfab("deploy", *words))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person.at(tmp_path_factory.mktemp("person"))
