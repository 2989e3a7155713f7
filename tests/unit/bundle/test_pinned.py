"""Whose bundles are installed: the one that was made or used before, and no other before somebody accepts it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from saved_bundles import DEBS, saved
from support import THREE_HOSTS, FakeHosts, cluster, facts_of, run_over

from slurmfab.base import signatures
from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.bundle import archive, making, pinned
from slurmfab.commands.bundle.archive import Bundle
from slurmfab.core.engine.file_writing import save_lock
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.run import Run, RunHooks

OTHER_DEBS = {**DEBS, "munge_0.5.16-1.1_amd64.deb": b"evil" * 100_000}
NAME = "bundle.tar"


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """A bundle that a cluster file beside it names."""
    (tmp_path / "cluster.yaml").write_text(f"{THREE_HOSTS}bundle: {NAME}\n")
    return archive.verified(saved(tmp_path))


def exchange(bundle: Bundle) -> Bundle:
    """Put another bundle of the same name, suite and packages in its place, valid in itself."""
    bundle.path.unlink()
    return archive.verified(saved(bundle.path.parent, OTHER_DEBS))


def known(bundle: Bundle) -> Inventory:
    """The cluster as it is on disk."""
    return loading.load(bundle.path.with_name("cluster.yaml"))


def run_with(bundle: Bundle, shown: io.StringIO, lock: Lock | None = None) -> Run:
    progress, hooks = Progress(shown), RunHooks(save_lock=save_lock)
    path = bundle.path.with_name("cluster.yaml")
    members = cluster(path.read_text())
    hosts = FakeHosts(facts_of(members))
    return run_over(hosts, members, lock=lock, path=path, progress=progress, hooks=hooks)


def test_a_bundle_that_is_used_for_the_first_time_is_pinned_and_the_user_is_told(bundle: Bundle) -> None:
    shown = io.StringIO()
    run = run_with(bundle, shown)
    pinned.pin_first_uses(run, pinned.bundles(run.inventory))
    assert locks.load(bundle.path.with_name("cluster.lock.json")).bundles == {NAME: bundle.digest}
    assert run.inventory.lock.bundles == {NAME: bundle.digest}
    assert f"{bundle.path} is used for the first time, and signed by a trusted key." in shown.getvalue()
    assert bundle.digest in shown.getvalue()


def test_a_bundle_that_was_used_before_is_not_talked_about(bundle: Bundle) -> None:
    shown = io.StringIO()
    run = run_with(bundle, shown, Lock(bundles={NAME: bundle.digest}))
    pinned.pin_first_uses(run, pinned.bundles(run.inventory))
    assert shown.getvalue() == ""
    assert not bundle.path.with_name("cluster.lock.json").exists()


def test_another_bundle_in_its_place_is_refused_with_both_digests_and_the_ways_out(bundle: Bundle) -> None:
    pinned.pin(known(bundle), {NAME: bundle.digest})
    other = exchange(bundle)
    with pytest.raises(InputError, match=r"bundle\.tar is another bundle than the one") as refused:
        pinned.bundles(known(bundle))
    assert bundle.digest in str(refused.value)
    assert other.digest in str(refused.value)
    assert "fab bundle --accept" in str(refused.value)


def test_another_bundle_in_its_place_is_refused_in_the_list_too(
    bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle.path.with_name("cluster.yaml")
    pinned.pin(known(bundle), {NAME: bundle.digest})
    assert making.list_bundles(str(path)) == 0
    exchange(bundle)
    assert making.list_bundles(str(path)) == 1
    assert "is another bundle than the one" in capsys.readouterr().out


def test_another_bundle_is_used_once_it_is_accepted_and_the_old_one_is_refused_then(
    bundle: Bundle, capsys: pytest.CaptureFixture[str]
) -> None:
    pinned.pin(known(bundle), {NAME: bundle.digest})
    other = exchange(bundle)
    assert pinned.accept(str(bundle.path.with_name("cluster.yaml"))) == 0
    assert f"accepted (instead of {bundle.digest})" in capsys.readouterr().out
    assert [one.digest for one in pinned.bundles(known(bundle))] == [other.digest]
    bundle.path.unlink()
    saved(bundle.path.parent)
    with pytest.raises(InputError, match="is another bundle"):
        pinned.bundles(known(bundle))


def test_a_new_bundle_that_no_trusted_key_has_signed_is_refused_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cluster.yaml").write_text(f"{THREE_HOSTS}bundle: {NAME}\n")
    bundle = archive.verified(saved(tmp_path, sign=lambda _: b""))
    with pytest.raises(InputError, match=r"nothing shows who made it: it is not signed") as refused:
        pinned.bundles(known(bundle))
    assert bundle.digest in str(refused.value)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of another"))
        bundle.path.unlink()
        bundle = archive.verified(saved(tmp_path))
        keys = signatures.own_keys()
    with pytest.raises(InputError, match=r"which is not trusted here"):
        pinned.bundles(known(bundle))
    assert pinned.accept(str(tmp_path / "cluster.yaml")) == 0
    assert pinned.bundles(known(bundle)) == (bundle,)
    locks.save(locks.with_signers(Lock(), keys), tmp_path / "cluster.lock.json")
    assert pinned.bundles(known(bundle)) == (bundle,)


def test_a_signed_bundle_in_place_of_a_pinned_one_is_refused(bundle: Bundle) -> None:
    pinned.pin(known(bundle), {NAME: bundle.digest}, signatures.own_keys())
    other = exchange(bundle)
    assert other.seal.signature
    with pytest.raises(InputError, match="is another bundle than"):
        pinned.bundles(known(bundle))


def test_a_damaged_bundle_is_not_accepted(bundle: Bundle) -> None:
    bundle.path.write_bytes(bundle.path.read_bytes()[:-9000])
    with pytest.raises(InputError, match="incomplete"):
        pinned.accept(str(bundle.path.with_name("cluster.yaml")))
    assert not bundle.path.with_name("cluster.lock.json").exists()


def test_there_is_nothing_to_accept_without_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(THREE_HOSTS)
    with pytest.raises(InputError, match="names no bundle"):
        pinned.accept(str(tmp_path / "cluster.yaml"))


def test_pinning_keeps_what_another_run_has_written_into_the_lock_meanwhile(bundle: Bundle) -> None:
    before = known(bundle)
    locks.save(Lock(slurm="24.11.5"), loading.lock_path(before.path))
    pinned.pin(before, {NAME: bundle.digest})
    assert known(bundle).lock == Lock(slurm="24.11.5", bundles={NAME: bundle.digest})


def test_an_index_that_is_exchanged_after_the_bundle_was_verified_is_refused(bundle: Bundle) -> None:
    content = bundle.path.read_bytes()
    bundle.path.write_bytes(content.replace(b"Package: munge", b"Package: evil!"))
    with pytest.raises(InputError, match="was changed while it was read"):
        bundle.index  # noqa: B018 - reading it is what is refused


@pytest.mark.parametrize(
    ("named", "path", "name"),
    [
        ("", "cluster.bundle-trixie-amd64.tar", "cluster.bundle-trixie-amd64.tar"),
        ("", "../b.tar", "{parent}/../b.tar"),
        ("bundle: ../b.tar\n", "../b.tar", "../b.tar"),
        ("bundle: ./b.tar\n", "b.tar", "./b.tar"),
    ],
)
def test_a_bundle_has_the_name_that_the_cluster_file_has_for_it_or_would_have(
    tmp_path: Path, named: str, path: str, name: str
) -> None:
    inventory = Inventory(cluster(THREE_HOSTS + named), Lock(), tmp_path / "cluster.yaml")
    assert pinned.name_in(inventory, tmp_path / path) == name.format(parent=tmp_path)
