"""The window in which slurmctld is stopped for new files: a run that ends in it, or cannot go on, leaves no hole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fingerprints import at_rest
from lab_cluster import AS_SLURM, DeployedLab
from lab_user import Person, words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

ALL = ("ctl", "n1", "n2")
GUARD = "systemctl is-active slurmfab-start-slurmctld || true"
STATE = "systemctl is-active slurmctld || true"
PROCESS = "systemctl show -p MainPID --value slurmctld"
PINGS = "scontrol ping | grep -c 'is UP'"

HELD = r"""
mv /usr/bin/scontrol /usr/bin/scontrol.own
printf '#!/bin/sh\nwhile [ ! -e /tmp/release ]; do sleep 0.1; done\nexec /usr/bin/scontrol.own "$@"\n' \
    >/usr/bin/scontrol
chmod 755 /usr/bin/scontrol; rm -f /tmp/release
"""
"""Holds a deployment up on a node when Slurm is to parse new files, until /tmp/release exists."""

KILLED = "systemctl kill --signal=KILL --kill-whom=main slurmctld"
FULL = """
cp -a /etc/slurm /root/slurm && mount -t tmpfs -o size=64k,mode=755 none /etc/slurm && cp -a /root/slurm/. /etc/slurm
systemctl restart slurmctld; head -c 1M /dev/zero >/etc/slurm/full 2>/dev/null || true
"""


@pytest.fixture(scope="module", params=in_turn("stopped_slurmctld"))
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A cluster in use."""
    with stock.copy(request.param, nodes=2) as made:
        made.deploy()
        made.until("ctl", "sinfo -h -t idle -o %D", "2")
        yield made


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person.at(tmp_path_factory.mktemp("guarded"))


def moved(hosts: DeployedLab, name: str) -> None:
    """Have the cluster file name another state directory, for which slurmctld has to stop."""
    lines = hosts.inventory_path.read_text().splitlines()
    lines = [line for line in lines if not line.startswith(("state_directory", "slurm_conf"))]
    hosts.inventory_path.write_text("\n".join([*lines, f"state_directory: /var/lib/slurm/{name}", ""]))


def test_a_deployer_that_is_killed_while_slurmctld_is_stopped_when_it_is_gone_then_slurmctld_starts_by_itself(
    hosts: DeployedLab, person: Person
) -> None:
    moved(hosts, "elsewhere")
    job = hosts.on("ctl", AS_SLURM + "sbatch --parsable -o /dev/null --wrap 'sleep 600'")
    hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    hosts.on("n1", HELD)
    process = person.start("deploy", "--cluster", str(hosts.inventory_path))
    try:
        hosts.until("ctl", f"{STATE}; {GUARD}", "inactive\nactive")
    finally:
        process.kill()
        process.communicate()
    # The other host is still at it: the guard waits for the run on its own host alone.
    hosts.until("ctl", PINGS, "1", 10)
    hosts.until("ctl", GUARD, "inactive", 10)
    assert hosts.on("ctl", "systemctl is-enabled slurmctld") == "enabled"
    assert hosts.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    hosts.on("n1", "touch /tmp/release")
    at_rest(hosts, *ALL)
    hosts.on("n1", "mv /usr/bin/scontrol.own /usr/bin/scontrol")
    hosts.deploy()
    assert hosts.on("ctl", f"squeue -h -j {job} -o %T; scancel {job}; {GUARD}") == "RUNNING\ninactive"
    assert "state_directory" in hosts.inventory_path.read_text()
    assert hosts.on("ctl", "grep -c /var/lib/slurm/elsewhere /etc/slurm/slurm.conf") == "1"


def test_a_controller_without_room_for_new_files_when_slurmctld_would_have_to_stop_then_it_does_not(
    hosts: DeployedLab,
) -> None:
    hosts.on("ctl", FULL)
    before = hosts.on("ctl", PROCESS)
    moved(hosts, "third")
    try:
        done = hosts.slurmfab("deploy")
        after = hosts.on("ctl", PROCESS)
    finally:
        hosts.on("ctl", "umount /etc/slurm")
    said = words_of(done)
    assert done.returncode == 1, said
    assert "No space left on device" in said
    assert "No file of Slurm was replaced, and slurmctld runs with the present ones." in " ".join(said.split())
    assert after == before != "0"
    hosts.deploy()


def test_slurmctld_that_crashes_while_its_state_cannot_be_read_when_that_is_mended_then_has_its_jobs(
    hosts: DeployedLab,
) -> None:
    state = hosts.on("ctl", "scontrol show config | awk '$1 == \"StateSaveLocation\" {print $3}'")
    job = hosts.on("ctl", AS_SLURM + "sbatch --parsable --hold -J kept-in-state -o /dev/null --wrap true")
    hosts.until("ctl", f"grep -aq kept-in-state {state}/job_state && echo saved", "saved")
    for closes, opens in (("chown root {0}/job_state", "chown slurm {0}/job_state"), ("chmod 0 {0}", "chmod 700 {0}")):
        hosts.on("ctl", f"{closes.format(state)}; {KILLED}")
        hosts.until("ctl", f"systemctl show -p NRestarts --value slurmctld | grep -c '[1-9]'; {PINGS}", "1\n0")
        said = words_of(hosts.slurmfab("check-cluster", "--only", "slurmctld_runs"))
        assert "slurmctld.service is" in said, said
        hosts.on("ctl", f"{opens.format(state)}; chmod 600 {state}/job_state")
        hosts.until("ctl", PINGS, "1", 30)
        assert hosts.on("ctl", f"squeue -h -j {job} -o %T") == "PENDING"
    hosts.on("ctl", f"scancel {job}")
