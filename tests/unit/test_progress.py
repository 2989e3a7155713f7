"""What people read while a run goes on, and its last word."""

from __future__ import annotations

import dataclasses
import io

import pytest

from slurmfab.agent.resource import Change, Outcome
from slurmfab.errors import HostError, Unreachable
from slurmfab.progress import Progress, summary
from slurmfab.report import Report, Step

CHANGED = Step("users", "n1", (Outcome("user:slurm", "changed", (Change("uid", "1001", "64030"),)),), 0.5)
FAILED = Step("slurmd", "n1", (Outcome("service:slurmd", "failed", message="it does not stay active"),))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(*steps: Step, **lost: HostError) -> Report:
    return Report("deploy", "lab", ("c1", "n1"), steps, lost, 2.0)


def test_without_a_terminal_there_are_plain_lines_and_no_control_characters() -> None:
    out = io.StringIO()
    progress = Progress(out)
    progress.begin("users", ["c1", "n1"])
    progress.host_done("c1", Step("users", "c1", (Outcome("user:slurm", "ok"),)))
    progress.host_done("n1", CHANGED)
    progress.host_lost("n2", Unreachable("n2", "nothing listens there."))
    progress.end()
    assert [line.split() for line in out.getvalue().splitlines()] == [
        ["users", "n1", "1", "changed", "(0.5", "s)"],
        ["n2:", "unreachable,", "and", "left", "out", "of", "the", "rest"],
    ]
    assert all(character.isprintable() or character == "\n" for character in out.getvalue())


def test_verbose_tells_every_difference() -> None:
    out = io.StringIO()
    Progress(out, verbose=True).host_done("n1", CHANGED)
    assert "\n    user:slurm: changed\n      uid: 1001 -> 64030\n" in out.getvalue()


def test_quiet_says_nothing() -> None:
    out = io.StringIO()
    progress = Progress(out, quiet=True)
    progress.begin("users", ["n1"])
    progress.host_done("n1", CHANGED)
    progress.host_lost("n1", HostError("n1", "gone"))
    progress.end()
    assert out.getvalue() == ""


def test_no_color_takes_the_colours_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Progress(Terminal()).coloured("x", "failed") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert Progress(Terminal()).coloured("x", "failed") == "x"


def test_a_terminal_gets_a_status_line_that_is_gone_at_the_end() -> None:
    progress = Progress(Terminal())
    progress.begin("comparing [hosts]", ["n2", "n1"])
    assert progress.spinner is not None
    progress.host_done("n1", CHANGED)
    progress.end()
    assert progress.spinner is None


def test_the_last_word_on_a_run_without_changes() -> None:
    assert summary(report()) == "lab: nothing changed on 2 hosts, all is as wanted (2.0 s)."


def test_the_last_word_does_not_say_that_all_is_as_wanted_where_hardware_is_not() -> None:
    told = summary(dataclasses.replace(report(), other_hardware=("n1", "n2")))
    assert told == "lab: nothing changed on 2 hosts, all is as wanted but the hardware of n[1-2] (2.0 s)."


def test_the_last_word_counts_changes() -> None:
    assert summary(report(CHANGED)) == "lab: 1 change on 2 hosts, all is as wanted (2.0 s)."
    assert "2 changes" in summary(report(CHANGED, CHANGED))


def test_the_last_word_names_what_failed_where_and_what_to_do() -> None:
    lines = summary(report(CHANGED, FAILED, n1=HostError("n1", "service:slurmd: it does not stay active"))).splitlines()
    assert lines == [
        "n1: service:slurmd: it does not stay active",
        "lab: 1 change on 2 hosts; not done: n1 (2.0 s). "
        "Mend that, then go on with just those: fab deploy --retry-failed.",
    ]


def test_the_last_word_on_nodes_that_no_deployment_would_help_does_not_name_one() -> None:
    told = summary(dataclasses.replace(report(n1=HostError("n1", "jobs still run there.")), command="drain"))
    assert told.endswith("Mend that and run the same command again; it goes on where it stopped.")
