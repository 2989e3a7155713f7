"""What doctor says of this machine."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from slurmfab.commands.doctor import software
from slurmfab.commands.doctor.finding import FAILURE, OK, WARNING, Finding, guarded, ok


def only(findings: object) -> Finding:
    (found,) = list(findings)  # type: ignore[call-overload]
    assert isinstance(found, Finding)
    return found


def test_this_machine_when_looked_at_then_python_and_packages_are_as_needed() -> None:
    found = {one.subject: one for one in software.python_and_packages()}
    assert {one.state for one in found.values()} == {OK}
    assert "paramiko " in found["packages"].text


def test_packages_when_one_is_too_old_or_missing_then_pip_is_the_repair() -> None:
    found = only(software.judged_packages({"paramiko": ">=99", "no-such-package": ">=1,<2", "invoke": ">=2"}))
    assert found.state == FAILURE
    assert "pip install 'no-such-package>=1,<2' 'paramiko>=99'" in found.text
    assert "invoke" not in found.text


@pytest.mark.parametrize(("version", "state"), [((3, 9, 2), FAILURE), ((3, 10, 0), OK)])
def test_python_when_of_a_version_then_is_judged_by_the_bounds(version: tuple[int, ...], state: str) -> None:
    assert only(software.judged_python(">=3.10", version)).state == state


@pytest.mark.parametrize(("free", "state"), [(1 << 20, FAILURE), (512 << 20, WARNING), (1 << 40, OK)])
def test_a_disk_when_little_is_free_then_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert only(software.disk(tmp_path / "configs")).state == state


@pytest.mark.parametrize(("answer", "state"), [("yes", OK), ("no", WARNING), ("", WARNING)])
def test_a_clock_when_no_service_keeps_it_then_is_told(
    monkeypatch: pytest.MonkeyPatch, answer: str, state: str
) -> None:
    monkeypatch.setattr(software, "SYNCHRONIZED", ("echo", answer))
    assert only(software.clock()).state == state


def test_a_clock_when_the_machine_has_no_timedatectl_then_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(software, "SYNCHRONIZED", ("no-such-program",))
    found = only(software.clock())
    assert (found.state, "does not say" in found.text) == (WARNING, True)


def test_a_terminal_when_it_is_not_utf_8_then_a_locale_is_the_repair() -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), "ascii")
    found = only(software.terminal(ascii_only, {"LANG": "C"}))
    assert found.state == WARNING
    assert "LANG=C.UTF-8" in found.text
    assert only(software.terminal(io.TextIOWrapper(io.BytesIO(), "UTF_8"), {})).state == OK


def test_programs_when_missing_then_say_what_needs_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = only(software.programs())
    assert found.state == WARNING
    assert "openssh-client" in found.text


def test_a_look_that_fails_becomes_a_finding_itself() -> None:
    def look() -> list[Finding]:
        raise RuntimeError("broken\nin two")

    assert only(guarded("clock", look)).state == WARNING
    assert only(guarded("clock", lambda: [ok("clock", "right")])).state == OK
