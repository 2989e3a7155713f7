"""A bad day: hosts that are down, silent, locked, full, broken or of another kind, and what becomes of the others."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fingerprints import at_rest
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import HOLD_LOCK, Person, held_up, installed, running_lab, said_when, snapshots, wait_for_dpkg, words_of
from suites import NEWEST, OLDEST

from slurmfab import lab
from slurmfab.base.hostlist import expand
from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

SPEC = LabSpec(name="hbad", suite=OLDEST, nodes=15, ssh_user="admin", down=("n2",), hanging=("n3",))

PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
BREAKAGES = {
    "n4": "mv /home/admin/.ssh/authorized_keys /root/",
    "n5": "mv /usr/bin/sudo /root/",
    "n6": "cp --remove-destination /usr/lib/os-release /etc/os-release && sed -i s/^ID=.*/ID=fedora/ /etc/os-release",
    "n7": f"mkdir -p {PLUGINS} && mount -t tmpfs -o size=64k full {PLUGINS}",
    "n8": "mkdir /etc/slurm && mount -t tmpfs -o size=64k full /etc/slurm && head -c 64k /dev/zero >/etc/slurm/fill",
    "n9": "mount --bind /etc /etc && mount -o remount,bind,ro /etc",
    "n10": "dpkg --unpack /var/cache/apt/archives/libmunge2_*.deb && cp /var/lib/dpkg/status /tmp/interrupted",
    "n11": "printf 'Package: slurmd\\nPin: release *\\nPin-Priority: -1\\n' >/etc/apt/preferences.d/no-slurmd",
    "n12": f'systemd-run --quiet python3 -c "{HOLD_LOCK}"',
    "n13": f'systemd-run --quiet python3 -c "{HOLD_LOCK}"',
    "n14": "echo 'this is no field' >>/var/lib/dpkg/status",
    "n15": "systemctl stop ssh.socket ssh.service",
}
WELL = ("ctl", "n1", "n10", "n12")

LOST_SECONDS = 30
"""A host that vanishes is noticed within 20 s; the rest is for a busy machine."""

LEFT_OUT = "; skipped for the rest of this run\n"
"""How the line ends that tells of a lost host when it is noticed; what the others still have to do comes after it."""


@dataclass(frozen=True)
class BadDay:
    """A first deployment to hosts of which most are in trouble.

    Args:
        hosts: the lab.
        said: all that the deployment said.
        code: its exit code.
        seconds: how long it took from the moment when nothing held it up any more.
        at_work: how long the hosts were at work in all its phases, as it says itself.
        second: another deployment, started while the first one was at work.
    """

    hosts: DeployedLab
    said: str
    code: int
    seconds: float
    at_work: float
    second: subprocess.CompletedProcess[str]

    def lines_about(self, host: str) -> list[str]:
        """The lines of the summary that give a host's reason, alone or with others; it is told when it happens, too."""
        lines = self.said.splitlines()
        progress = (r"\([0-9.]+( to [0-9.]+)? s\)", r".*; skipped for the rest of this run")
        ended = max(number for number, line in enumerate(lines) if re.search(rf"({'|'.join(progress)})$", line))
        named = (line for line in lines[ended + 1 :] if re.match(r"[a-z][a-z0-9,[\]-]*: ", line))
        return [line for line in named if host in expand(line.partition(": ")[0])]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BadDay]:
    person = Person.at(tmp_path_factory.mktemp("day"))
    with running_lab(SPEC, tmp_path_factory.mktemp("bad")) as hosts:
        for host, breakage in BREAKAGES.items():
            hosts.on(host, breakage)
        cluster = ["--cluster", str(hosts.inventory_path)]
        process = person.start("deploy", *cluster)
        try:
            for host in ("n12", "n13"):
                hosts.until(host, "pgrep -c apt-get", "1")
            second = person.slurmfab("deploy", "--hosts", "ctl,n12", *cluster)
            lab.kill_host(hosts.lab, "n13")
            hosts.on("n12", "touch /tmp/release")
            begun = time.monotonic()
            said, _ = process.communicate(timeout=600)
        finally:
            process.kill()
            process.wait()
        seconds = time.monotonic() - begun
        at_work = sum(float(phase) for phase in re.findall(r"(?:\(|to )([0-9.]+) s\)$", said, re.MULTILINE))
        yield BadDay(hosts, said, process.returncode, seconds, at_work, second)


def test_a_day_with_many_bad_hosts_when_deployed_then_ends_in_time_without_a_traceback(day: BadDay) -> None:
    assert "Traceback" not in day.said
    assert day.code == 3
    assert day.seconds < LOST_SECONDS + day.at_work
    summary, next_step = day.said.splitlines()[-2:]
    assert "hbad: " in summary
    assert "not done: n[2-9,11,13-15]" in summary
    file = day.hosts.inventory_path
    assert (
        next_step
        == f"Next: fix the cause, then continue with these hosts: slurmfab deploy --retry-failed --cluster {file}"
    )


@pytest.mark.parametrize(
    ("host", "what", "what_to_try"),
    [
        ("n2", "nothing listens at", "Is the host up"),
        ("n3", "accepts connections but sends no SSH banner", "sshd hangs"),
        ("n4", "refused the login of admin with the key", "authorized_keys"),
        ("n5", "sudo is not installed", "log in as root"),
        ("n6", "it runs fedora", "Debian, Ubuntu and Enterprise Linux"),
        ("n7", "the disk is full", "free some space"),
        ("n8", "the disk is full", "free some space"),
        ("n9", "cannot lock /etc/group", "Is its file system read-only"),
        ("n11", "this host's package sources have no package slurmd", "/etc/apt/sources.list"),
        ("n13", "the connection was lost", "The next deploy continues where this one stopped."),
        ("n14", "/var/lib/dpkg/status", "dpkg"),
        ("n15", "nothing listens at", "its sshd running"),
    ],
)
def test_a_bad_host_when_deployed_then_one_line_says_what_and_what_to_try(
    day: BadDay, host: str, what: str, what_to_try: str
) -> None:
    lines = day.lines_about(host)
    assert len(lines) == 1, lines
    assert what in lines[0]
    assert what_to_try in lines[0]


def test_the_other_hosts_when_some_are_bad_then_take_jobs(day: BadDay) -> None:
    nodes = ",".join(WELL[1:])
    assert sorted(day.hosts.on("ctl", AS_SLURM + f"srun -w {nodes} -N3 hostname").split()) == sorted(WELL[1:])


def test_a_host_with_an_interrupted_dpkg_when_deployed_then_is_put_right(day: BadDay) -> None:
    assert "install ok unpacked" in day.hosts.on("n10", "cat /tmp/interrupted")
    assert day.hosts.on("n10", "dpkg --audit") == ""


def test_a_host_that_is_lost_in_the_middle_when_slurm_conf_is_written_then_keeps_its_place_there(day: BadDay) -> None:
    assert "NodeName=n13" in day.hosts.on("ctl", "scontrol -o show node n13")


def test_a_second_deployment_when_one_is_at_work_then_is_told_who_it_is(day: BadDay) -> None:
    assert day.second.returncode == 1
    assert words_of(day.second).count("ctl: another run is changing this cluster: ") == 1
    assert f"@{socket.gethostname()} since 20" in day.second.stderr
    assert ", fab deploy. This run changed nothing." in day.second.stderr


def test_a_doctor_when_hosts_are_in_trouble_then_names_those_that_cannot_be_reached_and_why(
    day: BadDay, person: Person
) -> None:
    cluster = ("--cluster", str(day.hosts.inventory_path), "--hosts", "ctl,n[1-2,4,15]")
    done = ended(person.slurmfab("doctor", *cluster, "--json", "-"), 3)
    found = {one["subject"]: one for one in json.loads(done.stdout)["findings"]}
    assert "nothing listens at" in found["n2"]["text"]
    assert "refused the login of admin" in found["n4"]["text"]
    assert "its sshd running?" in found["n15"]["text"]
    assert found["hosts"]["text"] == "ctl,n1: the login works"
    assert found["hosts' clocks"]["state"] == "ok"
    assert "package mirrors" in found


def test_hosts_that_were_lost_or_full_when_they_are_back_then_the_next_deployment_converges(
    day: BadDay, person: Person
) -> None:
    lab.start_host(day.hosts.lab, "n13")
    day.hosts.on("n7", f"umount {PLUGINS}")
    day.hosts.on("n8", "umount /etc/slurm")
    succeeded(person.slurmfab("deploy", "--hosts", "ctl,n[7-8,13]", "--cluster", str(day.hosts.inventory_path)))
    assert sorted(day.hosts.on("ctl", AS_SLURM + "srun -w n[7-8,13] -N3 hostname").split()) == [
        "n13",
        "n7",
        "n8",
    ]


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """A cluster without any trouble yet."""
    spec = installed(LabSpec(name="hlate", suite=OLDEST, nodes=2))
    with running_lab(spec, tmp_path_factory.mktemp("late")) as hosts:
        hosts.deploy()
        yield hosts


def deploy_with(cluster: DeployedLab, setting: str) -> subprocess.CompletedProcess[str]:
    """Deploy with one setting of slurm.conf in the cluster file."""
    text = cluster.inventory_path.read_text().partition("slurm_conf:")[0]
    cluster.inventory_path.write_text(f"{text}slurm_conf: {{{setting}}}\n")
    return cluster.slurmfab("deploy")


def test_a_node_that_is_down_when_the_configuration_changes_then_keeps_its_place_and_catches_up_later(
    well: DeployedLab,
) -> None:
    lab.kill_host(well.lab, "n1")
    try:
        done = deploy_with(well, "KillWait: 42")
    finally:
        lab.start_host(well.lab, "n1")
    assert done.returncode == 3, words_of(done)
    assert "n1: " in words_of(done)
    assert "Is the host up" in words_of(done)
    assert well.on("n2", "grep -c KillWait=42 /etc/slurm/slurm.conf") == "1"
    assert "NodeName=n1 " in well.on("ctl", "scontrol -o show node n1")
    succeeded(well.slurmfab("deploy"))
    assert well.on("n1", "grep -c KillWait=42 /etc/slurm/slurm.conf") == "1"
    assert well.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"


def test_a_new_address_when_the_node_is_silent_there_then_is_refused_and_no_host_looks_for_it_elsewhere(
    well: DeployedLab,
) -> None:
    text, old = well.inventory_path.read_text(), well.lab.host("n1").address
    other = f"{old.rpartition('.')[0]}.99"
    well.inventory_path.write_text(text.replace(f"n1: {old}", f"n1: {other}"))
    try:
        runs = [well.slurmfab(command) for command in ("plan", "deploy")]
    finally:
        well.inventory_path.write_text(text)
    for done in runs:
        assert done.returncode == 2, words_of(done)
        assert f"n1: it does not answer at {other}, which the cluster file now gives as its address" in words_of(done)
        assert f"The other hosts reach it at {old}" in words_of(done)
    assert well.on("n2", "getent hosts n1").split()[0] == old
    assert well.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"


def test_a_disk_that_is_full_when_a_file_is_replaced_then_the_old_one_stays_until_there_is_room(
    well: DeployedLab,
) -> None:
    full = "cp -a /etc/slurm /tmp/ && mount -t tmpfs -o size=16k full /etc/slurm && cp -a /tmp/slurm /etc/"
    look = "sha256sum /etc/slurm/slurm.conf; ls -A /etc/slurm | grep -c slurmfab || true"
    well.on("n2", f"{full} && ! cat /dev/zero >/etc/slurm/fill 2>/dev/null")
    try:
        before = well.on("n2", look)
        done = deploy_with(well, "KillWait: 43")
        after = well.on("n2", look)
    finally:
        well.on("n2", "umount /etc/slurm")
    assert done.returncode == 3
    assert "n2: slurm-files:/etc/slurm: No space left on device" in words_of(done)
    assert after == before
    succeeded(well.slurmfab("deploy"))
    assert well.on("n2", "grep -c KillWait=43 /etc/slurm/slurm.conf") == "1"


def test_hosts_that_vanish_in_the_middle_of_a_phase_when_the_others_go_on_then_are_lost_in_time_and_tried_again_later(
    well: DeployedLab, person: Person
) -> None:
    before = well.on("ctl", "sha256sum /etc/slurm/slurm.conf; scontrol -o show node n1,n2 | cut -d' ' -f1")
    with held_up(well, "n2"), held_up(well, "n1"):
        process = person.start("deploy", "--cluster", str(well.inventory_path))
        wait_for_dpkg(well, "n1", "n2")
        lab.kill_host(well.lab, "n1")
        lab.unplug_host(well.lab, "n2")
        told = said_when(process)
        lab.start_host(well.lab, "n1")
    said = "".join(line for _, line in told)
    assert max(seconds for seconds, line in told if line.endswith(LEFT_OUT)) < LOST_SECONDS, told
    assert process.returncode == 3, said
    assert "n[1-2]: the connection was lost: the host or the network to it is down. Is the host still up?" in said
    assert well.on("ctl", "sha256sum /etc/slurm/slurm.conf; scontrol -o show node n1,n2 | cut -d' ' -f1") == before
    lab.plug_in_host(well.lab, "n2")
    at_rest(well, "n1", "n2")
    done = succeeded(well.slurmfab("deploy", "--retry-failed"))
    assert "Retrying n[1-2]." in words_of(done)
    # Slurm keeps a node out of service that was restarted behind its back (ReturnToService=1, slurm.conf(5)).
    assert well.slurmfab("resume", "n1").returncode == 0
    assert sorted(well.on("ctl", "cd /tmp && timeout 60 runuser -u slurm -- srun -N2 hostname").split()) == ["n1", "n2"]
    done = well.slurmfab("deploy", "--retry-failed")
    assert (done.returncode, "No hosts to retry: " in words_of(done)) == (0, True)


def test_a_host_that_falls_silent_when_others_have_work_left_then_they_do_it_at_once_and_the_run_waits_at_its_end(
    well: DeployedLab, person: Person
) -> None:
    well.on("n2", "rm ~slurm/.ssh/id_ed25519 ~slurm/.ssh/id_ed25519.pub")
    with held_up(well, "n1"):
        process = person.start("deploy", "--cluster", str(well.inventory_path))
        wait_for_dpkg(well, "n1")
        lab.unplug_host(well.lab, "n1")
        said = "".join(line for _, line in said_when(process))
    assert process.returncode == 3, said
    record = json.loads(max(well.inventory_path.with_suffix(".runs").glob("*-deploy.json")).read_text())
    steps = [(step["phase"], step["host"]) for step in record["steps"]]
    assert steps.index(("ssh keys", "n2")) < steps.index(("packages", "n1")), steps
    (lost,) = (step for step in record["steps"] if step["host"] == "n1")
    begun = {one["doing"]: one["at"] for one in reversed(record["timeline"])}
    # n1 was at its packages all the time until it was lost.
    assert begun["ssh keys"] < begun["packages"] + lost["seconds"] / 2, record["timeline"]
    assert [outcome["status"] for outcome in lost["outcomes"]] == ["unknown"]
    lab.plug_in_host(well.lab, "n1")
    at_rest(well, "n1", "n2")
    succeeded(well.slurmfab("deploy"))
    # Slurm may have noticed that the node was away (ReturnToService=1, slurm.conf(5)).
    assert sorted(well.on("ctl", "cd /tmp && timeout 60 runuser -u slurm -- srun -N2 hostname").split()) == ["n1", "n2"]


def test_a_controller_that_vanishes_when_hosts_are_worked_on_then_the_run_ends_in_time_and_none_begins_without_it(
    well: DeployedLab, person: Person
) -> None:
    words = "deploy", "--cluster", str(well.inventory_path)
    with held_up(well, "ctl"):
        process = person.start(*words)
        wait_for_dpkg(well, "ctl")
        lab.unplug_host(well.lab, "ctl")
        told = said_when(process)
    said = "".join(line for _, line in told)
    assert min(seconds for seconds, line in told if "ctl: " in line and "was lost" in line) < LOST_SECONDS, told
    assert process.returncode == 1, said
    assert "ctl is the controller, so nothing else was started." in said
    before = snapshots(well, "n1", "n2")
    done = deploy_with(well, "KillWait: 44")
    assert done.returncode == 1
    assert "ctl: unreachable: no answer from" in words_of(done)
    assert "ctl is the controller, so nothing else was started." in words_of(done)
    assert snapshots(well, "n1", "n2") == before
    lab.plug_in_host(well.lab, "ctl")
    at_rest(well, "ctl", "n1", "n2")
    done = succeeded(well.slurmfab("deploy", "--retry-failed"))
    assert "so this run is about all hosts" in words_of(done)
    assert well.on("n1", "grep -c KillWait=44 /etc/slurm/slurm.conf") == "1"


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person.at(tmp_path)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """Bare hosts with users of their own."""
    with running_lab(LabSpec(name="huid", suite=NEWEST, nodes=2), tmp_path_factory.mktemp("uid")) as hosts:
        yield hosts


@pytest.mark.parametrize(
    ("users", "told"),
    [
        (
            {"n1": ("slurm", 990), "n2": ("slurm", 991)},
            (
                "n1: user slurm has UID 990 there, but the cluster uses 64030",
                "n2: user slurm has UID 991 there, but the cluster uses 64030",
            ),
        ),
        (
            {"n1": ("backup2", 64030), "n2": ("backup2", 64030)},
            ("n[1-2]: UID 64030, wanted for slurm, belongs to backup2",),
        ),
        (
            {"n1": ("munge", 460), "n2": ("munge", 461)},
            ("n1: user munge has UID 460 there, but the cluster uses 450", "n2: user munge has UID 461 there, but"),
        ),
    ],
    ids=["slurm twice", "taken", "munge twice"],
)
def test_users_whose_numbers_do_not_go_together_when_deployed_then_all_are_named_and_nothing_is_touched(
    strangers: DeployedLab, person: Person, users: dict[str, tuple[str, int]], told: tuple[str, ...]
) -> None:
    everybody = ("ctl", "n1", "n2")
    for host, (user, number) in users.items():
        strangers.on(host, f"groupadd -g {number} {user} && useradd -M -u {number} -g {number} {user}")
    try:
        before = snapshots(strangers, *everybody)
        done = person.slurmfab("deploy", "--cluster", str(strangers.inventory_path))
        after = snapshots(strangers, *everybody)
    finally:
        for host, (user, _) in users.items():
            strangers.on(host, f"userdel {user}")
    assert done.returncode == 1
    for words in told:
        assert words in words_of(done)
    assert "Nothing was changed." in done.stderr
    assert "ids:" in done.stderr
    assert after == before
