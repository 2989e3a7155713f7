"""The golden files are accepted by the real Slurm of their version, and so are our tables of its keys."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from golden_cases import CASES, READ_BY
from slurm_tree import SlurmTree, install

from slurmfab.base.errors import LabError
from slurmfab.cluster.facts import Cgroup
from slurmfab.cluster.slurm.job_submit_script import SCRIPT
from slurmfab.cluster.slurm.keys import CGROUP_CONF, NODE, PARTITION, SLURM_CONF, Key
from slurmfab.cluster.slurm.render import job_submit_script, render
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.lab.command import require_machine

pytestmark = pytest.mark.lab

HERE = Path(__file__).parent

MUNGED = "install -d -o munge /run/munge; su -s /bin/sh munge -c munged"
START = f"""
{MUNGED}
state=$(sed -n s/^StateSaveLocation=//p /etc/golden/slurm.conf)
install -d -o slurm /run/slurmctld "$state" /var/log/slurm
rm -rf "$state"/* /var/log/slurm/*
timeout 20 slurmctld -D -f /etc/golden/slurm.conf & daemon=$!
export SLURM_CONF=/etc/golden/slurm.conf
until scontrol -o show node 2>/tmp/why; do
    if ! kill -0 $daemon; then wait $daemon; echo "slurmctld ended with $?" >&2; exit 1; fi
    sleep 0.1
done
kill $daemon; wait $daemon
"""
"""Ends well as soon as slurmctld answers with its nodes."""

STARTING = tuple(case for case in CASES if not CASES[case].accounting_host)
"""Without a slurmdbd slurmctld starts only when it has known one before; tests/lab/test_database.py gives it one."""


@pytest.fixture(scope="module", params=READ_BY)
def slurm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, SlurmTree]:
    """The version's series and a tree with that Slurm installed."""
    try:
        require_machine()
    except LabError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    suite = request.param
    return READ_BY[suite], install(suite, tmp_path_factory.mktemp(suite), print)


@pytest.mark.parametrize("case", CASES)
def test_slurm_parses_the_golden_files(slurm: tuple[str, SlurmTree], case: str) -> None:
    series, tree = slurm
    tree.write("/etc/golden", golden(series, case))
    parsed = tree.run("SLURM_CONF=/etc/golden/slurm.conf scontrol show hostnames cn[01-02]")
    assert (parsed.returncode, parsed.stdout, parsed.stderr) == (0, "cn01\ncn02\n", "")


@pytest.mark.parametrize("case", STARTING)
def test_slurmctld_starts_with_the_golden_files_and_knows_every_node(slurm: tuple[str, SlurmTree], case: str) -> None:
    series, tree = slurm
    tree.write("/etc/golden", golden(series, case))
    started = tree.run(START)
    assert started.returncode == 0, started.stderr
    words = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in started.stdout.splitlines()]
    known = {(said["NodeName"], said["NodeAddr"], said["NodeHostName"]) for said in words}
    assert known == {(node.name, node.address, node.hostname) for node in CASES[case].nodes}
    assert "fatal" not in started.stderr


def test_slurmd_reads_the_golden_gres_conf(slurm: tuple[str, SlurmTree]) -> None:
    series, tree = slurm
    # slurmd looks for control groups even when it only prints, and this tree has none.
    files = render(replace(CASES["gpu"], version=series, cgroup=Cgroup("none")))
    assert files["gres.conf"] == golden(series, "gpu")["gres.conf"]
    if series == "22.05":  # 24.05 and later are told so by CgroupPlugin=disabled
        files["cgroup.conf"] = "CgroupPlugin=cgroup/v1\n"
    tree.write("/etc/golden", files)
    devices = (
        "mount -t tmpfs tmpfs /dev; mknod /dev/null c 1 3; for n in 0 1 2 3; do mknod /dev/nvidia$n c 195 $n; done"
    )
    read = tree.run(f"{MUNGED}; {devices}; slurmd -G -N fast01 -f /etc/golden/slurm.conf; cat /var/log/slurm/*")
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
    parse = 'SLURM_CONF=/etc/keys/$f scontrol show hostnames x 2>&1 | sed "s/^/$f: /"'
    tried = tree.run(f"cd /etc/keys; for f in *; do {parse}; done")
    unknown = {line.split(":")[0] for line in tried.stdout.splitlines() if "unrecognized key" in line}
    expected = {place for place, key in keys.items() if is_unknown(version, key)}
    assert unknown == expected


def test_slurmd_refuses_exactly_the_cgroup_keys_that_our_tables_say(slurm: tuple[str, SlurmTree]) -> None:
    series, tree = slurm
    version = SlurmVersion.parse(series)
    unknown = set()
    for key in CGROUP_CONF.values():
        tree.write("/etc/golden", {**golden(series, "plain"), "cgroup.conf": f"{key.name}=1\n"})
        tried = tree.run(f"{MUNGED}; timeout 5 slurmd -D -N cn01 -f /etc/golden/slurm.conf 2>&1")
        if "unrecognized key" in tried.stdout:
            unknown.add(key.name)
    assert unknown == {key.name for key in CGROUP_CONF.values() if is_unknown(version, key)}


def golden(series: str, case: str) -> dict[str, str]:
    """The golden files of a case, and the script that slurmctld runs where they say so."""
    files = {path.name: path.read_text() for path in (HERE / series / case).iterdir()}
    return {**files, SCRIPT: job_submit_script(CASES[case].cluster_name)}


def conf_with(place: str) -> str:
    """The smallest slurm.conf with one more key, which has no value: what matters is whether the key is known."""
    kind, key = place.split(".")
    lines = {"slurm": f"{key}=1\n", "node": f"NodeName=x {key}=1\n", "partition": f"PartitionName=x {key}=1\n"}
    return f"ClusterName=x\nSlurmctldHost=x\n{lines[kind]}"


def is_unknown(version: SlurmVersion, key: Key) -> bool:
    """Whether our tables say that this version does not know a key."""
    return not key.since <= (version.major, version.minor) < key.until
