"""Check of mail about jobs: slurmctld calls the mail program, and the program accepts the mail."""

from __future__ import annotations

from dataclasses import dataclass

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost, last_object, last_words
from slurmfab.commands.checks.slurm import Slurm

WAIT_SECONDS = 15  # seconds in which slurmctld must call the mail program; an idle slurmctld needs less than one

WATCH = f"""
import ctypes, json, os, select, subprocess, sys
program, log = sys.argv[1:3]
size = os.path.getsize(log) if os.path.isfile(log) else 0
libc = ctypes.CDLL(None)
opened = libc.inotify_init()
libc.inotify_add_watch(opened, os.fsencode(program), 0x20)
code = subprocess.call(sys.argv[3:])
called = code == 0 and bool(select.select([opened], [], [], {WAIT_SECONDS})[0])
for _ in range({WAIT_SECONDS}):
    if not select.select([opened], [], [], 1)[0]:
        break
    os.read(opened, 65536)
errors = []
if os.path.isfile(log):
    with open(log, errors="replace") as text:
        text.seek(size if os.path.getsize(log) >= size else 0)
        errors = [line.strip() for line in text if "MailProg" in line and "error" in line]
print()
print(json.dumps(dict(called=called, errors=errors)))
sys.exit(code)
"""
"""Runs a job, and prints as JSON whether the mail program was opened, and slurmctld's new log lines about its errors.

slurmctld does not log mail that was accepted (agent.c of Slurm 22.05 to 26.05), so inotify(7) reports that the
program was opened (IN_OPEN). An error appears in the log as “MailProg returned error”.
"""


@dataclass(frozen=True)
class Handed:
    """Whether slurmctld called the mail program, and the errors in its log."""

    called: bool
    errors: tuple[str, ...]


def test_end_of_a_job_is_mailed(mailer: CheckedHost, slurm: Slurm) -> None:
    """the mail program accepts mail about a finished job"""
    configuration = slurm.configuration()
    program, log = configuration["mailprog"], configuration.get("slurmctldlogfile", "")
    watch = ("python3", "-I", "-S", "-c", WATCH, program, log)
    done = slurm.run((slurm.free_node(),), "true", options=("--mail-type=END", *recipient(slurm)), under=watch)
    assert done.rc == 0, f"the job failed: {last_words(done)}"
    values = last_object(done)
    handed = Handed(bool(values.get("called")), tuple(map(str, values.get("errors") or ())))
    assert not handed.errors, (
        f"{program} rejected the mail: {handed.errors[-1].partition('error: ')[2]}. "
        f"Repair: {repair(mailer.name, program, slurm.cluster)}"
    )
    assert handed.called, (
        f"slurmctld did not call {program} within {WAIT_SECONDS} s of a job's end. Repair: see {log} on {mailer.name}"
    )


def recipient(slurm: Slurm) -> tuple[str, ...]:
    """The option with the recipient: the sender itself at a relay, where the user slurm has no mailbox."""
    mail = slurm.cluster.mail
    return (f"--mail-user={mail.sender}",) if mail else ()


def repair(host: str, program: str, cluster: Cluster) -> str:
    """What to do when the program rejects the mail."""
    to, log = (cluster.mail.sender, "journalctl -t msmtp") if cluster.mail else ("slurm", "the mail system's log")
    return (
        f"try it as the slurm user on {host}: echo | {program} -s test {to}; and see {log}; "
        f"if the program was removed for good, {FAB} deploy"
    )
