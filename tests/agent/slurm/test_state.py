"""slurmctld's state copied to another directory, and the files that show whether two hosts share a directory."""

from __future__ import annotations

import os
from pathlib import Path

from slurmfab.on_hosts.agent.core.resource import Context, Outcome, apply
from slurmfab.on_hosts.agent.files.left_file import LeftFile
from slurmfab.on_hosts.agent.slurm.state import SlurmState

OLD, NEW = "/var/lib/slurm/slurmctld", "/shared/state"


def moved(context: Context) -> Outcome:
    return apply(SlurmState(NEW, OLD), context)


def old_state(root: Path) -> Path:
    """A state directory with a job in it."""
    old = root / OLD[1:]
    (old / "hash.1/job.1").mkdir(parents=True)
    (old / "hash.1/job.1/script").write_text("#!/bin/sh\n")
    (old / "clustername").write_text("lab")
    (old / "job_state").write_text("one job")
    (root / NEW[1:]).mkdir(parents=True)
    return old


def test_a_state_when_it_moves_is_copied_whole_and_stays_where_it_was(root: Path, context: Context) -> None:
    old = old_state(root)
    os.utime(old / "job_state", (1000, 1000))
    assert moved(context).status == "changed"
    new = root / NEW[1:]
    assert (new / "hash.1/job.1/script").read_text() == "#!/bin/sh\n"
    assert ((new / "job_state").stat().st_mtime, (old / "job_state").read_text()) == (1000, "one job")
    assert moved(context).status == "ok"


def test_a_state_when_it_went_on_after_the_copy_is_copied_again(root: Path, context: Context) -> None:
    old = old_state(root)
    moved(context)
    (old / "job_state").write_text("two jobs")
    assert moved(context).status == "changed"
    assert (root / NEW[1:] / "job_state").read_text() == "two jobs"


def test_a_state_when_there_is_none_yet_needs_no_copy(root: Path, context: Context) -> None:
    (root / NEW[1:]).mkdir(parents=True)
    assert moved(context).status == "ok"


def test_a_state_of_another_cluster_in_the_new_place_is_left_alone(root: Path, context: Context) -> None:
    old_state(root)
    (root / NEW[1:] / "clustername").write_text("theirs")
    outcome = moved(context)
    assert (outcome.status, "the cluster theirs" in outcome.message) == ("failed", True)
    assert sorted(path.name for path in (root / NEW[1:]).iterdir()) == ["clustername"]


def test_a_dry_run_copies_nothing(root: Path) -> None:
    old_state(root)
    assert moved(Context(str(root), dry_run=True)).status == "would change"
    assert list((root / NEW[1:]).iterdir()) == []


def test_a_left_file_is_made_found_and_removed_in_the_nearest_directory(root: Path, context: Context) -> None:
    (root / "shared").mkdir()
    left, gone = LeftFile("/shared/slurm/state", ".mark"), LeftFile("/shared/slurm/state", ".mark", there=False)
    look = Context(str(root), dry_run=True)
    assert apply(left, look).status == "would change"
    assert apply(left, context).status == "changed"
    assert (root / "shared/.mark").exists()
    assert apply(left, look).status == "ok"
    assert apply(gone, context).status == "changed"
    assert list((root / "shared").iterdir()) == []
