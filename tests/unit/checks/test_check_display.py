"""What people see of the checks: lines or a table, hosts folded, causes and repairs once."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from terminals import Terminal, shown_on

from slurmfab.commands.checks.display import Display
from slurmfab.commands.checks.results import Result, Verdict


def result(host: str, outcome: str, cause: str = "", repair: str = "", check: str = "key") -> Result:
    return Result("munge", check, f"the {check} is right", host, outcome, cause, repair, 0.1)  # type: ignore[arg-type]


def shown(out: io.StringIO, *results: Result, verbose: bool = False) -> str:
    display = Display(out, verbose=verbose)
    display.check_done(results)
    display.end()
    display.show(Verdict("tiny", results, 2.0))
    return out.getvalue()


def test_plain_output_has_a_line_per_outcome_with_hosts_folded() -> None:
    text = shown(io.StringIO(), result("n1", "passed"), result("n2", "passed"), result("n3", "failed", "it differs."))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "✓ ok munge the key is right n[1-2] 0.1 s"
    assert lines[1] == "✗ FAILED munge the key is right n3 0.1 s"
    assert lines[-1] == "tiny: 2 checks passed, 1 failed in 2.0 s."
    assert "\x1b" not in text


def test_equal_trouble_on_many_hosts_is_told_once_with_one_repair_for_all() -> None:
    results = [
        result(host, "failed", f"the key of {host} differs.", f"fab deploy --hosts {host}")
        for host in ("n1", "n2", "n10")
    ]
    text = shown(io.StringIO(), *results)
    assert "  n[1-2,10]: the key of n[1-2,10] differs.\n    repair: fab deploy --hosts n[1-2,10]\n" in text


def test_equal_trouble_is_told_host_by_host_when_verbose() -> None:
    results = [result(host, "failed", "it differs.", f"fab deploy --hosts {host}") for host in ("n1", "n2")]
    text = shown(io.StringIO(), *results, verbose=True)
    assert "  n1: it differs.\n    repair: fab deploy --hosts n1\n  n2: it differs.\n" in text


FIRST = result("n1", "failed", "it is dead.", "fab deploy")
NEXT = [
    replace(result("n1", "failed", "no answer.", "see its log", check=check), because="munge.key on n1")
    for check in ("a", "b", "c", "d", "e")
]


def test_failures_that_follow_from_one_are_folded_below_it_and_count() -> None:
    text = shown(io.StringIO(), *NEXT[:2], FIRST)
    blocks = [line for line in text.splitlines() if line.startswith("FAILED")]
    assert blocks == ["FAILED  munge: the key is right"]
    assert "  2 more, because of this: munge: the a is right (n1); munge: the b is right (n1)\n" in text
    assert "no answer" not in text
    assert text.splitlines()[-1] == "tiny: 0 checks passed, 3 failed in 2.0 s."
    assert "5 more, because of this:" in (many := shown(io.StringIO(), FIRST, *NEXT))
    assert "; … (--verbose shows all)" in " ".join(many.split())


def test_failures_that_follow_from_one_are_shown_in_full_when_verbose() -> None:
    text = shown(io.StringIO(), FIRST, *NEXT, verbose=True)
    assert sum(line.startswith("FAILED") for line in text.splitlines()) == 6
    assert text.count("no answer.") == 5


def test_host_on_which_a_check_was_not_run_is_told_of_below_alone() -> None:
    text = shown(io.StringIO(), result("n1", "passed"), result("n2", "not run", "n2 is unreachable."))
    assert text.splitlines()[0].split()[-3:] == ["n1", "0.1", "s"]
    assert text.count("n2:") == 1
    assert "not run  n2: munge: the key is right, because n2 is unreachable.\n" in text


def test_checks_left_out_for_one_reason_are_one_line() -> None:
    results = [result("n2", "not run", "n2 is unreachable.", check=check) for check in ("key", "mode", "owner")]
    assert "not run  n2: 3 checks, because n2 is unreachable.\n" in shown(io.StringIO(), *results)


def test_terminal_gets_a_table_that_leaves_brackets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    text = shown(Terminal(), result("n1", "passed"), result("n2", "passed"), result("n3", "failed", "see [all] of it."))
    assert "Check" in text
    assert "n[1-2]" in text
    assert "see [all] of it." in text
    assert "\x1b[" in text


def test_terminal_without_colours_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(Terminal(), result("n1", "passed"))


def test_table_at_60_columns_breaks_between_words_and_hostlists_after_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")
    odd = [result(f"n{number}", "passed", check="key of a host with a long name") for number in range(1, 97, 2)]
    broken = [result(f"n{number}", "failed", f"n{number}: no munged.", "fab deploy") for number in range(2, 97, 2)]
    out = Terminal()
    shown(out, *odd, *broken)
    lines = shown_on(out)
    assert max(map(len, lines)) <= 60
    words = {word for line in lines for word in line.split()}
    assert words >= {"Check", "Result", "Hosts", "Time", "FAILED", "right", "munge", "repair:", "deploy"}
    assert all(number in "".join(lines) for number in ("n[1,", ",95]", "n[2,", ",96]"))


def test_terminal_shows_that_hosts_are_connected_to_and_a_pipe_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")
    for out, lines in ((Terminal(), ["  0 s  connecting to n[1-2]"]), (io.StringIO(), [""])):
        display = Display(out)
        display.begin(("n1", "n2"))
        assert shown_on(out) == lines
        display.end()
        assert shown_on(out) == [""]
