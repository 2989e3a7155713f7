"""The way back from an upgrade, by one command: packages, state and accounting of before.

On "trixie" alone, as in test_upgrade.py. The files are slurmfab's, so that the upgrade's last step changes them.
The backup is encrypted, so it takes its identity; on Enterprise Linux slurmfab encrypts none.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, DeployedLab, succeeded
from lab_user import PLATFORM
from stock import Stock
from suites import PACKAGES, SUITES

from slurmfab.cluster.slurm.platform import DNF
from slurmfab.lab import el_repository, slurm_repository

pytestmark = pytest.mark.lab

SOURCE = f"""\
database: ctl
slurm:
  packages: {PACKAGES}
  version: "24.11.*"
  source: {{uris: "file:/srv/newer-slurm", {"" if PLATFORM.manager == DNF else "suites: newer, "}key: key.asc}}
"""
ENCRYPTS = PLATFORM.manager != DNF
HISTORY = "sacct -anXP -o JobID,JobName,User,State,ExitCode,Submit,Start,End"
VERSIONS = "for one in slurmctld slurmd slurmdbd; do command -v $one >/dev/null && $one -V; done | sort -u"
RUNNING = "systemctl is-active slurmctld slurmdbd slurmd"
CONF = "cat /etc/slurm/slurm.conf"


@pytest.fixture(scope="module")
def hosts(stock: Stock) -> Iterator[DeployedLab]:
    if "trixie" not in SUITES:
        pytest.skip("the newer Slurm can be installed on trixie alone")
    with stock.copy("trixie", database=True, nodes=1, newer_slurm=True) as made:
        beside = made.inventory_path.parent
        shutil.copy(el_repository.newer_slurm(made.lab.spec, print) / slurm_repository.KEY, beside / "key.asc")
        without = re.sub("^slurm:.*\n", "", made.inventory_path.read_text(), flags=re.MULTILINE)
        made.inventory_path.write_text(without + SOURCE)
        made.deploy()
        yield made


@pytest.mark.skipif(shutil.which("age") is None, reason="there is no age on this machine")
def test_a_cluster_that_was_upgraded_goes_back_by_one_command_to_what_it_was(
    hosts: DeployedLab, tmp_path: Path
) -> None:
    identity = tmp_path / "identity"
    subprocess.run(["age-keygen", "-o", str(identity)], check=True, capture_output=True)
    words = ["age-keygen", "-y", str(identity)]
    public = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    with hosts.inventory_path.open("a") as cluster_file:
        to = f", encrypt_to: [{public}]" if ENCRYPTS else ""
        cluster_file.write(f"backup: {{directory: /srv/saved, when: '03:30'{to}}}\n")
    hosts.deploy()
    job = hosts.on("ctl", f"{AS_SLURM}sbatch --parsable --wrap hostname")
    hosts.until("ctl", f"sacct -nXP -j {job} -o State", "COMPLETED")
    file, conf, history = hosts.inventory_path.read_text(), hosts.on("n1", CONF), hosts.on("ctl", HISTORY)
    done = succeeded(hosts.slurmfab("upgrade", "--to", "26.05", "--yes"))
    assert "CommunicationParameters: (default) -> disable_http" in done.stdout
    assert "disable_http" in hosts.on("n1", CONF)
    (backup,) = (hosts.inventory_path.parent / f"{hosts.inventory_path.stem}.backups").glob("*.tar")
    later = hosts.on("ctl", f"{AS_SLURM}sbatch --parsable --wrap hostname")
    hosts.until("ctl", f"sacct -nXP -j {later} -o State", "COMPLETED")

    if ENCRYPTS:
        refused = hosts.slurmfab("upgrade", "--back", str(backup), "--yes")
        assert (refused.returncode, f"is encrypted to {public}" in " ".join(refused.stderr.split())) == (2, True)
    opened = ("--identity", str(identity)) if ENCRYPTS else ()
    succeeded(hosts.slurmfab("upgrade", "--back", str(backup), "--yes", *opened))
    assert all("24.11." in hosts.on(host, VERSIONS) for host in ("ctl", "n1"))
    assert "26.05" not in "".join(hosts.on(host, VERSIONS) for host in ("ctl", "n1"))
    assert hosts.on("ctl", RUNNING, check=False).splitlines()[:2] == ["active", "active"]
    assert (hosts.inventory_path.read_text(), hosts.on("n1", CONF)) == (file, conf)
    assert hosts.on("ctl", HISTORY) == history
    hosts.until("ctl", "sinfo -h -o '%D %t'", "1 idle", patience=120)
    # Job ids go on from the backup.
    assert hosts.on("ctl", f"{AS_SLURM}sbatch --parsable --wrap hostname") == str(int(job) + 1)
    told = succeeded(hosts.slurmfab("plan"))
    assert "under way" not in told.stderr
