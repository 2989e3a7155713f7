"""What people read while a run goes on: hosts with equal outcomes share a line; a terminal also has a status line."""

from __future__ import annotations

import contextlib
import io

import pytest
from terminals import Terminal, shown_on

from slurmfab.base.errors import HostError, HostFailed, Unreachable
from slurmfab.core.engine.progress import MOST_WAITING, MOST_WAITS, Progress, first_sentence, time_range
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import Change, Outcome

UID = Change("uid", "1001", "64030")
CHANGED = Step("users", "n1", (Outcome("user:slurm", "changed", (UID,)),), 0.5)
NODES = tuple(f"n{number}" for number in range(1, 97))
SILENT = "no answer from 10.0.0.{} port 22 within 10 s. Is the host up, and no firewall in between?"


def step(host: str, phase: str = "slurm.conf", status: str = "changed", seconds: float = 0.1) -> Step:
    return Step(phase, host, (Outcome("file:/a", status), Outcome("file:/b", "changed")), seconds)


def silent(host: str) -> Unreachable:
    return Unreachable(host, SILENT.format(host[1:]))


def lines_of(out: io.StringIO) -> list[str]:
    return out.getvalue().splitlines()


def test_without_a_terminal_there_are_plain_lines_and_no_control_characters() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("users", ["c1", "n1"])
    progress.host_done("c1", Step("users", "c1", (Outcome("user:slurm", "ok"),)))
    progress.host_done("n1", CHANGED)
    progress.host_lost("n2", Unreachable("n2", "nothing listens there."))
    progress.end()
    assert lines_of(out) == [
        "users        n1         1 changed (0.5 s)",
        "n2: unreachable: nothing listens there; skipped for the rest of this run",
    ]
    assert all(character.isprintable() or character == "\n" for character in out.getvalue())


def test_equal_outcomes_of_96_hosts_are_one_line_with_the_range_of_their_times_when_the_phase_ends() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("slurm.conf", NODES)
    for number, host in enumerate(NODES):
        assert not out.getvalue()
        progress.host_done(host, step(host, seconds=0.4 if number == 50 else 0.1))
    assert lines_of(out) == ["slurm.conf   n[1-96]    2 changed (0.1 to 0.4 s)"]


def test_what_a_host_waits_for_is_told_at_once_in_one_line_and_not_for_ever() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("nodes", ["c1"])
    progress.host_waits("c1", "waiting up to 90 s for n1: idle, not responding\n")
    assert lines_of(out) == ["nodes        c1         waiting up to 90 s for n1: idle, not responding\\n"]
    for _ in range(1000):
        progress.host_waits("c1", "x" * 5000)
    assert len(out.getvalue()) < 30_000


def test_other_outcomes_have_lines_of_their_own() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("slurm.conf", NODES[:4])
    for host, status in zip(NODES, ("changed", "ok", "failed", "changed"), strict=False):
        progress.host_done(host, step(host, status=status))
    assert lines_of(out) == [
        "slurm.conf   n[1,4]     2 changed (0.1 s)",
        "slurm.conf   n2         1 changed (0.1 s)",
        "slurm.conf   n3         1 changed, 1 failed (0.1 s)",
    ]


def test_95_dead_hosts_are_one_line_with_the_reason_and_all_addresses() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("asking", NODES)
    progress.host_done("n1")
    for host in NODES[1:]:
        progress.host_lost(host, silent(host))
    assert lines_of(out) == [
        "n[2-96]: unreachable: no answer from 10.0.0.[2-96] port 22 within 10 s; skipped for the rest of this run"
    ]


def test_hosts_lost_for_other_reasons_or_in_another_way_stay_apart() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("asking", NODES[:5])
    for error in (silent("n1"), silent("n2"), Unreachable("n3", "no route."), HostError("n4", "no route.")):
        progress.host_lost(error.host, error)
    progress.host_lost("n5", Unreachable("n5", "the name n5 does not resolve. Give an address."))
    end = "; skipped for the rest of this run"
    assert lines_of(out) == [
        f"n[1-2]: unreachable: no answer from 10.0.0.[1-2] port 22 within 10 s{end}",
        f"n3: unreachable: no route{end}",
        f"n4: failed: no route{end}",
        f"n5: unreachable: the name n5 does not resolve{end}",
    ]


def test_hosts_behind_a_jump_host_that_cannot_be_used_are_named_with_it() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("asking", NODES)
    for host in NODES:
        progress.host_lost(host, Unreachable("gate", "the jump host cannot be used: off."))
    assert lines_of(out) == [
        "n[1-96]: unreachable: gate: the jump host cannot be used: off; skipped for the rest of this run"
    ]


def test_hosts_that_fail_in_a_phase_are_told_after_it_and_in_one_line() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("slurmd", NODES[:3])
    for host in NODES[:3]:
        progress.host_done(host, step(host, "slurmd", "failed"))
        progress.host_lost(host, HostFailed(host, "file:/a: it does not stay active"))
    progress.begin("nodes", NODES[:1])
    assert lines_of(out) == [
        "slurmd       n[1-3]     1 changed, 1 failed (0.1 s)",
        "n[1-3]: failed: file:/a: it does not stay active; skipped for the rest of this run",
    ]


def test_what_is_told_besides_comes_after_the_lines_of_a_phase_that_has_ended() -> None:
    out = io.StringIO()
    progress = Progress(out)
    for host in NODES[:2]:
        progress.host_lost(host, HostError(host, "no room."))
    progress.line("Pushed 3 MB.")
    assert [line.split(":")[0] for line in lines_of(out)] == ["n[1-2]", "Pushed 3 MB."]


def test_a_phase_that_is_interrupted_is_told_as_far_as_it_came() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("slurm.conf", NODES)
    progress.host_done("n1", step("n1"))
    progress.end()
    assert lines_of(out) == ["slurm.conf   n1         2 changed (0.1 s)"]


def test_verbose_tells_every_difference_once_for_equal_hosts() -> None:
    out = io.StringIO()
    progress = Progress(out, verbose=True)
    progress.begin("users", ["n1", "n2", "n3"])
    for host, uid in (("n1", "1001"), ("n2", "1001"), ("n3", "1002")):
        progress.host_done(host, Step("users", host, (Outcome("user:slurm", "changed", (Change("uid", uid, "1"),)),)))
    assert lines_of(out) == [
        "users        n[1-2]     1 changed (0.0 s)",
        "    user:slurm: changed",
        "      uid: 1001 -> 1",
        "users        n3         1 changed (0.0 s)",
        "    user:slurm: changed",
        "      uid: 1002 -> 1",
    ]


def test_quiet_says_nothing() -> None:
    out = io.StringIO()
    progress = Progress(out, quiet=True)
    progress.begin("users", ["n1"])
    progress.host_done("n1", CHANGED)
    progress.host_lost("n1", HostError("n1", "gone"))
    progress.end()
    assert out.getvalue() == ""


def test_no_color_takes_the_colours_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, line in (("", "\x1b[33musers       \x1b[0m n1"), ("1", "users        n1")):
        monkeypatch.setenv("NO_COLOR", value)
        out = Terminal()
        progress = Progress(out)
        progress.host_done("n1", CHANGED)
        progress.end()
        assert line in out.getvalue()


def test_a_terminal_shows_what_goes_on_where_until_it_ends() -> None:
    out = Terminal()
    progress = Progress(out)
    progress.begin("comparing [hosts]", NODES)
    assert shown_on(out)[-1] == "  0 s  comparing [hosts]: n[1-96]"
    for host in NODES[:40]:
        progress.host_done(host, step(host))
    assert progress.status_text() == "comparing [hosts]: 40 of 96 hosts done, waiting for n[41-96]"
    progress.end()
    assert shown_on(out) == ["slurm.conf   n[1-40]    2 changed (0.1 s)", ""]


def test_lines_on_a_terminal_of_60_columns_break_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    progress = Progress(out)
    progress.begin("asking", NODES)
    for host in NODES:
        progress.host_lost(host, silent(host))
    progress.end()
    *lines, _ = shown_on(out)
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines) == (
        "n[1-96]: unreachable: no answer from 10.0.0.[1-96] port 22 within 10 s; skipped for the rest of this run"
    )


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("no answer within 10 s. Is the host up?", "no answer within 10 s"),
        ("no route to 10.0.0.1.", "no route to 10.0.0.1"),
        ("apt-get failed:\nE: x", "apt-get failed:"),
    ],
)
def test_the_first_sentence_of_a_reason_says_what_happened(reason: str, sentence: str) -> None:
    assert first_sentence(reason) == sentence


def test_equal_times_are_told_once() -> None:
    assert time_range([step("n1"), step("n2", seconds=0.12)]) == "0.1 s"


def test_discovery_of_hosts_has_a_status_line_that_an_error_takes_away() -> None:
    out = Terminal()
    progress = Progress(out)
    with contextlib.suppress(HostError), progress.during("discovering", NODES):
        assert shown_on(out)[-1] == "  0 s  discovering: n[1-96]"
        raise HostError("n1", "off.")
    assert shown_on(out) == [""]


def test_what_hosts_wait_for_is_told_in_some_lines_and_not_in_more() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("packages", ["n1", "n2"])
    for number in range(MOST_WAITS + 2):
        progress.host_waits("n1", f"dpkg runs\nthere {number}" + "x" * 2 * MOST_WAITING)
    lines = lines_of(out)
    assert len(lines) == MOST_WAITS
    assert lines[0].startswith("packages     n1         dpkg runs")
    assert all(len(line) <= len("packages     n1         ") + MOST_WAITING for line in lines)
    progress.begin("users", ["n1"])
    progress.host_waits("n1", "again")
    assert len(lines_of(out)) == MOST_WAITS + 1


def test_outcomes_that_are_told_at_once_leave_out_what_is_as_wanted() -> None:
    out = io.StringIO()
    Progress(out).tell([CHANGED, Step("users", "n2", (Outcome("user:slurm", "ok"),))])
    (line,) = lines_of(out)
    assert "n1" in line
    assert "n2" not in line


def test_a_terminal_names_the_hosts_whose_answers_are_waited_for_where_no_phase_does() -> None:
    out = Terminal()
    progress = Progress(out)
    with progress.asking("ctl"), progress.asking("n1"):
        assert progress.status is not None
        assert progress.status.text == "waiting for ctl,n1"
    assert progress.status is None
    progress.begin("comparing", ["n2"])
    with progress.asking("n2"):
        assert progress.status is not None
        assert progress.status.text == "comparing: n2"
    progress.end()
    assert progress.status is None


def test_without_a_terminal_open_requests_print_nothing() -> None:
    out = io.StringIO()
    with Progress(out).asking("ctl"):
        pass
    assert out.getvalue() == ""
