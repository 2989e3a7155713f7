"""What goes wrong in an upgrade of Slurm: a disk that fills in the conversion, a node that dies while it is exchanged.

On "trixie" alone, as in test_upgrade.py. Each time the same command goes on when the cause is gone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, eventually
from stock import Stock
from suites import PACKAGES, SUITES
from test_upgrade import CONVERTING, HOLD_CONVERSION, RELEASE, SOURCE, VERSIONS, start

from slurmfab import lab
from slurmfab.lab import slurm_repository

pytestmark = pytest.mark.lab

SMALL_DISK = """\
set -e
systemctl stop slurmdbd mariadb
cp -a /var/lib/mysql /root/mysql
mount -t tmpfs -o size=$(($(du -sm --apparent-size /root/mysql | cut -f1) + 900))M tmpfs /var/lib/mysql
cp -a /root/mysql/. /var/lib/mysql/
chown --reference=/root/mysql /var/lib/mysql; chmod --reference=/root/mysql /var/lib/mysql
systemctl start mariadb slurmdbd
"""
FULL = "cat /dev/zero >/var/lib/mysql/filled 2>/dev/null; df --output=avail /var/lib/mysql | tail -n 1"
HISTORY = "sacct -anXP -o JobID,JobName,User,State,ExitCode,Submit,Start,End"
PATIENCE = 240


@pytest.fixture(scope="module")
def hosts(stock: Stock) -> Iterator[DeployedLab]:
    if "trixie" not in SUITES or PACKAGES != "debian":
        pytest.skip("the newer Slurm can be installed on trixie alone")
    with stock.copy("trixie", database=True, nodes=2, newer_slurm=True) as made:
        beside = made.inventory_path.parent
        shutil.copy(slurm_repository.ensure("trixie", print) / slurm_repository.KEY, beside / "key.asc")
        without = re.sub("^slurm:.*\n", "", made.inventory_path.read_text(), flags=re.MULTILINE)
        made.inventory_path.write_text(f"{without}database: ctl\n{SOURCE}")
        made.deploy()
        made.on("ctl", SMALL_DISK)
        job = made.on("ctl", f"{AS_SLURM}sbatch --parsable --wrap hostname")
        made.until("ctl", f"sacct -nXP -j {job} -o State", "COMPLETED")
        yield made


def ended(process: subprocess.Popen[bytes], log: Path) -> str:
    """What a run has printed that has failed, in one line."""
    assert process.wait(PATIENCE) == 1, log.read_text()
    return " ".join(log.read_text().split())


def until(process: subprocess.Popen[bytes], log: Path, is_there: Callable[[], bool]) -> None:
    """Wait for something while a run goes on."""

    def found() -> bool:
        assert process.poll() is None, log.read_text()
        return is_there()

    eventually(found, log.read_text, PATIENCE)


def test_a_conversion_when_its_disk_fills_then_ends_with_that_and_the_same_command_goes_on_when_there_is_room(
    hosts: DeployedLab, tmp_path: Path
) -> None:
    log, history = tmp_path / "log", hosts.on("ctl", HISTORY)
    hosts.on("ctl", HOLD_CONVERSION)
    process = start(hosts, log)
    until(process, log, lambda: hosts.on("ctl", CONVERTING, check=False) == "1")
    # Before that, the run looks whether slurmdbd stays up at all.
    until(process, log, lambda: re.search(r"^slurmdbd +ctl +1 changed", log.read_text(), re.MULTILINE) is not None)
    assert hosts.on("ctl", FULL) == "0"
    hosts.on("ctl", RELEASE)
    said = ended(process, log)
    assert re.search(
        r"slurmdbd ended while it converted its database: .*/var/lib/mysql is full \(\d+ KiB left\)", said
    ), said
    assert "Repair what it says, then run the same command again, which goes on." in said
    assert "24.11" in hosts.on("n1", VERSIONS)
    hosts.on("ctl", "rm /var/lib/mysql/filled; systemctl restart mariadb")
    process = start(hosts, log)
    # apt asks dpkg while it is planned, too.
    until(process, log, lambda: "answers and knows all jobs" in log.read_text())
    until(process, log, lambda: hosts.on("n1", "pgrep -x dpkg", check=False) != "")
    assert hosts.on("ctl", HISTORY) == history
    # The second test goes on from here: n1 is being exchanged.
    lab.kill_host(hosts.lab, "n1")
    said = ended(process, log)
    assert "n1 did not come back" in said, said
    assert "n2 stay as they are" in said, said


def test_a_node_when_it_dies_while_it_is_exchanged_then_the_same_command_completes_it(
    hosts: DeployedLab, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    assert "24.11" in hosts.on("n2", VERSIONS)
    lab.start_host(hosts.lab, "n1")
    hosts.until("n1", "systemctl is-active ssh", "active", PATIENCE)
    process = start(hosts, log)
    assert process.wait(PATIENCE) == 0, log.read_text()
    assert "Slurm 26.05 runs on all hosts." in log.read_text()
    assert all("26.05" in hosts.on(host, VERSIONS) for host in ("ctl", "n1", "n2"))
    assert hosts.on("n1", "dpkg --audit") == ""
