"""What the checks of the message of the day, of X11, of MPS and of MPI find on stand-in hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ruled_shells import Rule, RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks import test_logins, test_mpi, test_mps
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.places_of_checks import places_of
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.core.plan.phases import logins

GREETING = cluster(THREE_HOSTS + "motd: 'Help: ask ann'\nx11: true\nlogin: [l1]\n")
TEXT = logins.message_of_the_day(GREETING, "l1")
NO_CTYPES = CommandResult(1, b"", b"ModuleNotFoundError: No module named 'ctypes'\n")
GREETS: dict[str, Rule] = {
    "^cat": TEXT,
    "^test -e": "",
    "^sshd -T": "usepam yes\nx11forwarding yes\n",
    "pam_motd": f"Debian\n{TEXT}\n",
}


PATTERNS = {"file": "^cat", "there": "^test -e", "sshd": "^sshd -T", "pam": "pam_motd"}


def greet(**other: Rule) -> None:
    rules = {**GREETS, **{PATTERNS[name]: rule for name, rule in other.items()}}
    test_logins.test_users_are_greeted(CheckedHost("l1", RuledShell(rules)), GREETING)


def test_message_when_pam_shows_it_then_passes() -> None:
    greet()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"there": CommandResult(1)}, "/etc/motd.d/slurmfab differs from the cluster file"),
        ({"file": "another"}, "/etc/motd.d/slurmfab differs from the cluster file"),
        ({"sshd": "usepam no\n"}, "UsePAM no"),
        ({"pam": "Debian\n"}, "no line of /etc/pam.d/sshd shows /etc/motd.d/slurmfab"),
        ({"pam": CommandResult(1, b"", b"No such file")}, "PAM does not answer: No such file"),
    ],
)
def test_message_when_users_do_not_see_it_then_is_told(other: dict[str, Rule], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        greet(**other)


def test_message_when_pam_cannot_be_asked_then_is_not_run() -> None:
    with pytest.raises(pytest.skip.Exception, match="no python3 with ctypes"):
        greet(pam=NO_CTYPES)


@pytest.mark.parametrize(
    ("host", "rules", "why"),
    [
        ("n1", {"xauth": ""}, ""),
        ("l1", {"xauth": "", "^sshd -T": "x11forwarding yes\n"}, ""),
        ("n1", {"xauth": CommandResult(127)}, "there is no xauth"),
        ("l1", {"xauth": "", "^sshd -T": "x11forwarding no\n"}, "X11Forwarding no"),
    ],
)
def test_x11_needs_xauth_and_sshd_of_login_hosts(host: str, rules: dict[str, Rule], why: str) -> None:
    shell = CheckedHost(host, RuledShell(rules))
    if not why:
        test_logins.test_windows_reach_users(shell, GREETING)
        return
    with pytest.raises(AssertionError, match=why):
        test_logins.test_windows_reach_users(shell, GREETING)


@pytest.mark.parametrize(("flags", "passes"), [("Alloc,Contain,X11", True), ("Contain", False)])
def test_x11_needs_a_flag_of_slurmctld(flags: str, passes: bool) -> None:
    controller = CheckedHost("c1", RuledShell({"scontrol show config": f"PrologFlags = {flags}\n"}))
    slurm = Slurm(controller, GREETING)
    if passes:
        test_logins.test_jobs_forward_windows(controller, slurm)
        return
    with pytest.raises(AssertionError, match="PrologFlags=Contain without X11"):
        test_logins.test_jobs_forward_windows(controller, slurm)


@pytest.mark.parametrize("shown", ["settled :", "settled yes: 7 8"])
def test_mps_daemon_when_it_runs_with_its_jobs_then_passes(shown: str) -> None:
    test_mps.test_mps_daemon_runs_for_jobs_alone(CheckedHost("n1", RuledShell({"": shown})))


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ("nvidia-cuda-mps-control\nsettled :", "a job with mps would drain the node"),
        ("/etc/slurm/prolog.d/00-slurmfab-mps\nsettled :", r"prolog\.d/00-slurmfab-mps is missing"),
        ("settled : 7 8", r"has ended while jobs with mps run \(7, 8\)"),
        ("settled yes:", "runs without a job"),
    ],
)
def test_mps_daemon_when_it_does_not_follow_jobs_then_is_told(shown: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        test_mps.test_mps_daemon_runs_for_jobs_alone(CheckedHost("n1", RuledShell({"": shown})))


def test_open_mpi_when_it_is_missing_then_is_told() -> None:
    test_mpi.test_mpi_is_there(CheckedHost("n1", RuledShell({"mpirun": ""})))
    with pytest.raises(AssertionError, match=r"mpirun or libmpi\.so\.40 .* missing"):
        test_mpi.test_mpi_is_there(CheckedHost("n1", RuledShell({"mpirun": CommandResult(1)})))


def test_checks_are_of_hosts_for_which_the_cluster_file_has_the_keys() -> None:
    text = THREE_HOSTS.replace('[{hosts: "n[1-2]"}]', '[{hosts: n1, Gres: "gpu:2,mps:200"}, {hosts: n2}]')
    wanted = cluster(
        text + "login: [l1]\nx11: true\nmotd: true\nmps_daemon: true\nmpi: {type: pmix, packages: openmpi}\n"
    )
    known = Inventory(wanted, Lock(), Path("x.yaml"))
    all_hosts = ("l1", "c1", "n1", "n2")
    places = {
        "greeting_host": ("l1",),
        "x11_host": all_hosts,
        "x11_controller": ("c1",),
        "mps_node": ("n1",),
        "open_mpi_host": all_hosts,
    }
    found = places_of(known, all_hosts)
    assert {name: found[name] for name in places} == places
    without = places_of(replace(known, cluster=cluster(THREE_HOSTS)), ("c1", "n1", "n2"))
    assert {name: without[name] for name in places} == dict.fromkeys(places, ())
