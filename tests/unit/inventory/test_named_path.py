"""Files that a cluster file names are read only if nobody else chose them, since what root can read goes to hosts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.named_path import named
from slurmfab.core.engine.planning import read_local_input

OTHER = 12345  # a UID that nobody has

pytestmark = pytest.mark.needs_root("only root can give files to other users")


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """The directory of a cluster file, with files of the admin's in shared/."""
    (tmp_path / "configs/shared").mkdir(parents=True, mode=0o755)
    for name in ("motd.txt", "pkg_1_all.deb", "ca.pem", "repo.asc"):
        (tmp_path / "configs/shared" / name).write_text("ours\n")
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    secret.chmod(0o600)
    return tmp_path / "configs"


def with_foreign_link(beside: Path) -> None:
    (beside / "shared/motd.txt").unlink()
    (beside / "shared/motd.txt").symlink_to(beside.parent / "secret")
    os.lchown(beside / "shared/motd.txt", OTHER, OTHER)


def with_foreign_file(beside: Path) -> None:
    os.chown(beside / "shared/motd.txt", OTHER, OTHER)


def with_open_file(beside: Path) -> None:
    (beside / "shared/motd.txt").chmod(0o666)


def with_open_directory(beside: Path) -> None:
    (beside / "shared").chmod(0o777)


def with_directory_that_is_a_foreign_link(beside: Path) -> None:
    (beside / "shared").rename(beside.parent / "elsewhere")
    (beside / "shared").symlink_to(beside.parent / "elsewhere")
    os.lchown(beside / "shared", OTHER, OTHER)


def with_link_through_an_open_directory(beside: Path) -> None:
    (beside.parent / "open").mkdir()
    (beside.parent / "open").chmod(0o777)
    (beside / "shared/motd.txt").rename(beside.parent / "open/motd.txt")
    (beside / "shared/motd.txt").symlink_to("../../open/motd.txt")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (with_foreign_link, "shared/motd.txt belongs to another user"),
        (with_foreign_file, "shared/motd.txt belongs to another user"),
        (with_open_file, "others may write to {}/shared/motd.txt"),
        (with_open_directory, "others may write to {}/shared"),
        (with_directory_that_is_a_foreign_link, "shared belongs to another user"),
        (with_link_through_an_open_directory, "others may write to {}/open"),
    ],
)
def test_a_file_that_somebody_else_may_choose_then_is_not_read_and_the_reason_is_told(
    beside: Path, made: Callable[[Path], None], why: str
) -> None:
    made(beside)
    with pytest.raises(InputError) as refused:
        named(beside, "shared/motd.txt")
    place = beside.parent if "/open" in why else beside
    assert why.format(place) in str(refused.value)
    assert str(refused.value).endswith("who may not change the cluster file.")


def test_links_and_files_of_the_admins_own_then_are_read(beside: Path, tmp_path: Path) -> None:
    (beside / "shared/link").symlink_to(tmp_path / "secret")
    assert named(beside, "shared/link").read_text() == "hunter2\n"
    assert named(beside, tmp_path / "secret").read_text() == "hunter2\n"
    assert named(beside, "shared/none") == beside / "shared/none"


def test_files_of_those_who_share_the_cluster_file_then_are_read(beside: Path) -> None:
    for path in (beside, beside / "shared"):
        os.chown(path, 0, OTHER)
        path.chmod(0o2775)
    os.chown(beside / "shared/motd.txt", 0, OTHER)
    (beside / "shared/motd.txt").chmod(0o664)
    assert named(beside, "shared/motd.txt").read_text() == "ours\n"


def test_a_file_in_a_directory_where_each_user_may_replace_their_own_alone_then_is_read(beside: Path) -> None:
    (beside / "shared").chmod(0o1777)
    assert named(beside, "shared/motd.txt").read_text() == "ours\n"
    with_foreign_link(beside)
    with pytest.raises(InputError, match="belongs to another user"):
        named(beside, "shared/motd.txt")


@pytest.mark.parametrize(
    "text",
    [
        "files: {/etc/note: {source: shared/motd.txt}}",
        "slurm_files: {job_container.conf: shared/motd.txt}",
        "prolog: shared",
        "packages: {all: [shared/pkg_1_all.deb]}",
        "slurm: {version: '26.05.*', source: {uris: ['https://d.example.org'], suites: [./], key: shared/repo.asc}}",
        "slurm: {version: '26.05.*', source: {directory: shared}}",
        "mail: {relay: mail.example.org, from: a@example.org, user: a, password_file: shared/motd.txt}",
    ],
)
def test_each_kind_of_file_that_a_cluster_file_names_then_is_judged(beside: Path, text: str) -> None:
    known = Inventory(cluster(f"{THREE_HOSTS}{text}\n"), Lock(), beside / "cluster.yaml")
    with_open_directory(beside)
    with pytest.raises(InputError, match=f"is not read: others may write to {beside}/shared "):
        read_local_input(known)
