"""The directory of a twin's cluster file: what the real one names beside and above it is found."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from slurmfab.commands.rehearse.stage import ended_in_order, link_neighbours, place_of


def test_paths_above_the_cluster_file_mean_the_same_on_the_twin(tmp_path: Path) -> None:
    known = tmp_path / "site/clusters/titanic/cluster.yaml"
    (known.parent / "cluster.runs").mkdir(parents=True)
    known.write_text("cluster: titanic\n")
    for name in ("../shared.conf", "../../keys/site.pub", "prolog.d/10-check"):
        (known.parent / name).parent.mkdir(exist_ok=True)
        (known.parent / name).write_text(name)
    (tmp_path / "link").symlink_to(known.parent)
    place = place_of(tmp_path / "link/cluster.yaml", tmp_path / "twin")
    link_neighbours(known.parent, place, "cluster.")
    for name in ("../shared.conf", "../../keys/site.pub", "prolog.d/10-check", "/etc/hostname"):
        assert (place / name).read_bytes() == (known.parent / name).read_bytes()
    assert not any(path.name.startswith("cluster.") for path in place.iterdir())
    assert (tmp_path / "twin").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_rehearsal_that_a_signal_ends_removes_its_twin_first(number: signal.Signals) -> None:
    done: list[str] = []
    before = signal.getsignal(number)

    def rehearse() -> None:
        with ended_in_order():
            try:
                os.kill(os.getpid(), number)
                signal.pause()
            finally:
                done.append("removed")

    with pytest.raises(SystemExit) as end:
        rehearse()
    assert (end.value.code, done) == (128 + number, ["removed"])
    assert signal.getsignal(number) == before
