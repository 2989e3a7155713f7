"""What people type for a lab, and what they are told when it makes no sense."""

import pytest
from invoke.exceptions import Exit

from slurmfab.base.errors import InputError
from slurmfab.cli.tasks import lab as tasks


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


def test_lab_down_when_the_name_cannot_be_a_labs_then_the_complaint_names_it():
    with pytest.raises(Exit, match=r'lab name "\.\./etc"'):
        tasks.lab_down.call(name="../etc")
