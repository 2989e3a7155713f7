"""What makes a cluster whole after a loss of power: on controllers alone, and taken back with its key."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.paths import RECOVERY_PROGRAM, RECOVERY_UNIT
from slurmfab.core.plan.phases import recovery
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

THERE = {"owned": ("recovery",), "programs": ("recovery",), "services": {f"{RECOVERY_UNIT}.timer": "active"}}


def test_a_controller_has_the_program_as_the_slurm_user_and_its_timer() -> None:
    _, program, files, timer = recovery.resources(prepared_input(THREE_HOSTS + "slurm_user: hpc\n"), "c1")
    assert isinstance(program, Program)
    assert program.path == RECOVERY_PROGRAM
    assert isinstance(files, OwnedFiles)
    service, _ = files.by_path().values()
    assert "User=hpc\n" in service.text
    assert f"{RECOVERY_PROGRAM}/run.py /run/{RECOVERY_UNIT}/state.json" in service.text
    assert timer == Timer(RECOVERY_UNIT)


def test_a_compute_node_has_nothing() -> None:
    assert recovery.resources(prepared_input(), "n1") == ()


@pytest.mark.parametrize(("host", "more"), [("c1", "restart_daemons: false\n"), ("n1", "")])
def test_a_host_that_has_it_and_should_not_loses_timer_program_and_files(host: str, more: str) -> None:
    found = recovery.resources(prepared_input(THREE_HOSTS + more, **THERE), host)
    assert found[:2] == (Service(f"{RECOVERY_UNIT}.timer", running=False), Program(RECOVERY_PROGRAM, ()))
    assert isinstance(found[2], OwnedFiles)
    assert found[2].files == ()
