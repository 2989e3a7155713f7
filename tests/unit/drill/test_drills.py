"""The scripts of drills, on this machine, with plainly named stand-ins for what they would change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support import cluster

from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.drill.drills import DRILLS, TOO_LATE, Script, server_of
from slurmfab.on_hosts.agent.nodes.timed_fault import BEGIN

TEXT = """
cluster: lab
controllers: [c1, c2]
state_directory: /shared/state
nodes: [{hosts: n1, Port: 7000}]
slurm_conf: {SlurmctldPort: 6817-6820, SlurmdTimeout: 30}
health: {interval: 20, disk: {/var/spool/slurmd: 10%}}
mounts: [{path: /data, source: "s1:/export", type: nfs4}]
"""
KNOWN = Inventory(cluster(TEXT), Lock(hosts={"n1": HostLock(gpus=(Gpu("/dev/nvidia1", "a100", ""),))}), Path("c.yaml"))
MIB = 1 << 20


def script(name: str, known: Inventory = KNOWN) -> Script:
    """The script of a drill."""
    return DRILLS[name].script(known, "n1")


def stand_ins(place: Path, **programs: str) -> None:
    """Put stand-ins for programs into a directory, each a shell script."""
    for name, text in programs.items():
        path = place / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n# a stand-in of a test\n{text}\n")
        path.chmod(0o755)


def played(text: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a directory, whose programs come first."""
    words = ["sh", "-ec", BEGIN + text]
    environment = {"PATH": f"{place}:/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", DRILLS)
def test_both_scripts_of_each_drill_are_scripts_for_sh(name: str) -> None:
    for text in script(name):
        subprocess.run(["sh", "-n", "-c", BEGIN + text], check=True)


def test_the_link_is_shut_at_the_nodes_and_the_controllers_own_ports_and_at_no_other() -> None:
    begin = script("link").begin
    assert "tcp dport 7000 drop; tcp sport 6817-6820 drop" in begin
    assert "tcp sport 7000 drop; tcp dport 6817-6820 drop" in begin
    assert begin.count(" drop;") == 4


def test_a_file_server_is_shut_at_the_port_of_its_kind(tmp_path: Path) -> None:
    stand_ins(
        tmp_path,
        getent="echo '10.0.0.9 STREAM s1'; echo 'fd99::9 STREAM s1'",
        mountpoint="true",
        nft=f"cat >{tmp_path}/rules",
    )
    assert played(script("file-server").begin, tmp_path).returncode == 0
    rules = (tmp_path / "rules").read_text()
    assert "out ip daddr 10.0.0.9 tcp dport { 2049 } drop" in rules
    assert "out ip6 daddr fd99::9 tcp dport { 2049 } drop" in rules


@pytest.mark.parametrize(
    ("source", "server"),
    [
        ("nfs1:/export", "nfs1"),
        ("ann@10.0.0.1:/srv", "10.0.0.1"),
        ("[fd99::1]:/srv", "fd99::1"),
        ("g1,g2:/homes", "g1"),
    ],
)
def test_the_server_of_a_mount_is_in_its_source(source: str, server: str) -> None:
    assert server_of(source) == server


SPOOL = {
    "scontrol": "echo 'SlurmdSpoolDir          = {place}/spool-%n'",
    "fallocate": 'echo "$2" >{place}/filled; touch "$3"',
}


@pytest.mark.parametrize(
    ("free", "where", "told"),
    [
        (1000, "own", 950),
        (1000, "shared", 950),
        (1000, "own container", 950),
        (1000, "shared container", "is on the file system of a container"),
        (40, "own", "is full already"),
        (30_000, "shared", "too large to fill"),
        (30_000, "own", 29_950),
    ],
)
def test_a_spool_is_filled_to_half_of_what_the_health_check_wants_if_that_harms_nothing_else(
    tmp_path: Path, free: int, where: str, told: int | str
) -> None:
    stand_ins(
        tmp_path, **{name: text.format(place=tmp_path) for name, text in SPOOL.items()},
        df=f"echo Avail Size Type; echo {free * MIB} {1000 * MIB} ext4",
        mountpoint="true" if "own" in where else "false",
        systemd_detect_virt="true" if "container" in where else "false",
    )  # fmt: skip
    (tmp_path / "spool-n1").mkdir()
    done = played(script("spool").begin, tmp_path)
    if isinstance(told, str):
        assert (done.returncode, told in done.stderr, (tmp_path / "filled").exists()) == (1, True, False), done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert int((tmp_path / "filled").read_text()) == told * MIB
    assert list((tmp_path / "spool-n1").iterdir()) == [], "the file has no name any more"
    assert played(script("spool").end, tmp_path).returncode == 0


CLOCK = """\
shift 2; exec {python} - "$@" <<'END'
import sys, time
time.clock_settime = lambda _clock, moment: open("set", "a").write(repr(moment - time.time()) + chr(10))
program, sys.argv = sys.argv[2], sys.argv[2:]
exec(program)
END"""
"""A stand-in for python3 whose clock is not set: it writes down by how much it would have been changed."""


def test_a_clock_goes_fast_and_comes_back_by_the_time_since_the_boot(tmp_path: Path) -> None:
    stand_ins(tmp_path, python3=CLOCK.format(python=sys.executable), systemd_detect_virt="false")
    for text in script("clock"):
        assert played(text, tmp_path).stderr == ""
    fast, back = map(float, (tmp_path / "set").read_text().split())
    assert (round(fast), round(back)) == (TOO_LATE, 0)


def test_a_clock_of_a_container_is_left_alone_and_there_is_nothing_to_take_back(tmp_path: Path) -> None:
    stand_ins(tmp_path, python3="touch set", systemd_detect_virt="true")
    done = played(script("clock").begin, tmp_path)
    assert (done.returncode, done.stderr) == (1, "a container has the clock of its host, and of others\n")
    assert played(script("clock").end, tmp_path).returncode == 0
    assert not (tmp_path / "set").exists()


def test_a_slurmctld_that_does_not_run_is_not_killed(tmp_path: Path) -> None:
    stand_ins(tmp_path, systemctl="echo 0")
    done = played(script("slurmctld").begin, tmp_path)
    assert (done.returncode, done.stderr) == (1, "slurmctld does not run\n")


@pytest.mark.parametrize(("name", "seconds"), [("link", 90), ("gpu", 120), ("slurmctld", 60), ("failover", 180)])
def test_how_long_a_drill_waits_follows_slurms_settings(name: str, seconds: int) -> None:
    assert DRILLS[name].noticed(KNOWN.cluster) == seconds


@pytest.mark.parametrize(
    ("name", "gone", "why"),
    [
        ("gpu", "", "has no GPU in the lock"),
        ("file-server", "mounts", "has no mount of type nfs"),
        ("failover", "", ""),
    ],
)
def test_a_drill_that_the_cluster_file_excludes_says_why(name: str, gone: str, why: str) -> None:
    text = "\n".join(line for line in TEXT.splitlines() if not (gone and line.startswith(gone)))
    assert DRILLS[name].why_not(Inventory(cluster(text), Lock(), Path("c.yaml")), "n1").startswith(why)
