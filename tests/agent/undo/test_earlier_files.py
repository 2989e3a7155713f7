"""Files that a run has replaced, put back because a daemon does not start with the new ones."""

from __future__ import annotations

from pathlib import Path

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, Resource, apply
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.restored_file import EarlierFiles

EARLIER, RUN = "20260101T120001.000000Z-deploy", "20260101T120002.000000Z-deploy"
CONF, GRES, OTHER = "/etc/slurm.conf", "/etc/gres.conf", "/etc/other.conf"


def during(root: Path, run: str, resource: Resource) -> Outcome:
    """Apply a resource in a run."""
    context = Context(str(root), run_id=run)
    context.keep = undo_store.keep
    return apply(resource, context)


def test_files_that_the_run_replaced_made_or_removed_are_as_before_it_and_others_stay(root: Path) -> None:
    (root / "etc/gres.conf").write_text("gres\n")
    during(root, EARLIER, File(CONF, "first\n"))
    for resource in (File(CONF, "bad\n"), Absent(GRES), File(OTHER, "new\n")):
        during(root, RUN, resource)
    before = EarlierFiles((GRES, CONF, "/etc/untouched.conf"), RUN)
    outcome = during(root, RUN, before)
    assert (outcome.status, [change.name for change in outcome.changes]) == ("changed", [GRES, CONF])
    assert (root / "etc/slurm.conf").read_text() == "first\n"
    assert (root / "etc/gres.conf").read_text() == "gres\n"
    assert (root / "etc/other.conf").read_text() == "new\n"
    assert during(root, RUN, before).status == "ok"
    during(root, RUN, EarlierFiles((OTHER,), RUN))
    assert not (root / "etc/other.conf").exists()


def test_a_run_that_replaced_nothing_has_nothing_to_put_back(root: Path) -> None:
    (root / "etc/slurm.conf").write_text("stays\n")
    assert during(root, RUN, EarlierFiles((CONF,), RUN)).status == "ok"
    assert (root / "etc/slurm.conf").read_text() == "stays\n"
