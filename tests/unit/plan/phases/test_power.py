"""Nodes that sleep: what controllers and nodes get for each way of switching, and what is taken back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.paths import (
    POWER_FAILURES,
    POWER_PASSWORD,
    POWER_PROGRAM,
    POWER_SETTINGS,
    POWER_UNIT,
    RESUME_PROGRAM,
    SUSPEND_PROGRAM,
)
from slurmfab.core.plan.phases import power
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer

IPMI = "{ipmi: {address: '{node}-ipmi', user: ops, password_file: pw}}"
LAN = "{wake_on_lan: {mac: {n1: '52:54:00:12:34:56', n2: '52:54:00:12:34:57'}, broadcast: 10.0.0.255}}"
OWN = "{command: {suspend: /opt/off, resume: /opt/on}}"
UNITS = {f"/etc/systemd/system/{POWER_UNIT}.{kind}" for kind in ("service", "timer")}
EVERYWHERE = {POWER_SETTINGS, SUSPEND_PROGRAM, RESUME_PROGRAM, *UNITS}


def wanted(how: str, more: str = "", **facts: Any) -> PlanInput:
    """What is wanted where n1 and n2 may sleep; nothing where it may not."""
    text = f"{THREE_HOSTS}power: {{nodes: [n1, n2]{more}, how: {how}}}\n" if how else THREE_HOSTS
    found = prepared_input(text, **facts)
    return dataclasses.replace(found, power_password="secret")


def files_of(there: PlanInput, host: str) -> dict[str, OwnedFile]:
    (found,) = (one for one in power.resources(there, host) if isinstance(one, OwnedFiles))
    return {one.path: one for one in found.files}


@pytest.mark.parametrize(("how", "more"), [(IPMI, {POWER_PASSWORD}), (LAN, set()), (OWN, set())])
def test_a_controller_has_the_program_and_what_slurm_conf_names(how: str, more: set[str]) -> None:
    there = wanted(how)
    assert {*files_of(there, "c1")} == EVERYWHERE | more
    first, failures, program, _ = power.resources(there, "c1")
    assert isinstance(first, Directory)
    assert failures == Directory(POWER_FAILURES, owner="slurm", group="slurm")
    assert isinstance(program, Program)
    assert program.path == POWER_PROGRAM
    assert power.timer(there, "c1") == (Timer(POWER_UNIT),)


def test_the_password_of_ipmi_is_a_file_of_slurms_alone() -> None:
    password = files_of(wanted(IPMI), "c1")[POWER_PASSWORD]
    assert (password.text, password.mode, password.owner, password.secret) == ("secret\n", 0o600, "slurm", True)


def test_slurms_programs_call_the_program_with_their_word() -> None:
    files = files_of(wanted(OWN), "c1")
    assert (files[SUSPEND_PROGRAM].mode, files[RESUME_PROGRAM].mode) == (0o755, 0o755)
    assert "suspend" in files[SUSPEND_PROGRAM].text
    assert "suspend" not in files[RESUME_PROGRAM].text
    assert "resume" in files[RESUME_PROGRAM].text


@pytest.mark.parametrize(
    ("how", "told"),
    [
        (
            IPMI,
            {
                "how": "ipmi",
                "ipmi": {
                    "address": {"n1": "n1-ipmi", "n2": "n2-ipmi"}, "user": "ops", "password": POWER_PASSWORD,
                },
            },
        ),
        (
            LAN,
            {
                "how": "wake_on_lan",
                "wake_on_lan": {
                    "address": {"n1": "10.0.0.2", "n2": "10.0.0.3"},
                    "mac": {"n1": "52:54:00:12:34:56", "n2": "52:54:00:12:34:57"}, "broadcast": "10.0.0.255",
                },
            },
        ),
        (OWN, {"how": "command", "command": {"suspend": "/opt/off", "resume": "/opt/on"}}),
    ],
)  # fmt: skip
def test_settings_say_who_sleeps_when_and_how(how: str, told: dict[str, Any]) -> None:
    more = ", suspend_after: 20m, keep: n2, rate: 5, suspend_timeout: 60, resume_timeout: 10m"
    assert json.loads(files_of(wanted(how, more), "c1")[POWER_SETTINGS].text) == {
        "nodes": ["n1", "n2"], "always_on": ["n2"], "after": 1200, "keep": 0, "rate": 5, "suspend_timeout": 60,
        "resume_timeout": 600, "failures": POWER_FAILURES, **told,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("how", "host", "packages", "has_rule"),
    [
        (IPMI, "c1", ("ipmitool",), False),
        (IPMI, "n1", (), False),
        (LAN, "n1", ("sudo",), True),
        (LAN, "n2", ("sudo",), True),
        (LAN, "c1", (), False),
        (OWN, "n1", (), False),
        ("", "c1", (), False),
    ],
)
def test_a_node_that_ssh_switches_off_has_a_rule_of_sudo_and_no_other(
    how: str, host: str, packages: tuple[str, ...], has_rule: bool
) -> None:
    there = wanted(how)
    assert power.packages(there, host) == packages
    if host != "c1":
        assert bool(power.resources(there, host)) is has_rule
        assert power.timer(there, host) == ()
    if has_rule:
        (rule,) = files_of(there, host).values()
        assert (rule.path, rule.mode) == (power.SUDO_RULE, 0o440)
        assert "systemctl poweroff" in rule.text


def test_all_is_taken_back_where_nodes_do_not_sleep_any_more() -> None:
    had: dict[str, Any] = {
        "owned": ("power",),
        "programs": {"power": "x"},
        "services": {power.TIMER: "active"},
    }
    for how, host in (("", "c1"), ("", "n1"), (OWN, "n2")):
        timer, program, files = power.timer(wanted(how, **had), host)
        assert timer == Service(power.TIMER, running=False)
        assert program == Program(POWER_PROGRAM, ())
        assert isinstance(files, OwnedFiles)
        assert files.files == ()
    assert power.resources(wanted("", **had), "c1") == ()
    assert power.timer(wanted(""), "c1") == ()
