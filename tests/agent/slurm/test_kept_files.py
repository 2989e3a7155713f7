"""Slurm's files that were made by hand and say what is wanted: they stay, as files or as links of root's."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply, compare
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles

BY_HAND = "ClusterName=lab # ours\nInclude nodes.conf\n"
WHOLE = "ClusterName=lab # ours\nNodeName=n1\n"
CGROUP = "ConstrainCores=yes\n"
WANTED = SlurmFiles("/etc/slurm", (("slurm.conf", WHOLE), ("cgroup.conf", CGROUP)), kept=("slurm.conf",))


@pytest.fixture
def shared(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The slurm.conf that all hosts share; /etc/slurm has a link to it."""
    monkeypatch.setattr(SlurmFiles, "parse_with_slurm", lambda *_: None)
    for name in ("etc/slurm", "shared"):
        (root / name).mkdir()
    path = root / "shared/slurm.conf"
    path.write_text(BY_HAND)
    (root / "etc/slurm/nodes.conf").write_text("NodeName=n1\n")
    (root / "etc/slurm/cgroup.conf").write_text(CGROUP)
    (root / "etc/slurm/slurm.conf").symlink_to(path)
    return path


def differing(wanted: SlurmFiles, context: Context) -> list[str]:
    return [change.name for change in compare(wanted, context)]


def test_a_link_to_a_hand_made_file_that_says_what_is_wanted_is_right(shared: Path, context: Context) -> None:
    assert differing(WANTED, context) == []
    assert shared.read_text() == BY_HAND


@pytest.mark.parametrize(
    ("text", "mode", "kept"),
    [
        (BY_HAND.replace("lab", "other"), 0o644, ("slurm.conf",)),
        (BY_HAND, 0o664, ("slurm.conf",)),
        (BY_HAND, 0o600, ("slurm.conf",)),
        (BY_HAND, 0o644, ()),
    ],
    ids=["other text", "changed by others", "read by nobody", "slurmfab's own"],
)
def test_a_link_to_what_is_not_wanted_or_not_safe_is_replaced_and_its_target_stays(
    shared: Path, context: Context, text: str, mode: int, kept: tuple[str, ...]
) -> None:
    shared.write_text(text)
    shared.chmod(mode)
    wanted = SlurmFiles("/etc/slurm", WANTED.files, kept=kept)
    assert differing(wanted, context) == ["slurm.conf access"]
    assert apply(wanted, context).status == "changed"
    link = Path(context.path("/etc/slurm/slurm.conf"))
    assert (link.is_symlink(), link.read_text(), shared.read_text()) == (False, WHOLE, text)


def test_a_link_that_leads_nowhere_is_replaced(shared: Path, context: Context) -> None:
    shared.unlink()
    assert differing(WANTED, context) == ["slurm.conf access"]


def test_a_link_that_is_right_stays_when_another_file_is_replaced(shared: Path, context: Context) -> None:
    cgroup = Path(context.path("/etc/slurm/cgroup.conf"))
    cgroup.write_text("ConstrainCores=no\n")
    assert apply(WANTED, context).status == "changed"
    assert cgroup.read_text() == CGROUP
    assert Path(context.path("/etc/slurm/slurm.conf")).resolve() == shared


def test_a_host_whose_slurm_conf_differs_beside_its_include_then_shows_that_line_alone(
    root: Path, context: Context, shared: Path
) -> None:
    own = root / "etc/slurm/slurm.conf"
    own.unlink()
    own.write_text(f"{BY_HAND}KillWait=90\n")
    parts = (("slurm.conf", f"{BY_HAND}KillWait=60\n"), ("nodes.conf", "NodeName=n1\n"))
    (change,) = compare(SlurmFiles("/etc/slurm", parts, kept=("slurm.conf",)), context)
    changed = [line for line in change.diff.splitlines()[2:] if line.startswith(("-", "+"))]
    assert (change.name, changed) == ("slurm.conf", ["-KillWait=90", "+KillWait=60"])
    assert apply(SlurmFiles("/etc/slurm", parts), context).status == "changed"
    assert (own.read_text(), shared.read_text()) == (parts[0][1], BY_HAND)


def test_a_file_of_a_host_that_fetches_slurm_conf_comes_back_without_one(root: Path, context: Context) -> None:
    (root / "etc/slurm").mkdir()
    plugins = "include /etc/slurm/plugstack.conf.d/*.conf\n"
    assert apply(SlurmFiles("/etc/slurm", (("plugstack.conf", plugins),)), context).status == "changed"
    assert (root / "etc/slurm/plugstack.conf").read_text() == plugins
