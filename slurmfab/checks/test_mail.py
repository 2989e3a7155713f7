"""Mail about jobs: slurmctld hands it over to a program of its host, and the program takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.slurm import Slurm

WAIT_SECONDS = 15
"""How long slurmctld may take to call the program; it does so within a second where it has nothing else to do."""

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
"""Runs a job, and tells whether somebody opened the mail program to run it, and what slurmctld's log says of that.

slurmctld itself says nothing of mail that goes well (agent.c of 22.05 to 26.05), so the kernel is asked: inotify(7),
IN_OPEN. What goes wrong is “MailProg returned error” in its log.
"""


@dataclass(frozen=True)
class Handed:
    """What became of the mail: whether the program was called, and what slurmctld says went wrong."""

    called: bool
    errors: tuple[str, ...]


def test_end_of_a_job_is_mailed(mailer: CheckedHost, slurm: Slurm) -> None:
    """mail about the end of a job is handed over"""
    configuration = slurm.configuration()
    program, log = configuration["mailprog"], configuration.get("slurmctldlogfile", "")
    watch = ("python3", "-c", WATCH, program, log)
    done = slurm.run((slurm.free_node(),), "true", options=("--mail-type=END",), under=watch)
    assert done.rc == 0, f"the job failed: {last_words(done)}"
    handed = handed_over(done.stdout)
    assert not handed.errors, (
        f"{program} takes no mail: {handed.errors[-1].partition('error: ')[2]}. "
        f"Repair: try it as the slurm user on {mailer.name}: echo | {program} -s test slurm; and see the mail system's "
        "log; where the program is gone for good, fab deploy"
    )
    assert handed.called, (
        f"slurmctld did not call {program} within {WAIT_SECONDS} s of a job's end. Repair: see {log} on {mailer.name}"
    )


def handed_over(said: str) -> Handed:
    """What the last line of WATCH tells."""
    told = json.loads(said.strip().splitlines()[-1])
    return Handed(bool(told["called"]), tuple(told["errors"]))
