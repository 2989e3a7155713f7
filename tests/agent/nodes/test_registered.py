"""Waiting for nodes: how long for which state, which of them are resumed, and what is said of those that stay away."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from slurm_tables import environment, printed

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.nodes import connections, registered, states
from slurmfab.on_hosts.agent.nodes.registered import SlurmNodes

LESS = "Low RealMemory (reported:24105 < 100.00% of configured:900000)"


@pytest.fixture(autouse=True)
def waits_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real Slurm is asked, so nothing has to be waited for."""
    monkeypatch.setattr(states, "POLL_SECONDS", (0.0,))
    monkeypatch.setattr(registered, "SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(registered, "TELL_SECONDS", 0.0)


class Slurmctld(Context):
    """A controller whose nodes have these states, one table after the other; the last one stays.

    Args:
        tables: lines `NODE|STATE|REASON|AUTHOR`.
        port: the port of every slurmd on this machine.
    """

    def __init__(self, *tables: str, port: int = 1) -> None:
        super().__init__()
        self.tables, self.port = list(tables), port
        self.updates: list[tuple[str, ...]] = []
        self.polls = 0
        self.told: list[str] = []
        self.tell = self.told.append

    def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(argv, 0, self.answer(tuple(argv), environment(rest, more)), b"")

    def answer(self, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes:
        if argv[0] == "systemctl":
            return b"ActiveState=active\n"
        if argv[0] == "sinfo":
            self.polls += 1
            table = self.tables.pop(0) if len(self.tables) > 1 else self.tables[0]
            return printed([line.split("|") for line in table.splitlines()], argv, env)
        if argv[1] == "update":
            self.updates.append(argv[2:])
        if argv[1:] == ("show", "config"):
            return b"SlurmdPort              = %d\n" % self.port
        nodes = argv[-1].split(",")
        return "".join(f"NodeName={node} NodeAddr=127.0.0.1 State=IDLE\n" for node in nodes).encode()


def waited(*tables: str, seconds: int = 60, port: int = 1, has_health: bool = True) -> tuple[Outcome, Slurmctld]:
    """The outcome for n1 and n2."""
    slurm = Slurmctld(*tables, port=port)
    return apply(SlurmNodes(("n1", "n2"), seconds, has_health), slurm), slurm


def why(outcome: Outcome, node: str = "n1") -> str:
    """What is said of a node."""
    return dict(outcome.others)[node]


N2 = "\nn2|idle|none|Unknown"


@contextmanager
def listening() -> Iterator[int]:
    """A port of this machine that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def closed_port() -> int:
    """A port of this machine at which nothing listens."""
    with listening() as port:
        return port


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("down|broken fan|root", ("down (broken fan), set by root.", "fab resume n1 --any.")),
        ("down*|broken fan|root", ("down, not responding (broken fan), set by root.", "fab resume n1 --any.")),
        ("drained|Kill task failed|root", ("drained (Kill task failed).", "fab resume n1.", "slurmd.log")),
        (f"inval|{LESS}|slurm", (LESS, "less hardware than slurm.conf says", "`slurmd -C`")),
        ("inval|fan of last year|root", ("inval. It registered with less hardware",)),
        ("n/a|none|Unknown", ("n/a", "names do not resolve")),
    ],
)
def test_a_node_whose_state_does_not_change_by_waiting_when_it_is_waited_for_is_that_nodes_failure_at_once(
    state: str, words: tuple[str, ...]
) -> None:
    outcome, slurm = waited(f"n1|{state}{N2}", seconds=600)
    assert (outcome.status, [node for node, _ in outcome.others]) == ("ok", ["n1"])
    assert all(word in why(outcome) for word in words), why(outcome)
    assert "last year" not in why(outcome)
    assert (slurm.updates, slurm.polls <= 3) == ([], True)


@pytest.mark.parametrize(
    ("state", "is_left"),
    [
        ("drained|Prolog error|root", True),
        ("drained|Kill task failed|slurm", True),
        ("down|broken fan|root", True),
        ("drained|broken fan|root", False),
        ("down|Not responding|slurm", False),
        (f"drained|{LESS}|slurm", False),
        ("idle*|none|Unknown", False),
    ],
)
def test_a_node_that_no_deployment_resumes_when_it_is_compared_then_is_told_apart_from_what_is_promised(
    state: str, is_left: bool
) -> None:
    slurm = Slurmctld(f"n1|{state}{N2}")
    slurm.dry_run = True
    outcome = apply(SlurmNodes(("n1", "n2")), slurm)
    told = {change.name: (change.actual.partition(" (")[0], change.wanted) for change in outcome.changes}
    assert (told.get(registered.LEFT_TO_A_PERSON) is not None) == is_left
    if is_left:
        assert told == {registered.LEFT_TO_A_PERSON: (f"n1: {state.partition('|')[0]}", "")}


def test_nodes_of_which_one_comes_back_are_a_change_and_the_other_is_no_failure_of_the_controller() -> None:
    down = "n1|down|broken fan|root"
    with listening() as port:
        outcome, _ = waited(f"{down}\nn2|idle*|none|root", f"{down}\nn2|idle*|none|root", down + N2, port=port)
    assert (outcome.status, [change.name for change in outcome.changes]) == ("changed", ["n2"])
    assert [node for node, _ in outcome.others] == ["n1"]


@pytest.mark.parametrize("state", ["down", "drained"])
def test_a_node_with_less_hardware_when_it_registers_with_the_corrected_file_is_resumed(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered, "SETTLED_SECONDS", 600.0)
    inval, back = f"n1|inval|{LESS}|slurm{N2}", f"n1|{state}|{LESS}|slurm{N2}"
    outcome, slurm = waited(inval, inval, back, f"n1|idle|{LESS}|slurm{N2}")
    assert (outcome.status, outcome.others) == ("changed", ())
    assert slurm.updates == [("NodeName=n1", "State=RESUME")]


def test_a_node_that_slurm_takes_out_again_is_resumed_once_and_that_is_told() -> None:
    outcome, slurm = waited(f"n1|down|Not responding|slurm{N2}")
    assert slurm.updates == [("NodeName=n1", "State=RESUME")]
    assert "It was resumed once, and Slurm took it out of service again." in why(outcome)


@pytest.mark.parametrize(
    ("state", "port_listens", "is_resumed"),
    [
        ("down*|Not responding : Not responding|slurm", True, True),
        ("down*|Not responding|slurm", False, False),
        ("down*|broken fan|slurm", True, False),
        ("drained*|Not responding|slurm", True, False),
    ],
)
def test_a_node_that_slurm_asks_no_more_when_its_slurmd_accepts_connections_is_resumed(
    state: str, port_listens: bool, is_resumed: bool
) -> None:
    with listening() as port:
        tables = [f"n1|{state}{N2}"] * 3 + [f"n1|idle|none|root{N2}"]
        outcome, slurm = waited(*tables, port=port if port_listens else closed_port())
    assert (outcome.status, slurm.updates) == (
        ("changed", [("NodeName=n1", "State=RESUME")]) if is_resumed else (outcome.status, [])
    )


def test_a_node_whose_slurmd_the_controller_cannot_reach_is_waited_for_no_longer() -> None:
    port = closed_port()
    outcome, _ = waited(f"n1|unknown*|none|Unknown{N2}", seconds=600, port=port)
    assert why(outcome) == (
        f"unknown, not responding. Nothing listens at 127.0.0.1 port {port}, slurmd's: is slurmd running there? "
        "See /var/log/slurmd/slurmd.log there."
    )


def test_a_node_whose_slurmd_accepts_connections_and_does_not_answer_is_waited_for_to_the_end() -> None:
    with listening() as port:
        outcome, slurm = waited(f"n1|unknown*|none|Unknown{N2}", seconds=0, port=port)
    assert "unknown, not responding. slurmctld has waited for it for 0 s. Its slurmd accepts" in why(outcome)
    assert slurm.told == []


def test_what_is_waited_for_is_told_once() -> None:
    late = f"n1|idle*|none|root{N2}"
    with listening() as port:
        outcome, slurm = waited(*[late] * 5, f"n1|idle|none|root{N2}", port=port)
    assert outcome.status == "changed"
    assert slurm.told == ["waiting up to 60 s for n1: idle, not responding"]


def test_the_port_of_slurmd_is_that_of_the_configuration() -> None:
    assert connections.default_port("SlurmctldPort = 7001\nSlurmdPort              = 7002\n") == 7002
    assert connections.default_port("") == 6818


ILL = "n1|drained|slurmfab: health: /data is not mounted|root"


@pytest.mark.parametrize(("has_health", "status"), [(True, "ok"), (False, "changed")])
def test_a_node_that_a_health_check_has_drained_is_resumed_once_there_is_no_health_check_any_more(
    has_health: bool, status: str
) -> None:
    outcome, slurm = waited(ILL + N2, ILL + N2, f"n1|idle|none|root{N2}", has_health=has_health)
    assert (outcome.status, outcome.others) == (status, ())
    assert slurm.updates == ([] if has_health else [("NodeName=n1", "State=RESUME")])


def test_a_node_to_whose_health_reason_a_person_added_another_is_left_as_it_is_without_a_health_check() -> None:
    outcome, slurm = waited(f"n1|drained|slurmfab: health: x : broken fan|root{N2}", has_health=False)
    assert (outcome.status, slurm.updates) == ("ok", [])
