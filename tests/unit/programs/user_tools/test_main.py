"""The start of all commands for users."""

from __future__ import annotations

import sys

import pytest

from slurmfab.on_hosts.programs.user_tools.main import main


def test_a_command_when_its_output_is_closed_then_it_runs_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main("sstatus", "--help") == 0
