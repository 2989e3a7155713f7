"""Reading Slurm's state on a controller: which commands are run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.slurm import reading


class Controller(Context):
    """A controller on which `scontrol ping` prints a line; `programs` lists what was run."""

    def __init__(self, ping: str) -> None:
        super().__init__()
        self.ping = ping
        self.programs: list[str] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.programs.append(" ".join(argv[:2]))
        return subprocess.CompletedProcess(argv, 0, self.ping.encode(), b"")


@pytest.mark.parametrize(("state", "programs"), [("DOWN", ["scontrol"]), ("UP", ["scontrol", "scontrol"])])
def test_a_slurmctld_that_is_down_is_asked_nothing_that_takes_half_a_minute_to_fail(
    state: str, programs: list[str]
) -> None:
    controller = Controller(f"Slurmctld(primary) at c1 is {state}\n")
    answer = reading.read({"parts": ["nodes"]}, controller)
    assert controller.programs[0] == "scontrol ping"
    assert [program.split()[0] for program in controller.programs] == programs
    assert answer["ping"] == controller.ping


@pytest.mark.parametrize(("parts", "asked"), [(["limits"], True), (None, False)])
def test_limits_of_all_accounts_are_read_where_they_are_asked_for_and_only_there(
    parts: list[str] | None, asked: bool
) -> None:
    controller = Controller("Slurmctld(primary) at c1 is UP\n")
    answer = reading.read({"parts": parts} if parts else {}, controller)
    assert ("limits" in answer, ("nodes" in answer)) == (asked, not asked)
