"""The golden files are accepted by the real Slurm of their version, and so are our tables of its keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_cases import CASES
from slurm_tree import SlurmTree, install

from slurmfab.errors import LabError
from slurmfab.lab.command import require_machine
from slurmfab.slurm_keys import CGROUP_CONF, NODE, PARTITION, SLURM_CONF, Key
from slurmfab.slurm_versions import SlurmVersion, complaints

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent
SUITES = {"bookworm": "22.05", "trixie": "24.11", "sid": "26.05"}

START = """
install -d -o munge /run/munge; su -s /bin/sh munge -c munged
install -d -o slurm /run/slurmctld /var/lib/slurm/slurmctld /var/log/slurm
rm -rf /var/lib/slurm/slurmctld/* /var/log/slurm/*
timeout 20 slurmctld -D -f /etc/golden/slurm.conf & daemon=$!
export SLURM_CONF=/etc/golden/slurm.conf
until sinfo -h -N -o '%N %c %m %G' 2>/tmp/why; do
    if ! kill -0 $daemon; then wait $daemon; echo "slurmctld ended with $?" >&2; exit 1; fi
    sleep 0.1
done
kill $daemon; wait $daemon
"""
"""Ends well as soon as slurmctld answers with its nodes."""


@pytest.fixture(scope="module", params=SUITES)
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, SlurmTree]]:
    """The version's series and a tree with that Slurm installed."""
    try:
        require_machine()
    except LabError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    suite = request.param
    yield SUITES[suite], install(suite, tmp_path_factory.mktemp(suite), print)


@pytest.mark.parametrize("case", CASES)
def test_slurm_parses_the_golden_files(slurm: tuple[str, SlurmTree], case: str) -> None:
    series, tree = slurm
    tree.write("/etc/golden", golden(series, case))
    parsed = tree.run("SLURM_CONF=/etc/golden/slurm.conf scontrol show hostnames cn[01-02]")
    assert (parsed.returncode, parsed.stdout, parsed.stderr) == (0, "cn01\ncn02\n", "")


@pytest.mark.parametrize("case", CASES)
def test_slurmctld_starts_with_the_golden_files_and_knows_every_node(slurm: tuple[str, SlurmTree], case: str) -> None:
    series, tree = slurm
    tree.write("/etc/golden", golden(series, case))
    started = tree.run(START)
    assert started.returncode == 0, started.stderr
    assert {line.split()[0] for line in started.stdout.splitlines()} == {node.name for node in CASES[case].nodes}
    assert "fatal" not in started.stderr


def test_slurmd_reads_the_golden_gres_conf(slurm: tuple[str, SlurmTree]) -> None:
    series, tree = slurm
    tree.write("/etc/golden", golden(series, "gpu"))
    devices = "mount -t tmpfs tmpfs /dev; for n in 0 1 2 3; do mknod /dev/nvidia$n c 195 $n; done; mknod /dev/null c 1 3"
    read = tree.run(f"{devices}; slurmd -G -N fast01 -f /etc/golden/slurm.conf")
    assert read.returncode == 0, read.stderr
    lines = (read.stdout + read.stderr).splitlines()
    assert any("Name=gpu Type=h100 Count=4" in line and "File=/dev/nvidia[0-3]" in line for line in lines), lines
    assert any("Name=nic" in line and "Count=2" in line for line in lines), lines


def test_slurm_knows_exactly_the_keys_that_our_tables_say(slurm: tuple[str, SlurmTree]) -> None:
    series, tree = slurm
    version = SlurmVersion.parse(series)
    keys = {
        **{f"slurm.{key.name}": key for key in SLURM_CONF.values()},
        **{f"node.{key.name}": key for key in NODE.values()},
        **{f"partition.{key.name}": key for key in PARTITION.values()},
    }
    tree.write("/etc/keys", {place: conf_with(place) for place in keys})
    tried = tree.run("cd /etc/keys; for f in *; do SLURM_CONF=/etc/keys/$f scontrol show hostnames x 2>&1 | sed \"s/^/$f: /\"; done")
    unknown = {line.split(":")[0] for line in tried.stdout.splitlines() if "unrecognized key" in line}
    expected = {place for place, key in keys.items() if is_unknown(version, key)}
    assert unknown == expected


def test_slurmd_refuses_exactly_the_cgroup_keys_that_our_tables_say(slurm: tuple[str, SlurmTree]) -> None:
    series, tree = slurm
    version = SlurmVersion.parse(series)
    unknown = set()
    for key in CGROUP_CONF.values():
        tree.write("/etc/golden", {**golden(series, "plain"), "cgroup.conf": f"{key.name}=\n"})
        tried = tree.run("timeout 5 slurmd -D -N cn01 -f /etc/golden/slurm.conf 2>&1")
        if "unrecognized key" in tried.stdout:
            unknown.add(key.name)
    assert unknown == {key.name for key in CGROUP_CONF.values() if is_unknown(version, key)}


def golden(series: str, case: str) -> dict[str, str]:
    """The golden files of a case."""
    return {path.name: path.read_text() for path in (HERE / series / case).iterdir()}


def conf_with(place: str) -> str:
    """The smallest slurm.conf with one more key, which has no value: what matters is whether the key is known."""
    kind, key = place.split(".")
    lines = {"slurm": f"{key}=1\n", "node": f"NodeName=x {key}=1\n", "partition": f"PartitionName=x {key}=1\n"}
    return f"ClusterName=x\nSlurmctldHost=x\n{lines[kind]}"


def is_unknown(version: SlurmVersion, key: Key) -> bool:
    """Whether our tables say that this version does not know a key."""
    found = complaints(version, {}, {}, (), ()) if key.name == "" else ()
    return bool(found) or not key.since <= (version.major, version.minor) < key.until
