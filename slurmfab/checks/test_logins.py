"""Checks of logins: a closed compute node lets users in only with a job there, and those who look after it always."""

from __future__ import annotations

import pytest

from slurmfab.agent.people.node_logins import SSHD
from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.slurm import Slurm
from slurmfab.checks.wanted import deploy
from slurmfab.program_name import FAB

STRANGER, KEEPERS = "nobody", ("root", "slurm")
"""A user of every Debian who has no job, and users who need none."""

ASK_PAM = """
import ctypes, sys
libpam = ctypes.CDLL("libpam.so.0")
CONVERSE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3)
class Conversation(ctypes.Structure):
    _fields_ = [("converse", CONVERSE), ("data", ctypes.c_void_p)]
silence = Conversation(CONVERSE(lambda *_: 19), None)
for user in sys.argv[1:]:
    handle = ctypes.c_void_p()
    code = libpam.pam_start(b"sshd", user.encode(), ctypes.byref(silence), ctypes.byref(handle))
    code = code or libpam.pam_acct_mgmt(handle, 0x8000)
    print(user, code)
    libpam.pam_end(handle, code)
"""
"""Asks PAM, as sshd does, whether users may log in; prints each with PAM's answer, of which 0 is yes."""


def test_node_is_closed_without_a_job(closed_node: CheckedHost) -> None:
    """sshd's PAM lets users in only with a job on the node, and root and slurm always"""
    done = closed_node.run(f"python3 -c %s {STRANGER} {' '.join(KEEPERS)}", ASK_PAM)
    if done.rc != 0 and "ctypes" in done.stderr:
        pytest.skip(f"the python3 of {closed_node.name} has no ctypes, with which PAM is asked.")
    assert done.rc == 0, f"PAM does not answer: {last_words(done)}. Repair: {deploy(closed_node.name)}"
    answers = dict(line.split() for line in done.stdout.splitlines())
    assert answers.get(STRANGER) != "0", (
        f"a user without a job on the node ({STRANGER}) may log in: a line of {SSHD} or of a file that it includes "
        f"decides before pam_slurm_adopt. Repair: {deploy(closed_node.name)}, and compare {SSHD}"
    )
    refused = [user for user in KEEPERS if answers.get(user) != "0"]
    assert not refused, f"{' and '.join(refused)} may not log in by SSH, by {SSHD}. Repair: {deploy(closed_node.name)}"


def test_jobs_can_adopt_logins(closed_node: CheckedHost, slurm: Slurm) -> None:
    """jobs have the step on the node that adopts their users' logins"""
    flags = slurm.configuration().get("prologflags", "")
    assert {"CONTAIN", "X11"} & {flag.strip().upper() for flag in flags.split(",")}, (
        f"slurmctld has PrologFlags={flags} without Contain, so nobody can log in to {closed_node.name} with a job. "
        f"Repair: {FAB} deploy"
    )
