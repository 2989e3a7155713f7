"""Many hosts at once: who is asked when, and what becomes of their answers."""

from __future__ import annotations

import threading

import pytest

from slurmfab.base.errors import Unreachable
from slurmfab.hosts.fan_out import give_up_turn, on_each, turn_for


def test_each_host_has_its_result_or_its_error() -> None:
    def ask(host: str) -> str:
        if host == "n2":
            raise Unreachable(host, "off.")
        return host.upper()

    answers = dict(on_each(["n1", "n2", "n3"], ask))
    assert (answers["n1"], answers["n3"]) == ("N1", "N3")
    assert isinstance(answers["n2"], Unreachable)


def test_hosts_are_asked_at_the_same_time_but_no_more_than_the_fan_out() -> None:
    discovery = threading.Barrier(2, timeout=10)
    lock, now, most = threading.Lock(), 0, 0

    def ask(_: str) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        discovery.wait()
        with lock:
            now -= 1

    assert len(list(on_each(["n1", "n2", "n3", "n4"], ask, fan_out=2))) == 4
    assert most == 2


def test_an_answer_comes_as_soon_as_it_is_there_and_not_in_the_order_of_hosts() -> None:
    first_is_told = threading.Event()

    def ask(host: str) -> str:
        if host == "slow":
            assert first_is_told.wait(10)
        return host

    order = []
    for host, _ in on_each(["slow", "quick"], ask):
        order.append(host)
        first_is_told.set()
    assert order == ["quick", "slow"]


def test_a_bug_is_raised_and_not_taken_for_a_hosts_error() -> None:
    def ask(_: str) -> None:
        raise AssertionError

    with pytest.raises(AssertionError):
        list(on_each(["n1"], ask))


@pytest.mark.parametrize("odd", ["x.0", "1e300", ""])
def test_an_answer_that_cannot_be_used_is_that_hosts_failure_alone(odd: str) -> None:
    def ask(host: str) -> int:
        return int(odd) if host == "n1" else 7

    found = dict(on_each(["n1", "n2"], ask))
    assert found["n2"] == 7
    assert "n1: its answer cannot be used (ValueError" in str(found["n1"])


def test_calls_that_nobody_waits_for_any_more_do_not_begin() -> None:
    begun: list[str] = []
    may_end = threading.Event()

    def ask(host: str) -> None:
        begun.append(host)
        assert may_end.wait(10)

    asked = on_each(["n1", "n2", "n3"], ask, fan_out=1)
    asked.close()
    may_end.set()
    asked.pool.shutdown(wait=True)
    assert begun in ([], ["n1"])


def test_a_call_that_waits_for_a_host_that_is_off_when_it_gives_up_its_turn_then_the_next_begins() -> None:
    others_are_done = threading.Event()
    done: list[str] = []

    def ask(host: str) -> None:
        if host.startswith("off"):
            give_up_turn()
            assert others_are_done.wait(10), "hosts that answer wait for one that is off"
        done.append(host)
        if done == ["n1", "n2"]:
            others_are_done.set()

    assert len(list(on_each(["off1", "off2", "n1", "n2"], ask, fan_out=1))) == 4
    assert done[:2] == ["n1", "n2"]


def test_a_call_whose_turn_has_a_time_limit_when_it_takes_longer_then_the_next_begins_and_only_that_one() -> None:
    others_are_done = threading.Event()
    lock, now, most = threading.Lock(), 0, 0
    done: list[str] = []

    def ask(host: str) -> None:
        nonlocal now, most
        if host == "off":
            with turn_for(0.01):
                assert others_are_done.wait(10), "hosts that answer wait for one that is off"
            return
        with turn_for(60):
            with lock:
                now += 1
                most = max(most, now)
            done.append(host)
            if len(done) == 3:
                others_are_done.set()
            with lock:
                now -= 1

    assert len(list(on_each(["off", "n1", "n2", "n3"], ask, fan_out=1))) == 4
    assert done == ["n1", "n2", "n3"]
    assert most == 1
