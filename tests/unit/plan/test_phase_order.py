"""Which host may begin which phase: tables of phases and of how far the hosts are."""

from __future__ import annotations

import itertools

import pytest

from slurmfab.core.plan.phase_order import PhaseOrder
from slurmfab.core.plan.plan import ALL, CONTROLLERS, DATABASE, OWN, PHASES, SERVERS, Phase

PLACES = {CONTROLLERS: ("c1", "c2"), DATABASE: ("d1",), SERVERS: ()}
HOSTS = ("c1", "c2", "d1", "n1", "n2")


def order(*needs: tuple[str, ...], first: int = -1, **at: int) -> PhaseOrder:
    """An order of phases with these needs; hosts are at the last one, but for those that are said to be elsewhere."""
    phases = [
        Phase(f"p{number}", lambda *_: (), needs=one, controller_first=number == first)
        for number, one in enumerate(needs)
    ]
    found = PhaseOrder(phases, HOSTS, PLACES, "c1")
    for host in HOSTS:
        for _ in range(at.get(host, len(needs) - 1)):
            found.pass_phase(host)
    return found


@pytest.mark.parametrize(
    ("needs", "behind", "may_begin"),
    [
        (OWN, "n1", True),
        (OWN, "c1", True),
        ((ALL,), "n1", False),
        ((CONTROLLERS,), "n1", True),
        ((CONTROLLERS,), "c1", False),
        ((CONTROLLERS,), "c2", False),
        ((DATABASE,), "c1", True),
        ((CONTROLLERS, DATABASE), "d1", False),
    ],
)
def test_a_host_waits_for_the_earlier_phases_of_those_that_a_phase_needs_and_of_no_other(
    needs: tuple[str, ...], behind: str, may_begin: bool
) -> None:
    found = order(OWN, OWN, needs, **{behind: 1})
    assert found.may_begin(2, "n2") is may_begin
    found.pass_phase(behind)
    assert found.may_begin(2, "n2")


def test_a_host_that_left_the_run_is_waited_for_no_longer() -> None:
    found = order(OWN, OWN, (ALL,), n1=0)
    assert (found.front, found.may_begin(2, "n2")) == (0, False)
    found.leave("n1")
    assert (found.front, found.may_begin(2, "n2")) == (2, True)


@pytest.mark.parametrize("at", list(itertools.product(range(3), repeat=3)))
@pytest.mark.parametrize("leaving", HOSTS[-2:])
def test_a_phase_that_needs_all_begins_only_where_all_that_are_left_are_through_with_those_before(
    leaving: str, at: tuple[int, int, int]
) -> None:
    found = order(OWN, OWN, (ALL,), **dict(zip(HOSTS[-3:], at, strict=True)))
    found.leave(leaving)
    behind = min(number for host, number in zip(HOSTS[-3:], at, strict=True) if host != leaving)
    assert (found.front, found.may_begin(2, "c1")) == (behind, behind == 2)
    found.leave("nobody")
    assert found.front == behind


def test_hosts_with_roles_that_are_no_part_of_the_run_are_not_waited_for() -> None:
    found = PhaseOrder([Phase("p", lambda *_: (), needs=(CONTROLLERS, DATABASE))], ["n1"], PLACES, "c1")
    assert found.may_begin(0, "n1")


def test_where_the_controller_is_first_all_others_wait_until_it_has_passed_that_very_phase() -> None:
    found = order(OWN, OWN, first=1)
    assert [found.may_begin(1, host) for host in HOSTS] == [True, False, False, False, False]
    found.pass_phase("c1")
    assert all(found.may_begin(1, host) for host in HOSTS[1:])


@pytest.mark.parametrize("slowest", HOSTS)
def test_the_host_that_is_farthest_behind_never_waits(slowest: str) -> None:
    for number in range(len(PHASES)):
        found = PhaseOrder(PHASES, HOSTS, PLACES, "c1")
        for host in HOSTS:
            for _ in range(number if host == slowest else len(PHASES)):
                found.pass_phase(host)
        assert found.front == number
        assert found.may_begin(number, slowest)


def test_slurmctld_is_stopped_and_told_of_new_files_only_when_all_hosts_are_done_with_what_comes_before() -> None:
    needs = {phase.name: phase.needs for phase in PHASES}
    assert {needs[name] for name in ("slurmctld stop", "slurmctld", "slurmctld start", "nodes")} == {(ALL,)}
    after = [phase.name for phase in PHASES][[phase.name for phase in PHASES].index("slurmd") + 1 :]
    assert {needs[name] for name in after} == {(ALL,)}, "earlier files may be put back after slurmd"
