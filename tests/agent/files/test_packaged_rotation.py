"""The packages' rotation of logs: one line of Debian 12's is exchanged, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, State
from slurmfab.on_hosts.agent.files.packaged_rotation import BY_SIGNAL, PackagedRotation

SLURMCTLD = PackagedRotation("slurmctld", "/usr/sbin/slurmctld")
DEBIAN_12 = """\
/var/log/slurm-llnl/slurmctld.log /var/log/slurm/slurmctld.log {
  compress
  size=5M
  postrotate
      /usr/sbin/invoke-rc.d --quiet slurmctld reconfig >/dev/null
      /bin/sleep 1
  endscript
}
"""
DEBIAN_13 = DEBIAN_12.replace(
    "/usr/sbin/invoke-rc.d --quiet slurmctld reconfig >/dev/null",
    "/usr/sbin/start-stop-daemon -s USR2 --stop -x /usr/sbin/slurmctld -q",
)


def host(root: Path, text: str | None, *, installed: bool = True) -> Path:
    """A host's file about rotation."""
    path = root / "etc/logrotate.d/slurmctld"
    path.parent.mkdir(parents=True)
    if text is not None:
        path.write_text(text)
    if installed:
        (root / "usr/sbin").mkdir(parents=True)
        (root / "usr/sbin/slurmctld").touch()
    return path


def test_a_file_that_asks_by_the_init_script_then_sends_a_signal_and_keeps_its_other_lines(tmp_path: Path) -> None:
    path, context = host(tmp_path, DEBIAN_12), Context(root=str(tmp_path))
    path.chmod(0o640)
    found = SLURMCTLD.actual(context)
    assert found != BY_SIGNAL
    SLURMCTLD.converge(context, frozenset(found))
    assert SLURMCTLD.actual(context) == SLURMCTLD.wanted(context)
    before, after = DEBIAN_12.splitlines(), path.read_text().splitlines()
    assert [line for line in before if line not in after] == [before[4]]
    assert [line.strip() for line in after if line not in before] == [
        "systemctl --quiet is-active slurmctld && systemctl kill --kill-who=main --signal=SIGUSR2 slurmctld",
        "true",
    ]
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("text", "installed", "expected"),
    [
        (DEBIAN_13, True, BY_SIGNAL),
        (None, True, BY_SIGNAL),
        (DEBIAN_12.replace("slurmctld reconfig", "slurmdbd reconfig"), True, BY_SIGNAL),
        (None, False, dict.fromkeys(BY_SIGNAL)),
    ],
    ids=["debian-13", "removed-by-an-admin", "another-daemon", "not-installed-yet"],
)
def test_other_files_then_are_as_wanted(tmp_path: Path, text: str | None, installed: bool, expected: State) -> None:
    path = host(tmp_path, text, installed=installed)
    assert SLURMCTLD.actual(Context(root=str(tmp_path))) == expected
    SLURMCTLD.converge(Context(root=str(tmp_path)), frozenset())
    assert path.exists() == (text is not None)
    assert text is None or path.read_text() == text
