"""A database that joins a cluster at work, on the controller: what it is, what heals it, and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import PLATFORM
from stock import Stock, in_turn

from slurmfab.cluster.slurm.accounting import buffer_pool, redo_log

pytestmark = pytest.mark.lab

CONF = "/etc/slurm/slurmdbd.conf"
PASSWORD = f"sed -n 's/^StoragePass=//p' {CONF}"
ACCESS = f"stat -c '%U:%G %a' {CONF}"
STATE = "scontrol -o show job {} | grep -oE ' (JobState|StartTime|Restarts)=[^ ]+' | paste -sd ''"
ON_RECORD = "sacct -X -n -P -j {} -o State,ExitCode"
ANSWERS = "sacctmgr -nP show cluster format=cluster"
SAYS = 'mariadb -Ne "SELECT @@{}"'
WRONG = f"{PLATFORM.database.settings}/99-wrong.cnf"
DATABASE = "\ndatabase: ctl\n"
CLUSTER_ID = """mariadb slurm_acct_db -Ne 'SELECT id FROM cluster_table' 2>/dev/null"""
LOSE = "systemctl stop slurmdbd && mariadb -e 'DROP DATABASE slurm_acct_db'"
BREAKAGES = {
    "MariaDB is stopped": ("systemctl stop mariadb", {"service:mariadb"}),
    "slurmdbd is killed": ("systemctl kill -s KILL slurmdbd", {"service:slurmdbd"}),
    "everybody may read the password": (f"chmod 644 {CONF}", {f"slurmdbd-conf:{CONF}", "service:slurmdbd"}),
    "slurmdbd.conf is gone": (
        f"rm {CONF}",
        {f"slurmdbd-conf:{CONF}", "storage:slurm_acct_db of slurm", "service:slurmdbd"},
    ),
    "the database has another password": (
        "mariadb -e \"ALTER USER slurm@localhost IDENTIFIED BY 'another'\"",
        {"storage:slurm_acct_db of slurm"},
    ),
    "the user is gone": ('mariadb -e "DROP USER slurm@localhost"', {"storage:slurm_acct_db of slurm"}),
    "MariaDB's settings were edited": (
        f"sed -i 's/= 900/= 50/' {PLATFORM.database_settings}",
        {f"file:{PLATFORM.database_settings}", "service:mariadb"},
    ),
}


ROTATED = (
    "mv /var/log/slurm/{0}.log /var/log/slurm/{0}.log.1 && "
    "sed -n '/postrotate/,/endscript/p' /etc/logrotate.d/{1} | sed '1d;$d' | sh -e"
)
"""What logrotate does, without its sizes."""
WRITES_TO = "ls -l /proc/$(pidof {0})/fd | grep -o '/var/log/slurm/{0}.log.*'"


@dataclass
class Joined:
    """A cluster that got its database while a job ran.

    Args:
        lab: the lab.
        text: its cluster file without the database.
        job: the number of a job that runs through all tests.
        begun: its state and start before there was a database.
        told: the report of the run that brought the database.
        shown: what the plan of that showed.
    """

    lab: DeployedLab
    text: str
    job: str
    begun: str
    told: dict[str, Any]
    shown: str

    def on(self, script: str) -> str:
        return self.lab.on("ctl", script)


@pytest.fixture(scope="module", params=in_turn("database"))
def joined(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Joined]:
    with stock.copy(request.param, nodes=1) as lab:
        lab.deploy()
        submit = "cd /tmp && runuser -u slurm -- sbatch --parsable -o /dev/null --mem=50 --wrap 'sleep 3600'"
        job = lab.on("ctl", submit)
        lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
        begun = lab.on("ctl", STATE.format(job))
        text = lab.inventory_path.read_text()
        lab.inventory_path.write_text(text + DATABASE)
        shown = lab.slurmfab("plan").stdout
        yield Joined(lab, text, job, begun, lab.deploy("--verbose"), shown)


def changed(report: dict[str, Any]) -> set[str]:
    """The ids of the resources that a run has changed."""
    outcomes = (outcome for step in report["steps"] for outcome in step["outcomes"])
    return {outcome["id"] for outcome in outcomes if outcome["status"] == "changed"}


def ran(joined: Joined, script: str) -> str:
    """A job that runs to its end; its number."""
    number = joined.on(f"cd /tmp && runuser -u slurm -- sbatch --parsable -o /dev/null --wrap '{script}'").split(";")[0]
    # `sbatch --wait` looks only every ten seconds.
    joined.lab.until("ctl", f"squeue --noheader --jobs {number}", "")
    return number


def test_a_plan_shows_the_database_and_no_password(joined: Joined) -> None:
    assert "AccountingStorageType: (default) -> accounting_storage/slurmdbd" in joined.shown
    assert "innodb_buffer_pool_size = " in joined.shown
    assert "StoragePass=(hidden)" in joined.shown


def test_a_database_that_joins_a_running_cluster_leaves_its_jobs_alone(joined: Joined) -> None:
    assert joined.on(STATE.format(joined.job)) == joined.begun
    assert joined.told["jobs"] is not None
    joined.lab.until("ctl", ON_RECORD.format(joined.job), "RUNNING|0:0")


def test_a_second_deployment_changes_nothing(joined: Joined) -> None:
    assert joined.lab.deploy()["steps"] == []


def test_jobs_that_have_ended_are_on_record(joined: Joined) -> None:
    good, bad = ran(joined, "true"), ran(joined, "exit 3")
    joined.lab.until("ctl", ON_RECORD.format(good), "COMPLETED|0:0")
    joined.lab.until("ctl", ON_RECORD.format(bad), "FAILED|3:0")


def test_mariadb_works_with_the_settings_for_this_host(joined: Joined) -> None:
    memory = int(joined.on("awk '$1 == \"MemTotal:\" {print int($2 / 1024)}' /proc/meminfo"))
    pool = buffer_pool(memory, ("controller", "database"))
    assert int(joined.on(SAYS.format("innodb_buffer_pool_size"))) == pool * 1024 * 1024
    assert int(joined.on(SAYS.format("innodb_log_file_size"))) == redo_log(pool) * 1024 * 1024
    assert joined.on(SAYS.format("innodb_lock_wait_timeout")) == "900"
    assert int(joined.on(SAYS.format("max_allowed_packet"))) >= 16 * 1024 * 1024
    assert joined.on(SAYS.format("innodb_snapshot_isolation")) == "0"


def test_slurmdbd_has_nothing_to_say_against_the_settings(joined: Joined) -> None:
    said = joined.on("grep -i 'not recommended' /var/log/slurm/slurmdbd.log || :")
    small = int(joined.on(SAYS.format("innodb_buffer_pool_size"))) < 2 * 1024**3
    assert not said or (small and "innodb_buffer_pool_size" in said)


def test_the_database_is_reached_from_its_own_host_alone(joined: Joined) -> None:
    listening = joined.on("ss -Hltn 'sport = :3306' | awk '{print $4}'")
    assert listening == "127.0.0.1:3306"


def test_the_password_is_in_slurmdbd_conf_and_nowhere_else(joined: Joined) -> None:
    lab, password = joined.lab, joined.on(PASSWORD)
    assert re.fullmatch("[0-9a-f]{64}", password)
    assert joined.on(ACCESS) == "slurm:slurm 600"
    place = lab.inventory_path.parent
    written = [path for path in place.rglob("*") if path.is_file() and password in path.read_text(errors="replace")]
    assert written == []
    assert password not in joined.shown + str(joined.told)
    assert lab.on("n1", "ls /etc/slurm/slurmdbd.conf 2>/dev/null || :") == ""
    # The pattern comes by standard input, or every search would find its own command line.
    search = (
        f"head -c 64 <<< $({PASSWORD}) > /run/pattern; chmod 600 /run/pattern; "
        "{ grep -rlFf /run/pattern /etc /var/log /var/lib/slurm /var/lib/slurmfab /root /tmp /home 2>/dev/null; "
        "journalctl --no-pager -q | grep -cFf /run/pattern | grep -v '^0$'; "
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -acFf /run/pattern | grep -v '^0$'; }; "
        "rm /run/pattern"
    )
    assert joined.on(f"bash -c {quoted(search)}") == CONF


def quoted(script: str) -> str:
    """A script as one word of sh."""
    return "'" + script.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("name", BREAKAGES)
def test_what_is_broken_is_shown_and_healed_and_then_nothing_is_left_to_do(joined: Joined, name: str) -> None:
    script, expected = BREAKAGES[name]
    joined.on(script)
    joined.lab.until("ctl", "systemctl is-active slurmdbd | grep -c deactivating || :", "0")
    ended(joined.lab.slurmfab("plan", "--json", "-"), 4)
    found = changed(joined.lab.deploy())
    assert expected <= found <= expected | {"listening:slurmdbd:6819", f"accounts:{joined.lab.lab.name}"}
    assert joined.lab.deploy()["steps"] == []
    assert joined.on(ANSWERS) == joined.lab.lab.name
    assert joined.on(STATE.format(joined.job)) == joined.begun


def test_slurmdbd_outlives_a_restart_of_mariadb(joined: Joined) -> None:
    process = "systemctl show -p MainPID --value slurmdbd"
    before = joined.on(process)
    joined.on("systemctl restart mariadb")
    number = ran(joined, "true")
    joined.lab.until("ctl", ON_RECORD.format(number), "COMPLETED|0:0")
    assert joined.on(process) == before


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmdbd"])
def test_logs_of_daemons_of_slurm_when_rotated_then_are_opened_anew(joined: Joined, daemon: str) -> None:
    before = joined.on(f"pidof {daemon}")
    joined.on(ROTATED.format(daemon, daemon if PLATFORM.rotates_logs else "slurmfab-slurm"))
    joined.lab.until("ctl", WRITES_TO.format(daemon), f"/var/log/slurm/{daemon}.log")
    assert joined.on(f"pidof {daemon}") == before


def test_what_ends_while_the_database_is_away_is_on_record_later(joined: Joined) -> None:
    joined.on("systemctl stop slurmdbd mariadb")
    number = ran(joined, "true")
    joined.lab.deploy()
    joined.lab.until("ctl", ON_RECORD.format(number), "COMPLETED|0:0")


def test_a_database_that_does_not_start_ends_the_run_with_its_last_words(joined: Joined) -> None:
    joined.on(f"printf '[mariadbd]\\nno_such_setting = 1\\n' > {WRONG}; systemctl stop mariadb")
    done = ended(joined.lab.slurmfab("deploy"), 1)
    assert "service:mariadb" in done.stderr
    assert "no_such_setting" in done.stderr
    joined.on(f"rm {WRONG}")
    joined.lab.deploy()
    assert joined.on(ANSWERS) == joined.lab.lab.name


@pytest.mark.parametrize("restarted", [False, True], ids=["slurmctld ran on", "slurmctld was restarted"])
def test_a_lost_database_when_deployed_anew_then_jobs_come_on_record_and_slurmctld_starts_again(
    joined: Joined, restarted: bool
) -> None:
    lab = joined.lab
    joined.on(LOSE)
    if restarted:  # slurmdbd makes the database anew by itself, and slurmctld fails on 24.11
        joined.on("systemctl start slurmdbd")
        lab.until("ctl", f"{ANSWERS} >/dev/null 2>&1; echo $?", "0")
        joined.on(f"sacctmgr -i add cluster {lab.lab.name} >/dev/null; systemctl restart slurmctld || :")
    found = changed(lab.deploy())
    assert f"registration:{lab.lab.name}" in found or restarted
    assert lab.deploy()["steps"] == []
    _, _, number = joined.on("cat /var/lib/slurm/slurmctld/clustername").partition("|")
    assert not number or joined.on(CLUSTER_ID) == number
    assert [one["name"] for one in lab.checks("accounting") if one["outcome"] == "failed"] == []
    joined.on("systemctl restart slurmctld")
    lab.until("ctl", "scontrol ping | grep -c UP", "1")
    good = ran(joined, "true")
    lab.until("ctl", ON_RECORD.format(good), "COMPLETED|0:0")
    assert joined.on(STATE.format(joined.job)) == joined.begun


def test_a_former_database_when_loaded_again_then_plan_and_checks_name_the_other_id_and_deploy_mends_it(
    joined: Joined,
) -> None:
    if not joined.on("cat /var/lib/slurm/slurmctld/clustername").partition("|")[2]:
        pytest.skip("Slurm before 24.11 has no cluster IDs.")
    joined.on("mariadb slurm_acct_db -e 'UPDATE cluster_table SET id = id + 1'")
    failed = [one["cause"] for one in joined.lab.checks("accounting") if one["outcome"] == "failed"]
    assert len(failed) == 1, failed
    assert "would end with CLUSTER ID MISMATCH" in failed[0]
    assert changed(joined.lab.deploy()) == {f"cluster-id:{joined.lab.lab.name}"}
    joined.on("systemctl restart slurmctld")
    joined.lab.until("ctl", "scontrol ping | grep -c UP", "1")


def test_the_run_that_brought_the_database_is_undone_and_brought_again_with_all_history(joined: Joined) -> None:
    number = ran(joined, "true")
    joined.lab.until("ctl", ON_RECORD.format(number), "COMPLETED|0:0")
    runs = sorted(path.stem for path in joined.lab.inventory_path.with_suffix(".runs").glob("*.json"))
    succeeded(joined.lab.slurmfab("rollback", "--run", runs[1]))
    assert joined.lab.inventory_path.read_text() == joined.text
    assert joined.on("grep -c AccountingStorage /etc/slurm/slurm.conf || :") == "0"
    assert joined.on("systemctl is-active slurmdbd mariadb || :") == "inactive\ninactive"
    assert joined.on(f"ls {CONF} 2>/dev/null || :") == ""
    assert joined.on("test -d /var/lib/mysql/slurm_acct_db && echo there") == "there"
    assert joined.on(STATE.format(joined.job)) == joined.begun
    assert joined.lab.slurmfab("plan").returncode == 0
    joined.lab.inventory_path.write_text(joined.text + DATABASE)
    joined.lab.deploy()
    joined.lab.until("ctl", ON_RECORD.format(number), "COMPLETED|0:0")
    assert joined.on(STATE.format(joined.job)) == joined.begun
    assert joined.lab.deploy()["steps"] == []
