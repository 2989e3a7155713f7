"""The check of login limits: what a process of a real login sees makes its sentence false, and it fails."""

from __future__ import annotations

import pytest
from ruled_shells import RuledShell, unit
from support import cluster

from slurmfab.commands.checks import test_jobs, test_logins
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.slurm import Answer

KNOWN = cluster(
    "cluster: x\ncontrollers: [ctl]\nlogin: [l1]\nnodes: [{hosts: n1}]\n"
    "login_limits: {memory: 300M, tasks: 256, cpus: 2}\n"
)
INSIDE = "group=/user.slice/user-64030.slice/session-3.scope\n"
LIMITED = "memory=314572800\ntasks=256\ncpus=2\n"


def login_host(seen: str | CommandResult) -> CheckedHost:
    rules = {"^systemd-run": seen, "^id -u": "64030\n", **unit("user-64030.slice", MemoryMax="314572800")}
    return CheckedHost("l1", RuledShell(rules))


def test_limits_when_a_login_has_them_all_then_pass() -> None:
    test_logins.test_users_have_their_limits(login_host(INSIDE + LIMITED), KNOWN)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (f"group=/system.slice/ssh.service\n{LIMITED}", "no user-64030.slice, so login_limits reach nobody"),
        (INSIDE + LIMITED.replace("memory=314572800", "memory=infinity"), "no limit in place of 314572800 for memory"),
        (INSIDE + LIMITED.replace("tasks=256", "tasks=33"), "33 in place of 256 for tasks"),
        (INSIDE + LIMITED.replace("cpus=2", "cpus=unknown"), "no limit in place of 2 for cpus"),
    ],
)
def test_limits_when_a_login_lacks_one_then_that_is_told(seen: str, words: str) -> None:
    with pytest.raises(AssertionError) as told:
        test_logins.test_users_have_their_limits(login_host(seen), KNOWN)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (INSIDE + "memory=unknown\ntasks=unknown\ncpus=unknown\n", "no control groups that limit"),
        (CommandResult(255, b"", b"Permission denied (publickey).\n"), "Permission denied"),
    ],
)
def test_limits_when_nobody_can_see_them_then_the_check_has_not_run(seen: str | CommandResult, words: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=words):
        test_logins.test_users_have_their_limits(login_host(seen), KNOWN)


class OneJob:
    """A Slurm whose jobs tell this."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def told_by(self, _: str) -> Answer:
        return self.answer


@pytest.mark.parametrize(("ignored", "is_told"), [(0x1000, True), (0, False)])
def test_jobs_that_ignore_sigpipe_are_told(ignored: int, is_told: bool) -> None:
    node, slurm = CheckedHost("n1", RuledShell({})), OneJob(Answer("n1", ignored, 1))
    if not is_told:
        test_jobs.test_jobs_do_not_ignore_sigpipe(node, slurm)  # type: ignore[arg-type]
        return
    with pytest.raises(AssertionError, match="jobs start with SIGPIPE ignored"):
        test_jobs.test_jobs_do_not_ignore_sigpipe(node, slurm)  # type: ignore[arg-type]
