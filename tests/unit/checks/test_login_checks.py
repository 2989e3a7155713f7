"""The checks of the slurm user's logins: few at a time, and an sshd that is busy is not called closed."""

from __future__ import annotations

import threading

import pytest
from ruled_shells import RuledShell
from support import cluster

from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.checks import test_ssh
from slurmfab.commands.checks.hosts import LOGINS, CheckedHost
from slurmfab.commands.checks.places_of_checks import slurm_logins
from slurmfab.commands.checks.shell import SECONDS, CommandResult

TURNED_AWAY = b"kex_exchange_identification: read: Connection reset by peer\nConnection reset by 10.0.0.1 port 22\n"
KNOWN = cluster("cluster: x\naddresses: {n1: 10.0.0.2}\ncontrollers: [ctl]\nnodes: [{hosts: n1}]\n")
REFUSED = b"slurm@ctl: Permission denied (publickey).\n"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_ssh, "PAUSE", 0)


def node_that_hears(*errors: bytes) -> tuple[CheckedHost, RuledShell]:
    """A host whose logins end with these errors, one after another, and then succeed."""
    left = list(errors)
    shell = RuledShell(
        {"ssh -o BatchMode": lambda _: CommandResult(255, b"", left.pop(0)) if left else CommandResult(0)}
    )
    return CheckedHost("n1", shell), shell


def tries(shell: RuledShell) -> list[str]:
    """The logins that were tried."""
    return [command for command in shell.commands if "ssh -o BatchMode" in command]


@pytest.mark.parametrize(("source", "is_told"), [("10.1.0.2", True), ("10.0.0.2", False), ("10.2.0.2", False)])
def test_login_when_it_comes_from_an_address_that_others_do_not_trust_then_that_is_told(
    source: str, is_told: bool
) -> None:
    node, shell = node_that_hears(REFUSED)
    shell.rules["getsockname"] = f"{source}\n"
    known = Lock(hosts={"n1": HostLock(hostname="n1", trusted=("10.2.0.2",))})
    with pytest.raises(AssertionError, match=r"cannot log in to ctl by SSH") as told:
        test_ssh.test_host_gets_to_the_controller(node, CheckedHost("ctl", RuledShell({})), KNOWN, known)
    words = "come from 10.1.0.2, which is none of the addresses that others trust (10.0.0.2, 10.2.0.2)"
    assert (words in str(told.value)) == is_told, told.value


def test_login_when_sshd_turns_it_away_unasked_then_is_tried_again() -> None:
    node, shell = node_that_hears(TURNED_AWAY, TURNED_AWAY)
    test_ssh.test_host_gets_to_the_controller(node, CheckedHost("ctl", RuledShell({})), KNOWN, Lock())
    assert len(shell.commands) == 3


def test_login_when_sshd_turns_it_away_every_time_then_that_is_told() -> None:
    node, shell = node_that_hears(*[TURNED_AWAY] * 9)
    with pytest.raises(
        AssertionError, match=r"the slurm user on n1 cannot log in to ctl by SSH: Connection reset by 10\.0\.0\.1 port"
    ):
        test_ssh.test_host_gets_to_the_controller(node, CheckedHost("ctl", RuledShell({})), KNOWN, Lock())
    assert len(tries(shell)) == test_ssh.TRIES


def test_login_when_sshd_has_judged_it_then_is_not_tried_again() -> None:
    node, shell = node_that_hears(REFUSED)
    with pytest.raises(AssertionError, match="Permission denied"):
        test_ssh.test_host_gets_to_the_controller(node, CheckedHost("ctl", RuledShell({})), KNOWN, Lock())
    assert len(tries(shell)) == 1


def test_login_when_it_is_not_wanted_and_refused_then_all_is_well() -> None:
    node, shell = node_that_hears(TURNED_AWAY, REFUSED)
    test_ssh.test_host_is_kept_out_of_the_controller(node, CheckedHost("ctl", RuledShell({})))
    assert len(shell.commands) == 2


def test_login_when_it_is_not_wanted_and_works_then_that_is_told() -> None:
    node, _ = node_that_hears()
    with pytest.raises(AssertionError, match="the slurm user on n1 can log in to ctl by SSH, but slurm_ssh"):
        test_ssh.test_host_is_kept_out_of_the_controller(node, CheckedHost("ctl", RuledShell({})))


TWO_CONTROLLERS = (
    "cluster: x\ncontrollers: [c1, c2]\nlogin: [l1]\nnodes: [{hosts: n1}]\nstate_directory: /shared/state\nslurm_ssh: "
)


@pytest.mark.parametrize(
    ("logins", "checked"),
    [
        ("both", ("c2 l1 n1", "c2 l1 n1", "", "")),
        ("from_controllers", ("c2 l1 n1", "c2", "", "l1 n1")),
        ("none", ("", "", "c2 l1 n1", "c2 l1 n1")),
    ],
)
def test_logins_are_checked_in_the_directions_that_the_cluster_file_wants(
    logins: str, checked: tuple[str, ...]
) -> None:
    found = slurm_logins(cluster(TWO_CONTROLLERS + logins), ("c2", "l1", "n1"))
    names = ("to_slurm", "from_slurm", "not_to_slurm", "not_from_slurm")
    assert {name: tuple(some) for name, some in found.items()} == {
        name: tuple(hosts.split()) for name, hosts in zip(names, checked, strict=True)
    }


class CountingShell:
    """A shell that counts how many commands run at a time, over all shells with the same counter; each waits a little
    for others to come."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    def run(self, command: str, stdin: str = "", seconds: float = SECONDS) -> CommandResult:  # noqa: ARG002 - as Shell has it
        with self.counter:
            return CommandResult(0)


class Counter:
    """Counts who is inside at a time; everybody stays until more came than are allowed, or for a moment."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.inside = self.most = 0
        self.changed = threading.Condition()

    def __enter__(self) -> None:
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.inside > self.allowed, timeout=0.05)

    def __exit__(self, *_: object) -> None:
        with self.changed:
            self.inside -= 1


def test_logins_to_one_host_when_many_hosts_check_theirs_then_go_few_at_a_time() -> None:
    counter, controller = Counter(LOGINS), CheckedHost("ctl", RuledShell({}))
    nodes = [CheckedHost(f"n{number}", CountingShell(counter)) for number in range(3 * LOGINS)]
    checks = [
        threading.Thread(target=test_ssh.test_host_gets_to_the_controller, args=(node, controller, KNOWN, Lock()))
        for node in nodes
    ]
    for check in checks:
        check.start()
    for check in checks:
        check.join()
    assert 1 < counter.most <= LOGINS
