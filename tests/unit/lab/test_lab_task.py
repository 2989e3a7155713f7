"""What people type for a lab, and what they are told when it makes no sense."""

import os

import pytest
from invoke.exceptions import Exit

from slurmfab.base.errors import InputError, LabError
from slurmfab.cli.tasks import lab as tasks
from slurmfab.lab import state


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ({"nodes": "many"}, "--nodes many: this is no number"),
        ({"nodes": "-1"}, "--nodes -1: this is no number"),
        ({"gpus": "n1"}, '--gpus "n1"'),
        ({"gpus": "n[1-2]:two"}, 'gpus "n1:two"'),
        ({"down": "n7"}, 'down names "n7"'),
        ({"no_python": "n[1-"}, r"n\[1-"),
        ({"suite": "woody"}, 'suite "woody"'),
        ({"like": "debian"}, 'like "debian": the lab knows ubuntu-24.04'),
        ({"like": "ubuntu-24.04", "suite": "bookworm"}, "made of trixie, not of bookworm"),
        ({"like": "ubuntu-26.04", "user": "admin"}, "the user is ubuntu"),
        ({"name": "My-Lab"}, 'lab name "My-Lab"'),
    ],
)
def test_lab_up_when_something_typed_is_wrong_then_nothing_starts_and_the_complaint_names_it(typed, complaint):
    with pytest.raises(Exit, match=complaint) as caught:
        tasks.lab_up.call(**typed)
    assert caught.value.code == InputError.exit_code


TASKS = {
    "down": lambda name: tasks.lab_down.call(name=name),
    "off": lambda name: tasks.lab_off.call(hosts="n1", name=name),
    "on": lambda name: tasks.lab_on.call(hosts="n1", name=name),
}


@pytest.mark.parametrize("task", TASKS)
def test_a_task_of_a_lab_when_the_name_cannot_be_a_labs_then_the_complaint_names_it(task):
    with pytest.raises(Exit, match=r'lab name "\.\./etc"') as caught:
        TASKS[task]("../etc")
    assert caught.value.code == InputError.exit_code


@pytest.mark.parametrize("task", [*TASKS, "all", "status"])
def test_a_task_of_a_lab_when_root_has_labs_then_is_refused_to_others_with_the_way(task, monkeypatch):
    def closed(*_):
        raise PermissionError(13, "Permission denied", "/var/lib/slurmfab/labs")

    monkeypatch.setattr(state, "names", closed)
    monkeypatch.setattr(state, "read", closed)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    others = {"all": lambda _: tasks.lab_down.call(all=True), "status": lambda _: tasks.lab_status.call()}
    with pytest.raises(Exit, match="needs root: run the command with sudo") as caught:
        (TASKS | others)[task]("rough")
    assert caught.value.code == LabError.exit_code
