"""A database on a server of somebody else's, and then on a host of its own, as the same database."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, ended
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

RIGHT, WRONG = "correct-horse", "battery-staple"
CONF = "/etc/slurm/slurmdbd.conf"
ON_RECORD = "sacct -X -n -P -j {} -o State"
OPEN = "/etc/mysql/mariadb.conf.d/99-open.cnf"
SERVER = f"""
# MariaDB hangs if it is stopped before it has started.
systemctl start mariadb
printf '[mariadbd]\\nbind-address = 0.0.0.0\\n' > {OPEN}
systemctl restart mariadb
mariadb <<'END'
CREATE DATABASE slurm_acct_db;
CREATE USER slurm@'%' IDENTIFIED BY '{RIGHT}';
GRANT ALL PRIVILEGES ON slurm_acct_db.* TO slurm@'%';
END
"""


@dataclass
class Elsewhere:
    """A cluster of ctl and n1, and a database server n2 that does not belong to it.

    Args:
        lab: the lab.
        text: the cluster file, without a database and without n2.
        secret: the file with the database's password.
    """

    lab: DeployedLab
    text: str
    secret: Path
    job: str = ""

    @property
    def address(self) -> str:
        return next(host.address for host in self.lab.lab.hosts if host.name == "n2")

    def knows(self, password: str, mode: int = 0o600) -> None:
        """Have the deployer know this password."""
        self.secret.write_text(password + "\n")
        self.secret.chmod(mode)

    def deploy(self, *words: str) -> subprocess.CompletedProcess[str]:
        external = f"{{host: ctl, external: {self.address}, password_file: {self.secret}}}"
        self.lab.inventory_path.write_text(f"{self.text}\ndatabase: {external}\n")
        return self.lab.slurmfab("deploy", *words)

    def on(self, script: str) -> str:
        return self.lab.on("ctl", script)


@pytest.fixture(scope="module", params=in_turn("database_elsewhere"))
def elsewhere(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Elsewhere]:
    with stock.installed(request.param, {"n2": ("mariadb-server",)}, nodes=2) as cluster:
        cluster.on("n2", SERVER)
        text = cluster.inventory_path.read_text().replace("hosts: n[1-2]", "hosts: n1")
        address = cluster.lab.host("n2").address
        yield Elsewhere(cluster, text.replace(f", n2: {address}", ""), cluster.inventory_path.parent / "password")


def no_slurm(elsewhere: Elsewhere) -> bool:
    """Whether nothing of Slurm is in force yet."""
    return elsewhere.on(f"ls /etc/slurm/slurm.conf {CONF} 2>/dev/null || :") == ""


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [(None, 0, "No such file"), ("", 0o600, "is empty"), (RIGHT, 0o644, "chmod 600"), ("two words", 0o600, "one word")],
)
def test_a_password_file_that_is_none_is_refused_before_any_host_is_asked(
    elsewhere: Elsewhere, text: str | None, mode: int, reason: str
) -> None:
    elsewhere.secret.unlink(missing_ok=True)
    if text is not None:
        elsewhere.knows(text, mode)
    done = elsewhere.deploy()
    assert done.returncode == 2
    assert reason in done.stderr
    assert "two words" not in done.stderr + done.stdout


def test_a_wrong_password_ends_the_run_before_anything_relies_on_it(elsewhere: Elsewhere) -> None:
    elsewhere.knows(WRONG)
    done = elsewhere.deploy()
    assert done.returncode == 1
    assert f"{elsewhere.address}:3306 refuses slurmdbd's login" in done.stderr
    assert "is the password in the password_file right" in done.stderr
    assert WRONG not in done.stderr + done.stdout
    assert no_slurm(elsewhere)


def test_a_server_that_is_down_ends_the_run_likewise(elsewhere: Elsewhere) -> None:
    elsewhere.lab.on("n2", "systemctl stop mariadb")
    elsewhere.knows(RIGHT)
    done = elsewhere.deploy()
    elsewhere.lab.on("n2", "systemctl start mariadb")
    assert done.returncode == 1
    assert "does the server run, and does it listen on that address and port?" in done.stderr
    assert no_slurm(elsewhere)


def test_with_the_right_password_jobs_are_on_record_and_no_server_was_installed(elsewhere: Elsewhere) -> None:
    done = elsewhere.deploy()
    assert done.returncode == 0, done.stderr
    elsewhere.job = elsewhere.on("cd /tmp && runuser -u slurm -- sbatch --parsable -o /dev/null --wrap true")
    elsewhere.lab.until("ctl", ON_RECORD.format(elsewhere.job), "COMPLETED")
    assert elsewhere.on("systemctl is-active mariadb || :") == "inactive"
    assert elsewhere.on(f"stat -c '%U:%G %a' {CONF}") == "slurm:slurm 600"
    assert elsewhere.lab.deploy()["steps"] == []


def test_another_password_shows_in_no_plan_and_no_record(elsewhere: Elsewhere) -> None:
    elsewhere.knows(WRONG)
    place = elsewhere.lab.inventory_path.parent
    elsewhere.lab.slurmfab("plan", "--save", str(place / "saved"))
    elsewhere.knows(RIGHT)
    elsewhere.on(f"sed -i s/{RIGHT}/older/ {CONF}")
    planned = elsewhere.lab.slurmfab("plan", "--save", str(place / "saved-too"), "--json", "-")
    assert "password: differs" in planned.stdout + planned.stderr or '"differs"' in planned.stdout
    done = elsewhere.deploy("--verbose")
    assert done.returncode == 0, done.stderr
    told = planned.stdout + planned.stderr + done.stdout + done.stderr
    assert not any(secret in told for secret in (RIGHT, WRONG))
    written = [path for path in place.rglob("*") if path.is_file() and path != elsewhere.secret]
    assert [path for path in written if any(secret in path.read_text() for secret in (RIGHT, WRONG))] == []


def test_a_password_that_is_wrong_from_now_on_leaves_slurmdbd_as_it_is(elsewhere: Elsewhere) -> None:
    process = "systemctl show -p MainPID --value slurmdbd"
    before = elsewhere.on(f"{process}; md5sum {CONF}")
    elsewhere.knows(WRONG)
    assert elsewhere.deploy().returncode == 1
    assert elsewhere.on(f"{process}; md5sum {CONF}") == before
    elsewhere.knows(RIGHT)


def test_another_database_is_refused_since_the_history_would_stay_behind(elsewhere: Elsewhere) -> None:
    before = elsewhere.on(f"md5sum {CONF} /etc/slurm/slurm.conf")
    elsewhere.lab.inventory_path.write_text(f"{elsewhere.text}\ndatabase: ctl\n")
    done = ended(elsewhere.lab.slurmfab("deploy"), 1)
    assert f"slurmdbd writes to slurm_acct_db at {elsewhere.address}:3306" in done.stderr
    assert elsewhere.on(f"md5sum {CONF} /etc/slurm/slurm.conf") == before


def test_slurmdbd_moves_to_a_host_of_its_own_when_that_is_allowed(elsewhere: Elsewhere) -> None:
    elsewhere.lab.on("n2", f"rm {OPEN}")
    text = elsewhere.text.replace("addresses: {", f"addresses: {{n2: {elsewhere.address}, ")
    elsewhere.lab.inventory_path.write_text(f"{text}\ndatabase: n2\n")
    refused = ended(elsewhere.lab.slurmfab("deploy"), 1)
    assert "--allow AccountingStorageHost" in refused.stderr
    elsewhere.lab.deploy("--allow", "AccountingStorageHost")
    elsewhere.lab.until("ctl", ON_RECORD.format(elsewhere.job), "COMPLETED")
    assert elsewhere.on("systemctl is-active slurmdbd || :") == "inactive"
    later = elsewhere.on("cd /tmp && runuser -u slurm -- sbatch --parsable -o /dev/null --wrap true")
    elsewhere.lab.until("ctl", ON_RECORD.format(later), "COMPLETED")
    assert elsewhere.lab.deploy()["steps"] == []


def test_a_host_of_its_own_that_is_down_stops_what_relies_on_it_and_nothing_else(elsewhere: Elsewhere) -> None:
    elsewhere.lab.on("n2", "systemctl stop ssh ssh.socket 2>/dev/null || systemctl stop ssh")
    text = elsewhere.lab.inventory_path.read_text()
    elsewhere.lab.inventory_path.write_text(f"{text}\nslurm_conf: {{SlurmdTimeout: 301}}\n")
    ended(elsewhere.lab.slurmfab("deploy"), 3)
    assert elsewhere.on("scontrol show config | awk '$1 == \"SlurmdTimeout\" {print $3}'") == "301"
    elsewhere.lab.inventory_path.write_text(f"{text}\nslurm_conf: {{AccountingStorageEnforce: limits}}\n")
    harmful = ended(elsewhere.lab.slurmfab("deploy"), 1)
    assert "n2 is the host of the accounting database" in harmful.stderr
    elsewhere.lab.on("n2", "systemctl start ssh")
    elsewhere.lab.inventory_path.write_text(text)
    elsewhere.lab.deploy()
