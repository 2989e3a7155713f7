"""Hosts brought up to date from a package source of their own: with a job, drained nodes, failures, kills, a reboot.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, ended, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2", "n3")
REPOSITORY = """\
set -e
mkdir -p /srv/repository && cd /srv/repository && rm -f *
pack() {{
    tree=$(mktemp -d) && mkdir -p $tree/DEBIAN $tree/usr/lib
    printf 'Package: %s\\nVersion: %s\\nArchitecture: all\\nMaintainer: Us <us@example.org>\\nDescription: x\\n' $1 $2 \
        > $tree/DEBIAN/control
    if [ $1 = tick ]; then
        cp "$(readlink -f /lib/*-linux-gnu/libdl.so.2)" $tree/usr/lib/libtick.so
        printf '#!/bin/sh\\n[ ! -e /etc/broken ]\\n' > $tree/DEBIAN/postinst && chmod 755 $tree/DEBIAN/postinst
    fi
    chmod 755 $tree && dpkg-deb --root-owner-group -Znone --build $tree $1.deb >/dev/null
    (dpkg-deb -f $1.deb; echo "Filename: ./$1.deb"; echo "Size: $(stat -c %s $1.deb)"
     echo "SHA256: $(sha256sum $1.deb | cut -d' ' -f1)"; echo) >> Packages
}}
pack tick {0}
pack slurmd 99.0
rm -f /etc/apt/sources.list.d/* && echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/own.list
apt-get -qq update
"""
"""A package source with a package that has a library, and a Slurm that nobody may install."""

PRELOAD = """\
apt-get -qq -y install tick >/dev/null
mkdir -p /etc/systemd/system/munge.service.d
printf '[Service]\\nEnvironment=LD_PRELOAD=/usr/lib/libtick.so\\n' > /etc/systemd/system/munge.service.d/own.conf
systemctl daemon-reload && systemctl restart munge
"""
"""Has munge use the library."""

VERSION = "dpkg-query -W -f '${Version} ${Status}' tick"
OLD, NEW = "1.0 install ok installed", "1.1 install ok installed"
LEAVE = "/var/tmp/the-job-may-end"
JOB = f"until [ -e {LEAVE} ]; do sleep 0.2; done; rm {LEAVE}"
BOOTED = 'date -d "$(uptime -s)" +%s'


@pytest.fixture(scope="module", params=in_turn("update"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A deployed cluster whose hosts have a newer `tick` to install, and `munge` in need of a restart after it."""
    with stock.copy(request.param, nodes=3) as made:
        made.deploy()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda host: made.on(host, REPOSITORY.format("1.0") + PRELOAD), HOSTS))
            list(pool.map(lambda host: made.on(host, REPOSITORY.format("1.1")), HOSTS))
        made.until("ctl", "sinfo -h -o '%D %t'", "3 idle")
        yield made


def state(cluster: DeployedLab, node: str) -> str:
    """What sinfo says of a node: short state and reason."""
    return cluster.on("ctl", f"sinfo -h -p main -N -n {node} -o '%t|%E'")


def begun(cluster: DeployedLab) -> subprocess.Popen[str]:
    """An update of one host at a time."""
    words = [*PROGRAM, "update", "--at-once", "1", "--yes", "--cluster", str(cluster.inventory_path)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_plan_tells_what_is_updated_and_what_is_not(cluster: DeployedLab) -> None:
    cluster.on("ctl", "scontrol update NodeName=n2 State=DRAIN Reason='loose cable'")
    done = ended(cluster.slurmfab("update", "--plan", "--json", "-"), 4)
    told: dict[str, Any] = json.loads(done.stdout)
    found = {host: group for group in told["groups"] for host in group["hosts"]}
    assert [found[host]["packages"] for host in HOSTS] == [
        [{"name": "tick", "installed": "1.0", "candidate": "1.1", "security": False}]
    ] * 4
    assert [(one["name"], one["candidate"], one["why"]) for one in found["n1"]["kept"]] == [("slurmd", "99.0", "slurm")]
    assert found["ctl"]["kept"] == []
    assert all(group["reboot"] == [] for group in told["groups"])
    only = cluster.slurmfab("update", "--plan", "--security")
    assert (only.returncode, "nothing to do on any of 4 hosts" in only.stdout) == (0, True), only.stdout
    assert [cluster.on(host, VERSION) for host in HOSTS] == [OLD] * 4


def test_a_run_that_is_killed_while_it_waits_for_a_job_is_continued_and_stops_at_a_node_that_fails(
    cluster: DeployedLab,
) -> None:
    job = cluster.on("ctl", AS_SLURM + f"sbatch --parsable -w n1 -o /dev/null --wrap '{JOB}'")
    cluster.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    with begun(cluster) as first:
        cluster.until("ctl", "sinfo -h -p main -N -n n1 -o %t", "drng")
        assert first.poll() is None
        first.send_signal(signal.SIGKILL)
    assert cluster.on("n1", VERSION) == OLD
    assert state(cluster, "n1").startswith("drng|slurmfab: drained for a system update (")

    cluster.on("n3", "touch /etc/broken")
    munged = cluster.on("n1", "systemctl show -P MainPID munge")
    slurmd = cluster.on("n1", "dpkg-query -W -f '${Version}' slurmd")
    with begun(cluster) as second:
        assert second.stderr is not None
        said = ""
        while f"Waiting for {job} (slurm) on n1." not in said:
            line = second.stderr.readline()
            assert line, said
            said += line
        cluster.on("n1", f"touch {LEAVE}")
        _, rest = second.communicate(timeout=300)
    assert second.returncode == 1, said + rest
    assert "Stopped at n3. Not begun: ctl." in rest
    assert "tick" in rest
    assert [cluster.on(host, VERSION, check=False) for host in HOSTS][:3] == [OLD, NEW, NEW]
    assert cluster.on("n1", "systemctl show -P MainPID munge") != munged
    assert cluster.on("n1", "dpkg-query -W -f '${Version}' slurmd") == slurmd
    assert state(cluster, "n1").startswith("idle|")
    assert state(cluster, "n2") == "drain|loose cable"
    assert state(cluster, "n3").startswith("drain|slurmfab: drained for a system update (")


def test_the_same_command_goes_on_when_the_cause_is_gone(cluster: DeployedLab) -> None:
    cluster.on("n3", "rm /etc/broken")
    ids = cluster.on("ctl", "systemctl show -P MainPID slurmctld")
    succeeded(cluster.slurmfab("update", "--yes"))
    assert [cluster.on(host, VERSION) for host in HOSTS] == [NEW] * 4
    assert [state(cluster, node).split("|")[0] for node in ("n1", "n2", "n3")] == ["idle", "drain", "idle"]
    assert cluster.on("ctl", "systemctl show -P MainPID slurmctld") == ids
    assert cluster.on("ctl", AS_SLURM + "srun -w n1,n3 -N2 hostname | sort").split() == ["n1", "n3"]
    assert cluster.slurmfab("update", "--plan").returncode == 0


def test_a_node_that_needs_it_is_rebooted_where_that_is_wanted(cluster: DeployedLab) -> None:
    cluster.on("n1", "touch /run/reboot-required; echo linux-image-9 > /run/reboot-required.pkgs")
    before = {node: int(cluster.on(node, BOOTED)) for node in ("n1", "n3")}
    plain = cluster.slurmfab("update", "--plan")
    assert (plain.returncode, "needs a reboot (--reboot): linux-image-9 asks for it" in plain.stdout) == (0, True)
    succeeded(cluster.slurmfab("update", "--reboot", "--yes"))
    after = {node: int(cluster.on(node, BOOTED)) for node in ("n1", "n3")}
    assert (after["n1"] > before["n1"], abs(after["n3"] - before["n3"]) <= 1) == (True, True)
    assert [state(cluster, node).split("|")[0] for node in ("n1", "n2")] == ["idle", "drain"]
