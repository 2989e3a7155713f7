"""Making a bundle: from the packages that a host sends to a complete file, or no file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from saved_bundles import DEBS, index_of, saved
from support import THREE_HOSTS, FakeHosts, cluster, host_facts, run_over

from slurmfab.base.errors import AgentFailed, InputError, SlurmfabError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.bundle import archive, making
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import Line

ALL_DEBS = {**DEBS, "slurm-client_24.11.5-4+deb13u1_amd64.deb": b"sinfo"}
INDEX = index_of(ALL_DEBS).replace("slurm-client\nVersion: 1\n", "slurm-client\nVersion: 24.11.5-4+deb13u1\n")


@dataclass
class Collector(FakeHosts):
    """A host that sends packages, and may fail before the last one."""

    fails_after: str = ""
    files: Mapping[str, bytes] | None = None

    def call(
        self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
    ) -> tuple[Line, ...]:
        if request["op"] != "collect":
            return super().call(host, request, heard)
        assert list(request["names"]) == list(making.names_for(cluster(), "c1"))
        for name, content in (self.files or ALL_DEBS).items():
            heard({"file": name})
            for at in range(0, len(content), 100_000):
                heard({"piece": base64.b64encode(content[at : at + 100_000]).decode()})
            if name == self.fails_after:
                raise AgentFailed(host, "packages cannot be downloaded.")
        return ({"collected": {"index": INDEX}},)


def run_from(tmp_path: Path, **how: Any) -> Run:
    hosts = Collector({"c1": host_facts("c1", architecture="amd64")}, **how)
    return run_over(hosts, cluster(), path=tmp_path / "cluster.yaml")


def test_a_bundle_is_written_beside_the_cluster_file_and_readable_by_all(
    tmp_path: Path,
) -> None:
    path = making.collect(run_from(tmp_path), "c1", "")
    assert path == tmp_path / "cluster.bundle-trixie-amd64.tar"
    assert path.stat().st_mode & 0o777 == 0o644
    bundle = archive.verified(path)
    assert (bundle.manifest.suite, bundle.manifest.architecture, bundle.manifest.slurm, bundle.manifest.host) == (
        "trixie", "amd64", "24.11.5-4+deb13u1", "c1",
    )  # fmt: skip
    assert {*bundle.manifest.names} == set(making.names_for(cluster(), "c1"))
    assert set(bundle.parts) == {*ALL_DEBS, "Packages"}
    assert list(tmp_path.iterdir()) == [path]


def test_a_bundle_replaces_an_older_one(tmp_path: Path) -> None:
    old = saved(tmp_path, name="cluster.bundle-trixie-amd64")
    before = archive.verified(old).digest
    assert making.collect(run_from(tmp_path), "c1", "") == old
    assert archive.verified(old).digest != before
    assert list(tmp_path.iterdir()) == [old]


@pytest.mark.parametrize("to", ["other.tar", "new/", "."])
def test_a_bundle_can_be_written_to_a_named_file_or_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = making.collect(run_from(tmp_path), "c1", to)
    assert path == (Path(to) if to == "other.tar" else Path(to) / "cluster.bundle-trixie-amd64.tar")
    archive.verified(path)


def test_if_the_host_fails_the_old_bundle_is_kept_and_no_other_file_is_left(
    tmp_path: Path,
) -> None:
    old = saved(tmp_path, name="cluster.bundle-trixie-amd64")
    before = old.read_bytes()
    with pytest.raises(AgentFailed, match="cannot be downloaded"):
        making.collect(run_from(tmp_path, fails_after=next(iter(DEBS))), "c1", "")
    assert old.read_bytes() == before
    assert list(tmp_path.iterdir()) == [old]


def test_a_file_name_that_is_not_a_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match="not the name of a package's file"):
        making.collect(run_from(tmp_path, files={"../../x": b""}), "c1", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"piece": "%%%%"}, "not base64"),
        ({"piece": 5}, "not base64"),
        ({"piece": None}, "not base64"),
        ({"piece": "aa" * 9999 + "!"}, "not base64"),
        ({"piece": "c2luZm8="}, "before a file name"),
    ],
)
def test_data_that_is_none_or_has_no_file_name_is_the_failure_of_the_host_that_sent_it(
    tmp_path: Path, line: Line, problem: str
) -> None:
    class Liar(Collector):
        def call(
            self, host: str, request: Mapping[str, Any], heard: Callable[[Line], None] = lambda _: None
        ) -> tuple[Line, ...]:
            if request["op"] == "collect":
                if problem == "not base64":
                    heard({"file": next(iter(DEBS))})
                heard(line)
            return super().call(host, request, heard)

    hosts = Liar({"c1": host_facts("c1", architecture="amd64")})
    with pytest.raises(AgentFailed, match=problem) as failed:
        making.collect(run_over(hosts, cluster(), path=tmp_path / "cluster.yaml"), "c1", "")
    assert failed.value.host == "c1"
    assert len(str(failed.value)) < 1000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["cluster.yaml", "bundle"])
def test_a_bundle_name_without_tar_is_refused_before_any_host_is_contacted(tmp_path: Path, to: str) -> None:
    (tmp_path / "cluster.yaml").write_text(THREE_HOSTS)
    with pytest.raises(InputError, match=r"the name of a bundle must end in \.tar"):
        making.make(str(tmp_path / "cluster.yaml"), "", str(tmp_path / to), Output())
    assert (tmp_path / "cluster.yaml").read_text() == THREE_HOSTS


def test_if_the_host_does_not_answer_another_one_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(SlurmfabError, match="To use another one: fab bundle --from HOST"):
        making.collect(run_from(tmp_path), "n1", "")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("", "\nbundle: cluster.bundle-trixie-amd64.tar"),
        ("bundle: other.tar\n", "\nbundle: [other.tar, cluster.bundle-trixie-amd64.tar]"),
        ("bundle: cluster.bundle-trixie-amd64.tar\n", ""),
    ],
)
def test_the_line_for_the_cluster_file_is_printed_if_it_does_not_name_the_bundle(
    tmp_path: Path, named: str, said: str
) -> None:
    known = Inventory(cluster(THREE_HOSTS + named), Lock(), tmp_path / "cluster.yaml")
    words = making.summary(known, archive.verified(saved(tmp_path, name="cluster.bundle-trixie-amd64")))
    assert words.endswith(said)
    assert ("bundle: " in words) == bool(said)
