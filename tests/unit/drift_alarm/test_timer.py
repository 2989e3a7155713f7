"""The timer of the drift alarm: its units in a directory of the test, shown to this machine's systemd-analyze."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.commands.drift import timer
from slurmfab.commands.drift.timer import Manager

SYSTEMCTL = """#!/bin/sh
echo "$@" >>{0}/asked
case "$*" in *"$(cat {0}/refused 2>/dev/null || echo nothing)"*) echo 'no bus' >&2; exit 1 ;; esac
"""


@pytest.fixture(params=[True, False], ids=["system", "user"])
def manager(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    """A manager whose units are in a directory of the test, and a systemctl that only notes what it is asked."""
    (tmp_path / "bin").mkdir()
    for name, text in (("systemctl", SYSTEMCTL.format(tmp_path)), ("sendmail", "#!/bin/sh\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    made = Manager(is_system=request.param, directory=tmp_path / "units")
    monkeypatch.setattr(timer, "own_manager", lambda: made)
    return made


def written(folder: Path, text: str = "drift: {when: Sun 03:30, mail: ann@example.org}\n") -> str:
    """The path of a cluster file with a blank and a percent sign in its name."""
    path = folder / "my 100%.yaml"
    path.write_text(THREE_HOSTS + text)
    return str(path)


def asked(folder: Path) -> list[str]:
    return (folder / "asked").read_text().splitlines()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_units_when_installed_then_systemd_takes_them_and_the_timer_is_started(
    manager: Manager, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert timer.install(written(tmp_path)) == 0
    service, clock = sorted(manager.directory.iterdir())
    assert (service.suffix, clock.suffix) == (".service", ".timer")
    assert "OnCalendar=Sun *-*-* 03:30:00\n" in clock.read_text()
    assert f' drift --cluster "{tmp_path}/my 100%%.yaml"\n' in service.read_text()
    assert f"WorkingDirectory={tmp_path}\n" in service.read_text()
    assert ("User=root\n" in service.read_text()) == manager.is_system
    options = "" if manager.is_system else "--user "
    assert asked(tmp_path)[:2] == [f"{options}daemon-reload", f"{options}enable --now {clock.name}"]
    assert ("enable-linger" in capsys.readouterr().out) != manager.is_system
    assert timer.remove(written(tmp_path)) == 0
    assert list(manager.directory.iterdir()) == []
    assert f"{options}disable --now {clock.name}" in asked(tmp_path)
    assert timer.remove(written(tmp_path)) == 0
    assert "There is no " in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_units_when_systemd_does_not_start_them_then_are_not_left(manager: Manager, tmp_path: Path) -> None:
    (tmp_path / "refused").write_text("enable")
    with pytest.raises(SlurmfabError, match="no bus"):
        timer.install(written(tmp_path))
    assert list(manager.directory.iterdir()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_a_unit_when_systemd_finds_a_mistake_in_it_then_is_refused(manager: Manager) -> None:
    with pytest.raises(InputError, match="refuses the units"):
        timer.verify({"slurmfab-drift-x.timer": "[Timer]\nOnCalendar=never at all\n"}, manager)


@pytest.mark.usefixtures("manager")
def test_a_cluster_file_when_it_has_no_drift_then_nothing_is_installed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no drift"):
        timer.install(written(tmp_path, ""))


def test_a_word_when_it_has_blanks_or_specifiers_then_means_itself() -> None:
    assert timer.quoted("/a/b.yaml") == "/a/b.yaml"
    assert timer.quoted('/a b/$HOME "%h".yaml') == '"/a b/$$HOME \\"%%h\\".yaml"'


def test_a_path_when_it_has_a_line_break_then_is_refused() -> None:
    with pytest.raises(InputError, match="no systemd unit"):
        timer.unit_texts("x", "daily", ("/bin/true", "/a\nb"), "/", is_system=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("when", ["hourly", "daily", "weekly", "*-*-* 03:30:00", "Sun *-*-* 03:30:00"])
def test_a_schedule_when_systemd_reads_it_then_is_a_calendar_event(when: str) -> None:
    subprocess.run(["systemd-analyze", "calendar", when], check=True, capture_output=True)
