"""The controller's copy of the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.undo.lock_copy import PLACE, LockCopy, read

COPY = LockCopy("lab", "20261121T112423.829348Z-deploy", "ann@laptop", '{"version": 1}\n')


def test_a_lock_when_it_is_kept_then_is_read_as_it_was_and_is_roots_alone(root: Path, context: Context) -> None:
    assert read({}, context) == {}
    assert apply(COPY, context).status == "changed"
    assert read({}, context) == {"cluster": "lab", "run": COPY.run, "by": "ann@laptop", "text": COPY.text}
    assert (root / PLACE.lstrip("/")).stat().st_mode & 0o777 == 0o600


def test_a_lock_when_a_later_run_leaves_the_same_one_then_the_copy_stays(context: Context) -> None:
    apply(COPY, context)
    assert apply(LockCopy("lab", "later", "bob@laptop", COPY.text), context).status == "ok"
    assert apply(LockCopy("lab", "later", "bob@laptop", "{}"), context).status == "changed"
    assert read({}, context)["by"] == "bob@laptop"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cluster": 1}', "{", '{"cluster": "lab", "run": "r", "by": "b"}'])
def test_a_copy_when_it_is_damaged_then_there_is_none(root: Path, context: Context, text: str) -> None:
    path = root / PLACE.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read({}, context) == {}
    assert apply(COPY, context).status == "changed"
