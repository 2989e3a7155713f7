"""A cluster that is saved while it works, loses its controller for good, and goes on where it was on a new one."""

from __future__ import annotations

import base64
import gzip
import io
import json
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pytest
from lab_cluster import PROGRAM, DeployedLab, ended, program, succeeded
from lab_user import words_of
from stock import Stock, in_turn

import slurmfab.on_hosts.agent
from slurmfab import lab
from slurmfab.base.signatures import NAMESPACES
from slurmfab.commands.backup import archive
from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, DATABASE, MANIFEST, Archive

pytestmark = pytest.mark.lab

PIDS = "systemctl show --property=MainPID --value {}"
RECORD = "sacct --noheader --allocations --parsable2 --format=JobID,State --jobs={}"
UNTIL_TOLD = "runuser -u slurm -- sbatch --parsable -o /dev/null --wrap 'until [ -e /tmp/end-{} ]; do sleep 0.1; done'"
OF_THE_NODE = (
    "systemctl show --property=MainPID slurmd munge; "
    "stat --format='%n %Z' /etc/slurm/*.conf /etc/munge/munge.key; pgrep -fx 'slurmstepd: .*batch.*'"
)
"""What of a compute node has to stay as it is: its daemons, their files, and the jobs' own processes."""

MODES = "find /var/lib/slurm/slurmctld -mindepth 1 ! -name clustername -perm /077"
CLOSED = "stat --format='%a %U' /var/lib/slurm/slurmctld"
STRANGERS = "find /var/lib/slurm/slurmctld ! -user slurm"
STAGING = "ls /var/lib/slurmfab | grep restoring"


@dataclass
class Story:
    """A cluster with accounting that has had three jobs, runs one, and keeps one pending.

    Args:
        hosts: the lab.
        place: an empty directory, for somebody who has nothing but the archive.
        done: numbers of the jobs that have ended.
        running: of the one that runs.
        pending: of the one that is held.
        mark: what tells the cluster from others of its name.
    """

    hosts: DeployedLab
    place: Path
    done: tuple[str, ...] = ()
    running: str = ""
    pending: str = ""
    mark: str = ""
    without_jobs: subprocess.CompletedProcess[str] | None = None

    def on(self, host: str, script: str) -> str:
        return self.hosts.on(host, script, check=False)

    def submit(self, script: str) -> str:
        return self.hosts.on("ctl", f"cd /tmp && {script}")

    def slurmfab(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run slurmfab with the lab's cluster file."""
        return self.hosts.slurmfab(*words)

    @property
    def backups(self) -> Path:
        return archive.directory(self.hosts.inventory_path)

    @property
    def newest(self) -> Path:
        return archive.all_in(self.backups)[-1]

    def elsewhere(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run slurmfab in the empty directory."""
        return program(*words, cwd=self.place)

    @property
    def cluster_file(self) -> Path:
        return self.place / "configs/cluster.yaml"


@pytest.fixture(scope="module", params=in_turn("backup"))
def story(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with stock.copy(request.param, database=True, nodes=1) as hosts:
        with hosts.inventory_path.open("a") as file:
            file.write("database: ctl\n")
        hosts.deploy()
        told = Story(hosts, tmp_path_factory.mktemp("elsewhere"))
        hosts.on("ctl", "systemctl restart slurmctld")
        told.without_jobs = told.slurmfab("backup")
        told.done = tuple(
            told.submit("runuser -u slurm -- sbatch --parsable -o /dev/null --wrap true") for _ in range(3)
        )
        told.running = told.submit(UNTIL_TOLD.format("first"))
        told.pending = told.submit("runuser -u slurm -- sbatch --parsable --hold -o /dev/null --wrap true")
        hosts.until("ctl", RECORD.format(",".join(told.done)), "\n".join(f"{job}|COMPLETED" for job in told.done))
        hosts.until("ctl", f"squeue -h -j {told.running} -o %T", "RUNNING")
        told.mark = hosts.on("ctl", "cat /var/lib/slurm/slurmctld/clustername")
        yield told


def test_a_backup_of_a_restarted_slurmctld_without_jobs_is_made(story: Story) -> None:
    assert story.without_jobs
    assert story.without_jobs.returncode == 0, words_of(story.without_jobs)
    story.newest.unlink()


def test_a_backup_when_it_is_made_then_it_is_private_and_whole_and_the_daemons_and_jobs_go_on(story: Story) -> None:
    daemons = PIDS.format("slurmctld slurmdbd mariadb")
    before = story.on("ctl", daemons)
    done = succeeded(story.slurmfab("backup"))
    assert f"the last job is {story.pending}, 2 not ended" in done.stdout
    assert f"fab restore {story.newest}" in done.stdout
    assert story.on("ctl", daemons) == before
    assert story.on("ctl", f"squeue -h -j {story.running} -o %T") == "RUNNING"
    assert stat.S_IMODE(story.newest.stat().st_mode) == 0o600
    assert stat.S_IMODE(story.backups.stat().st_mode) == 0o700
    saved = archive.verified(story.newest)
    assert saved.jobs == {int(story.running), int(story.pending)}
    assert set(saved.parts) == {
        "cluster.yaml", "cluster.lock.json", "munge.key", "etc-slurm.tar.gz", "state.tar.gz", "database.sql.gz",
    }  # fmt: skip


def test_two_backups_when_they_are_made_at_once_then_both_are_whole(story: Story, tmp_path: Path) -> None:
    words = [*PROGRAM, "backup", "--to", f"{tmp_path}/", "--cluster", str(story.hosts.inventory_path)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
    outputs = [one.communicate(timeout=60)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], outputs
    assert len([archive.verified(path) for path in archive.all_in(tmp_path)]) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_a_backup_when_the_database_is_down_then_it_says_so_and_nothing_is_left_of_it(story: Story) -> None:
    before = sorted(story.backups.iterdir())
    story.on("ctl", "systemctl stop mariadb")
    try:
        refused = story.slurmfab("backup")
    finally:
        story.hosts.on("ctl", "systemctl start mariadb")
    assert refused.returncode == 1
    assert "mariadb-dump ended with exit code" in words_of(refused)
    assert sorted(story.backups.iterdir()) == before


AGENT_WITH_DUMPS = """
import gzip, hashlib, json, sys
sys.path.insert(0, "/root/agent")
from slurmfab.on_hosts.agent.backup.restored_database import RestoredDatabase
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
said = {}
for name, text in json.load(sys.stdin).items():
    data = gzip.compress(("create table t (a text);\\n%s\\n-- slurmfab: the end\\n" % text).encode())
    with open("/root/dump.gz", "wb") as file:
        file.write(data)
    try:
        wanted = RestoredDatabase("slurm_acct_db", "/root/dump.gz", hashlib.sha256(data).hexdigest())
        wanted.converge(Context(), frozenset())
    except ResourceFailed as error:
        said[name] = str(error)
print(json.dumps(said))
"""
"""Restores each of several dumps with the agent's own code, and prints why each was refused."""

ATTACKS = {
    "a shell": "\\! touch /tmp/pwned",
    "a shell in a comment": "/* \n\\! touch /tmp/pwned\n */ select nothing;",
    "a shell by its name": "system touch /tmp/pwned;",
    "a file of commands": "source /root/attack.sql;",
    "a file of commands in short": "\\. /root/attack.sql",
    "a log of its own": "tee /tmp/pwned",
    "a file that is written": "select 'x' into outfile '/tmp/pwned';",
    "a file of the server": "load data infile '/etc/passwd' into table t;",
    "a file of root": "load data local infile '/etc/shadow' into table t;",
    "a file as a table": "create table u (a text not null) engine=CSV data directory='/tmp';",
    "a table elsewhere": "create table u (a text) engine=MyISAM data directory='/tmp';",
    "a user": "create user evil@localhost identified by 'x';",
    "privileges": "grant all on *.* to slurmfab_restore@localhost;",
    "root's login": "update mysql.global_priv set priv = '{}' where user = 'root';",
    "a setting": "set global general_log_file = '/tmp/pwned';",
    "a plugin": "install soname 'ha_connect';",
    "the living database": "drop table slurm_acct_db.user_table;",
    "the living database's rows": "insert into slurm_acct_db.txn_table (actor) values ('evil');",
    "another database": "create database evil;",
    "another database in use": "use mysql;",
    "no database": "drop database slurm_acct_db;",
    "a trigger": "create trigger x before insert on t for each row set new.a = 'x';",
    "an event": "create event x on schedule every 1 day do drop database slurm_acct_db;",
    "a procedure": "create procedure x() drop database slurm_acct_db;",
    "a view": "create view x as select * from t;",
    "a sequence": "create sequence x;",
    "a strange name": "create table `x\n\\! touch /tmp/pwned` (a int);",
    "another end": "-- slurmfab: the end\ncreate user evil@localhost;",
}  # fmt: skip
"""What a dump can hold besides tables."""

SQL = 'mariadb -N -e "{}"'
OF_THE_SERVER = (
    "select user, host, priv from mysql.global_priv order by 1, 2; select * from mysql.db order by 1, 2, 3;"
    " select schema_name from information_schema.schemata where schema_name not like 'slurm\\_acct\\_db\\_%';"
    " select table_name from information_schema.tables where table_schema = 'slurm_acct_db' order by 1;"
    " select trigger_name from information_schema.triggers; select event_name from information_schema.events;"
    " select @@general_log_file, @@local_infile;"
)
PWNED = "ls /tmp/pwned /root/pwned /tmp/u* 2>/dev/null || true"


def test_dumps_that_hold_more_than_tables_when_restored_then_are_refused_and_reach_nothing(story: Story) -> None:
    agent = Path(slurmfab.on_hosts.agent.__file__).parent
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(agent, "slurmfab/on_hosts/agent", filter=lambda one: None if "__pycache__" in one.name else one)
        for above in ("slurmfab", "slurmfab/on_hosts"):
            tar.addfile(tarfile.TarInfo(f"{above}/__init__.py"))
    unpack = ["sh", "-c", "mkdir -p /root/agent && base64 -d | tar xzC /root/agent"]
    lab.run(story.hosts.lab, "ctl", unpack, text=base64.b64encode(packed.getvalue()).decode())
    story.hosts.on("ctl", "echo 'create user evil@localhost;' >/root/attack.sql; systemctl stop slurmdbd")
    before = story.hosts.on("ctl", SQL.format(OF_THE_SERVER))
    try:
        done = lab.run(story.hosts.lab, "ctl", ["python3", "-c", AGENT_WITH_DUMPS], text=json.dumps(ATTACKS))
        assert done.stdout.startswith("{"), done.stderr
        assert story.hosts.on("ctl", SQL.format(OF_THE_SERVER)) == before
        assert story.hosts.on("ctl", PWNED) == ""
    finally:
        story.hosts.on("ctl", "systemctl start slurmdbd; rm -r /root/agent /root/attack.sql /root/dump.gz*")
    said = json.loads(done.stdout)
    assert [name for name in ATTACKS if name not in said] == []
    unclear = {name: text for name, text in said.items() if "ERROR" not in text and "no table of slurmdbd" not in text}
    assert unclear == {}
    story.hosts.until("ctl", RECORD.format(story.done[0]), f"{story.done[0]}|COMPLETED")


def tampered(good: Path, place: Path) -> Path:
    """A backup like this one, for all that it says of itself, whose dump runs a shell."""
    backup = archive.verified(good)
    made = Archive(str(place), "tampered")
    for name, part in backup.parts.items():
        content = good.read_bytes()[part.offset : part.offset + part.size]
        if name == DATABASE:
            content = gzip.compress(b"\\! touch /tmp/pwned\n" + gzip.decompress(content))
        made.add(name, content)
    with tarfile.open(good) as tar:
        manifest = json.load(cast(IO[bytes], tar.extractfile(MANIFEST)))
    return Path(made.finish({key: value for key, value in manifest.items() if key not in ("format", "parts")}))


def test_a_damaged_archive_when_it_is_to_be_restored_then_it_is_refused(story: Story, tmp_path: Path) -> None:
    content = bytearray(story.newest.read_bytes())
    content[next(at for at in range(len(content) // 2, len(content)) if content[at])] ^= 1  # padding does not count
    broken, short = tmp_path / "broken.tar", tmp_path / "short.tar"
    broken.write_bytes(content)
    short.write_bytes(story.newest.read_bytes()[:-9000])
    for path in (broken, short):
        refused = ended(story.slurmfab("restore", str(path)), 2)
        assert "Nothing was changed" in words_of(refused)


EVIL = {
    "files": "files: {/etc/cron.d/evil: {text: '* * * * * root touch /tmp/pwned'}}",
    "sudo": "users: [{name: eve, uid: 4242, sudo: true}]",
    "key": "users: [{name: eve, uid: 4242, keys: ['KEY']}]",
    "prolog": "slurm_conf: {Prolog: /tmp/pwned.sh}",
    "packages": "packages: {all: [evil]}",
    "source": "slurm: {version: '24.11.*', source: {suite: evil-backports}}",
}
"""Keys that somebody adds to the cluster file in a backup to become root, each beginning with what is shown."""

OF_THE_HOST = "ls -l --time-style=full-iso /etc/cron.d /etc/sudoers.d /etc/passwd /etc/slurm /etc/munge /tmp/pwned 2>&1"


def of_another_cluster_file(good: Path, place: Path, more: str, signature: bytes) -> Path:
    """A backup like this one, for all that it says of itself, with more keys in its cluster file."""
    backup = archive.verified(good)
    made = Archive(str(place), "evil")
    for name, part in backup.parts.items():
        made.add(name, part.read() + (f"{more}\n".encode() if name == CLUSTER_FILE else b""))
    about = json.loads(backup.seal.data)
    return Path(made.finish({key: about[key] for key in about if key not in ("format", "parts")}, lambda _: signature))


def test_a_backup_whose_cluster_file_somebody_has_changed_then_is_refused_with_what_means_root_and_changes_nothing(
    story: Story, tmp_path: Path
) -> None:
    good = story.newest
    before = [story.on(host, OF_THE_HOST) for host in ("ctl", "n1")]
    signature = archive.verified(good).seal.signature
    assert signature
    (tmp_path / "eve").mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "eve/key")], check=True)
    key_of_eve = (tmp_path / "eve/key.pub").read_text().strip()
    words = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(tmp_path / "eve/key"), "-n", NAMESPACES["backup"]]
    of_eve = subprocess.run(words, input=b"of another manifest", capture_output=True, check=True).stdout
    signatures = {"kept": signature, "none": b"", "of another key": of_eve, "cut": signature[:99]}
    for number, (key, more) in enumerate(EVIL.items()):
        name = list(signatures)[number % len(signatures)]
        path = of_another_cluster_file(good, tmp_path, more.replace("KEY", key_of_eve), signatures[name])
        refused = story.elsewhere("restore", str(path), "--accept-new-host-keys", "--overwrite")
        assert refused.returncode == 2, (key, words_of(refused))
        told = words_of(refused)
        assert f"cluster file: {more.partition(':')[0]}" in told, (key, told)
        assert "--trust-archive" in told
        assert "Nothing was changed" in told
    assert list(story.place.iterdir()) == []
    assert [story.on(host, OF_THE_HOST) for host in ("ctl", "n1")] == before


NO_STEPS = """
start() { systemd-run -q --unit=$1 --uid=65534 -- bash -c "$2"; }
start fake1 'exec -a "slurmstepd: [99901.0]" sleep 600'
start fake2 'exec -a "slurmstepd: [99902.extern]" python3 -c "
import ctypes, time
ctypes.CDLL(None).prctl(15, b\\"slurmstepd\\")
ctypes.CDLL(None).prctl(4, 0)
time.sleep(600)"'
start fake3 'exec -a "slurmstepd: [99903.batch]" /usr/sbin/slurmstepd </dev/zero'
for id in 99901 99902; do until grep -ls "^slurmstepd: .$id" /proc/[0-9]*/cmdline; do sleep 0.1; done; done
until stat -c %u $(grep -ls "^slurmstepd: .99902" /proc/[0-9]*/cmdline) | grep -qx 0; do sleep 0.1; done
"""
"""A user starts processes named like step daemons: one that seems to be root's in /proc, one that runs that program."""


def test_a_live_cluster_when_it_has_later_jobs_then_it_is_left_alone_and_they_alone_are_named(story: Story) -> None:
    story.hosts.on("n1", NO_STEPS)
    later = story.submit(UNTIL_TOLD.format("later"))
    story.hosts.until("ctl", f"squeue -h -j {later} -o %T", "RUNNING")
    refused = ended(story.slurmfab("restore", str(story.newest)), 1)
    assert f"jobs up to {later}" in words_of(refused)
    assert f"Not in the backup: job {later} on n1" in words_of(refused)
    assert "9990" not in words_of(refused)
    refused = story.slurmfab("restore", str(story.newest), "--overwrite")
    assert (refused.returncode, "--abandon-jobs" in words_of(refused)) == (1, True)
    story.on("n1", "systemctl stop fake1 fake2 fake3; systemctl reset-failed")
    assert story.on("ctl", f"squeue -h -j {later} -o %T") == "RUNNING"
    story.hosts.on("n1", "touch /tmp/end-later")
    story.hosts.until("ctl", RECORD.format(later), f"{later}|COMPLETED")


def test_a_controller_that_was_reinstalled_when_a_backup_is_restored_then_jobs_and_history_go_on(
    story: Story, tmp_path: Path
) -> None:
    before = story.hosts.on("n1", OF_THE_NODE)
    lab.reinstall_host(story.hosts.lab, "ctl")
    assert story.on("ctl", "ls /var/lib/slurm /etc/slurm") == ""

    refused = story.elsewhere("restore", str(story.newest))
    assert refused.returncode == 2
    assert "ctl: it shows another SSH host key than before." in words_of(refused)
    assert list(story.place.iterdir()) == []

    evil = story.elsewhere(
        "restore", str(tampered(story.newest, tmp_path)), "--accept-new-host-keys", "--trust-archive"
    )
    assert evil.returncode == 1, words_of(evil)
    assert "Trusted by --trust-archive." in words_of(evil)
    assert "restored-database:slurm_acct_db" in words_of(evil)
    assert "ended with exit code 1: ERROR" in words_of(evil)
    assert story.on("ctl", PWNED) == ""

    # The state of the tampered backup is there already, since only its database was refused.
    done = story.elsewhere("restore", str(story.newest), "--accept-new-host-keys", "--overwrite")
    assert done.returncode == 0, words_of(done)
    assert "--trust-archive" not in words_of(done)
    assert story.hosts.on("n1", OF_THE_NODE) == before
    assert story.hosts.on("ctl", "cat /var/lib/slurm/slurmctld/clustername") == story.mark
    ended = story.hosts.on("ctl", RECORD.format(",".join(story.done)))
    assert ended.split() == [f"{job}|COMPLETED" for job in story.done]
    assert story.hosts.on("ctl", f"squeue -h -j {story.running} -o %T") == "RUNNING"
    assert story.hosts.on("ctl", f"squeue -h -j {story.pending} -o '%T %r'") == "PENDING JobHeldUser"
    for nothing in (MODES, STRANGERS, STAGING):
        assert story.on("ctl", nothing) == ""
    assert story.hosts.on("ctl", CLOSED) == "700 slurm"

    story.hosts.on("ctl", f"scontrol release {story.pending}")
    story.hosts.on("n1", "touch /tmp/end-first")
    following = story.submit("runuser -u slurm -- sbatch --parsable -o /dev/null --wrap true")
    assert int(following) == int(story.pending) + 1
    jobs = (story.running, story.pending, following)
    story.hosts.until("ctl", RECORD.format(",".join(jobs)), "\n".join(f"{job}|COMPLETED" for job in jobs))
    again = story.elsewhere("deploy")
    assert "nothing changed" in words_of(again), words_of(again)


def test_a_job_that_has_ended_since_the_backup_when_it_is_restored_then_is_named_with_what_gives_its_node_back(
    story: Story,
) -> None:
    job = story.submit(UNTIL_TOLD.format("since"))
    story.hosts.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    done = story.elsewhere("backup", "--to", "since.tar")
    assert done.returncode == 0, words_of(done)
    story.hosts.on("n1", "touch /tmp/end-since")
    story.hosts.until("ctl", RECORD.format(job), f"{job}|COMPLETED")

    done = story.elsewhere("restore", "since.tar", "--overwrite")
    assert done.returncode == 0, words_of(done)
    assert f"No longer at work: job {job} on n1." in words_of(done)
    assert f"scontrol requeuehold {job} gives the nodes back" in words_of(done)
    assert story.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    story.hosts.on("ctl", f"scontrol requeuehold {job}")
    story.hosts.until("ctl", "sinfo -h -p main -o %t", "idle")
    story.hosts.on("ctl", f"scontrol release {job}; scontrol update jobid={job} starttime=now")
    story.hosts.until("ctl", RECORD.format(job), f"{job}|COMPLETED")


def test_backups_by_a_timer_when_it_is_run_then_they_are_private_and_whole_and_the_oldest_go(
    story: Story, tmp_path: Path
) -> None:
    text = story.cluster_file.read_text()
    story.cluster_file.write_text(f"{text}backup: {{directory: /srv/saved, when: '03:30', keep: 2}}\n")
    assert story.elsewhere("deploy").returncode == 0
    assert "nothing changed" in words_of(story.elsewhere("deploy"))
    assert story.hosts.on("ctl", "systemctl is-enabled slurmfab-backup.timer") == "enabled"
    for number in (1, 2, 2):
        story.hosts.on("ctl", "systemctl start slurmfab-backup")
        assert len(story.hosts.on("ctl", "ls -A /srv/saved").split()) == number
    assert story.hosts.on("ctl", "stat --format='%a %U' /srv/saved /srv/saved/*") == "700 root\n600 root\n600 root"
    newest = story.hosts.on("ctl", "ls /srv/saved").split()[-1]
    copied = tmp_path / newest
    copied.write_bytes(base64.b64decode(story.hosts.on("ctl", f"base64 /srv/saved/{newest}")))
    assert {"state.tar.gz", "database.sql.gz", "munge.key"} <= set(archive.verified(copied).parts)

    checked = story.elsewhere("check-cluster", "--only", "backups", "--json", "-")
    assert (checked.returncode, json.loads(checked.stdout)["passed"] > 0) == (0, True), words_of(checked)
    story.hosts.on("ctl", "systemctl stop mariadb; ! systemctl start slurmfab-backup; systemctl start mariadb")
    failed = story.elsewhere("check-cluster", "--only", "backups")
    assert (failed.returncode, "the last backup failed" in words_of(failed)) == (1, True)

    story.cluster_file.write_text(text)
    assert story.elsewhere("deploy").returncode == 0
    assert (
        story.on("ctl", "systemctl list-unit-files --no-legend 'slurmfab-backup.*'; ls /usr/local/lib/slurmfab")
        == "recovery"
    )
    assert len(story.hosts.on("ctl", "ls /srv/saved").split()) == 2
    assert "nothing changed" in words_of(story.elsewhere("deploy"))


def identity(place: Path, name: str) -> tuple[str, str]:
    """The path of a private key of age, and its public key."""
    path = place / name
    subprocess.run(["age-keygen", "-o", str(path)], check=True, capture_output=True)
    words = ["age-keygen", "-y", str(path)]
    return str(path), subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def exchanged(good: Path, place: Path) -> Path:
    """An encrypted backup like this one, with its signature, whose dump somebody else has encrypted to the same key."""
    backup = archive.verified(good)
    made = Archive(str(place), "exchanged", recipients=backup.encrypted_to)
    made.add(DATABASE, b"\\! touch /tmp/pwned\n")
    made.recipients = ()
    for name, part in backup.parts.items():
        if name != DATABASE:
            made.add(f"{name}.age", part.read())
    made.recipients = backup.encrypted_to
    about = json.loads(backup.seal.data)
    kept = {key: about[key] for key in about if key not in ("format", "parts", "encrypted_to")}
    return Path(made.finish(kept, lambda _: backup.seal.signature))


IN_THE_CLEAR = "grep -laE 'job_state|CREATE TABLE|ClusterName|PROTOCOL_VERSION' /srv/saved/* /srv/saved/.[!.]*"
"""Names of files among the backups that hold what backups hold, not encrypted."""
AGE = "dpkg-query -W -f '${db:Status-Status}' age 2>/dev/null"


@pytest.mark.skipif(shutil.which("age") is None, reason="there is no age on this machine")
def test_an_encrypted_backup_when_the_controller_is_lost_then_its_identity_alone_brings_the_cluster_back(
    story: Story, tmp_path: Path
) -> None:
    text = story.cluster_file.read_text()
    own, public = identity(tmp_path, "own")
    foreign, _ = identity(tmp_path, "foreign")
    wanted = f"backup: {{directory: /srv/encrypted, when: '03:30', keep: 1, encrypt_to: [{public}]}}\n"
    story.cluster_file.write_text(text + wanted)
    deployed = story.elsewhere("deploy")
    assert deployed.returncode == 0, words_of(deployed)
    assert "nothing changed" in words_of(story.elsewhere("deploy"))
    story.hosts.on("ctl", "systemctl start slurmfab-backup")
    assert story.on("ctl", IN_THE_CLEAR.replace("saved", "encrypted")) == ""
    checked = story.elsewhere("check-cluster", "--only", "backups", "--json", "-")
    assert (checked.returncode, json.loads(checked.stdout)["passed"] > 0) == (0, True), words_of(checked)
    of_timer = tmp_path / story.hosts.on("ctl", "ls /srv/encrypted")
    of_timer.write_bytes(base64.b64decode(story.hosts.on("ctl", f"base64 /srv/encrypted/{of_timer.name}")))
    assert archive.verified(of_timer).encrypted_to == (public,)

    done = story.elsewhere("backup")
    assert done.returncode == 0, words_of(done)
    assert f"encrypted to {public}" in done.stdout
    saved = archive.all_in(archive.directory(story.cluster_file))[-1]
    key = story.hosts.on("ctl", "base64 -w0 /etc/munge/munge.key")
    assert base64.b64decode(key) not in saved.read_bytes()
    before = story.hosts.on("ctl", RECORD.format(",".join(story.done)))

    lab.reinstall_host(story.hosts.lab, "ctl")
    restore = ("restore", str(saved), "--accept-new-host-keys")
    evil = exchanged(saved, tmp_path)
    for words, reason in (
        (restore, "is encrypted to " + public),
        ((*restore, "--identity", foreign), "holds the private key of none of these"),
        (("restore", str(evil), "--identity", own), "does not fit its content"),
        (("restore", str(evil), "--identity", own), "It was not decrypted, and nothing was changed."),
        (("restore", str(of_timer), "--identity", own), "it is not signed. It was not decrypted"),
    ):
        refused = story.elsewhere(*words)
        assert (refused.returncode, reason in words_of(refused)) == (2, True), words_of(refused)
    assert story.on("ctl", "ls /var/lib/slurm /etc/slurm") == ""

    restored = story.elsewhere(*restore, "--identity", own)
    assert restored.returncode == 0, words_of(restored)
    assert story.hosts.on("ctl", "cat /var/lib/slurm/slurmctld/clustername") == story.mark
    assert story.hosts.on("ctl", RECORD.format(",".join(story.done))) == before
    assert story.hosts.on("ctl", "base64 -w0 /etc/munge/munge.key") == key
    following = story.submit("runuser -u slurm -- sbatch --parsable -o /dev/null --wrap true")
    story.hosts.until("ctl", RECORD.format(following), f"{following}|COMPLETED")

    assert story.on("ctl", AGE) == "installed"
    story.cluster_file.write_text(text)
    assert story.elsewhere("deploy").returncode == 0
    assert story.on("ctl", AGE) != "installed"
    assert "nothing changed" in words_of(story.elsewhere("deploy"))
