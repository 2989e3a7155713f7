"""A bundle that is made: from what a host sends to a file that is whole, or no file at all."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from saved_bundles import DEBS, index_of, saved
from support import THREE_HOSTS, FakeHosts, cluster, host_facts, run_over

from slurmfab.bundle import archive, making
from slurmfab.errors import AgentFailed, InputError, SlurmfabError
from slurmfab.inventory import Inventory
from slurmfab.lock import Lock
from slurmfab.operations import Output
from slurmfab.run import Run
from slurmfab.ssh.session import Line

ALL_DEBS = {**DEBS, "slurm-client_24.11.5-4+deb13u1_amd64.deb": b"sinfo"}
INDEX = index_of(ALL_DEBS).replace("slurm-client\nVersion: 1\n", "slurm-client\nVersion: 24.11.5-4+deb13u1\n")


@dataclass
class Collector(FakeHosts):
    """A host that collects packages, and may fail before it has sent them all."""

    fails_after: str = ""
    files: Mapping[str, bytes] | None = None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "collect":
            return super().call(host, request, heard)
        assert list(request["names"]) == list(making.names_for(cluster()))
        for name, content in (self.files or ALL_DEBS).items():
            heard({"file": name})
            for at in range(0, len(content), 100_000):
                heard({"piece": base64.b64encode(content[at : at + 100_000]).decode()})
            if name == self.fails_after:
                raise AgentFailed(host, "packages cannot be downloaded.")
        return ({"collected": {"index": INDEX}},)


def run_from(tmp_path: Path, **how: Any) -> Run:
    run = run_over(Collector({"c1": host_facts("c1", architecture="amd64")}, **how), cluster())
    run.inventory = Inventory(cluster(), Lock(), tmp_path / "cluster.yaml")
    return run


def test_a_bundle_when_a_host_has_sent_it_all_then_it_lies_beside_the_cluster_file_for_all_to_read(
    tmp_path: Path,
) -> None:
    path = making.collect(run_from(tmp_path), "c1", "")
    assert path == tmp_path / "cluster.bundle-trixie-amd64.tar"
    assert path.stat().st_mode & 0o777 == 0o644
    bundle = archive.verified(path)
    assert (bundle.suite, bundle.architecture, bundle.slurm, bundle.host) == (
        "trixie", "amd64", "24.11.5-4+deb13u1", "c1",
    )  # fmt: skip
    assert bundle.names == set(making.names_for(cluster()))
    assert set(bundle.parts) == {*ALL_DEBS, "Packages"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_bundle_when_there_is_an_older_one_then_it_takes_its_place(tmp_path: Path) -> None:
    old = saved(tmp_path, name="cluster.bundle-trixie-amd64")
    before = archive.verified(old).digest
    assert making.collect(run_from(tmp_path), "c1", "") == old
    assert archive.verified(old).digest != before
    assert list(tmp_path.iterdir()) == [old]


@pytest.mark.parametrize("to", ["other.tar", "new/", "."])
def test_a_bundle_when_it_shall_be_elsewhere_then_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = making.collect(run_from(tmp_path), "c1", to)
    assert path == (Path(to) if to == "other.tar" else Path(to) / "cluster.bundle-trixie-amd64.tar")
    archive.verified(path)


def test_a_bundle_when_the_host_fails_midway_then_the_old_one_stays_and_nothing_is_left_of_the_new(
    tmp_path: Path,
) -> None:
    old = saved(tmp_path, name="cluster.bundle-trixie-amd64")
    before = old.read_bytes()
    with pytest.raises(AgentFailed, match="cannot be downloaded"):
        making.collect(run_from(tmp_path, fails_after=next(iter(DEBS))), "c1", "")
    assert old.read_bytes() == before
    assert list(tmp_path.iterdir()) == [old]


def test_a_host_when_it_sends_what_is_no_package_then_it_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="no name of a package's file"):
        making.collect(run_from(tmp_path, files={"../../x": b""}), "c1", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["cluster.yaml", "bundle"])
def test_a_bundle_when_its_name_would_be_another_files_then_nobody_is_asked(tmp_path: Path, to: str) -> None:
    (tmp_path / "cluster.yaml").write_text(THREE_HOSTS)
    with pytest.raises(InputError, match=r"the name of a bundle ends in \.tar"):
        making.make(str(tmp_path / "cluster.yaml"), "", str(tmp_path / to), Output())
    assert (tmp_path / "cluster.yaml").read_text() == THREE_HOSTS


def test_a_host_when_it_does_not_answer_then_another_one_is_advised(tmp_path: Path) -> None:
    with pytest.raises(SlurmfabError, match="another host may do: fab bundle --from HOST"):
        making.collect(run_from(tmp_path), "n1", "")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("", "\nbundle: cluster.bundle-trixie-amd64.tar"),
        ("bundle: other.tar\n", "\nbundle: [other.tar, cluster.bundle-trixie-amd64.tar]"),
        ("bundle: cluster.bundle-trixie-amd64.tar\n", ""),
    ],
)
def test_a_new_bundle_when_the_cluster_file_does_not_name_it_then_the_line_for_that_is_told(
    tmp_path: Path, named: str, said: str
) -> None:
    known = Inventory(cluster(THREE_HOSTS + named), Lock(), tmp_path / "cluster.yaml")
    words = making.told(known, archive.verified(saved(tmp_path, name="cluster.bundle-trixie-amd64")))
    assert words.endswith(said)
    assert ("bundle: " in words) == bool(said)
