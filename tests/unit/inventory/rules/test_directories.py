"""Directories that a cluster file names: those of the system, homes, and those in use otherwise are refused."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError

HEAD = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
users: [{name: ann, home: /data/people/ann}]
"""
KEYS = {
    "state_directory": "state_directory: {path}",
    "backup.directory": "backup: {{directory: {path}}}",
    "private_tmp.BasePath": "private_tmp: {{BasePath: {path}}}",
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc", "is a directory of the system"),
        ("/home", "is a directory of the system"),
        ("/srv", "is a directory of the system"),
        ("/var/lib", "is a directory of the system"),
        ("/usr/local/bin", "is a directory of the system"),
        ("/dev/shm/slurm", "is a directory of the system"),
        ("/root/backups", "is a directory of the system"),
        ("/home/ann", "is the place of a home"),
        ("/data/people/ann", "is the home of ann"),
        ("/var/lib/slurm/home", "is or contains /var/lib/slurm/home"),
        ("/var/lib/mysql", "is or contains /var/lib/mysql"),
    ],
)
def test_a_directory_with_another_purpose_is_refused_with_its_line(key: str, path: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(f"{HEAD}{KEYS[key].format(path=path)}\n")
    assert f'cluster.yaml:5: {key}: "{path}" {why}' in str(refused.value)


@pytest.mark.parametrize("key", [*KEYS.values(), "scratch: {{path: {path}, size: 4G}}", "slurm_conf_directory: {path}"])
@pytest.mark.parametrize(
    ("path", "user"),
    [("/home/bob/b", "bob"), ("/home/bob/a/b/c", "bob"), ("/data/people/ann/backups", "ann")],
)
def test_a_directory_in_a_home_is_refused_with_its_line_and_the_user(key: str, path: str, user: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(f"{HEAD}{key.format(path=path)}\n")
    assert f'"{path}" is in the home of {user}, who could put another one in its place' in str(refused.value)
    assert "cluster.yaml:5: " in str(refused.value)


def test_slurmctlds_state_may_be_in_the_slurm_users_own_home_and_roots_directories_may_not() -> None:
    assert "/home/slurm/state" in repr(cluster(f"{HEAD}state_directory: /home/slurm/state\n"))
    with pytest.raises(InputError, match="is in the home of slurm"):
        cluster(f"{HEAD}backup: {{directory: /home/slurm/backups}}\n")


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "path", ["/srv/slurm", "/backup", "/homes/slurm/state", "/var/spool/slurmctld", "/var/lib/slurm/other", "/etcetera"]
)
def test_a_directory_for_one_purpose_is_accepted(key: str, path: str) -> None:
    assert path in repr(cluster(f"{HEAD}{KEYS[key].format(path=path)}\n"))


@pytest.mark.parametrize(
    ("more", "other"),
    [
        ("state_directory: /srv/slurm/state\n", "/srv/slurm/state, which is state_directory"),
        ("backup: {directory: /srv/slurm}\n", "/srv/slurm, which is backup.directory"),
    ],
)
def test_private_directories_are_apart_from_state_and_backups(more: str, other: str) -> None:
    with pytest.raises(InputError, match=other):
        cluster(f"{HEAD}{more}private_tmp: {{BasePath: /srv/slurm}}\n")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("state_directory: /data", 'state_directory: "/data" is closed to others, and contains /data/people/ann'),
        ("backup: {directory: /data/people}", "which is the home of ann"),
        ("backup: {directory: /data/x}\nstate_directory: /data/x/state", "which is state_directory"),
        ("backup: {directory: /d}\nmounts: [{path: /d/e, source: tmpfs, type: tmpfs}]", "which is mounts[0]"),
        ("backup: {directory: /d}\nexports: [{path: /d/e, host: c1}]", "which is exports[0]"),
    ],
)
def test_a_closed_directory_when_others_have_to_pass_it_then_is_refused_with_both_keys(said: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(f"{HEAD}{said}\n")
    assert why in str(refused.value)


def test_a_closed_directory_when_it_has_a_file_system_of_its_own_then_is_accepted() -> None:
    assert cluster(f"{HEAD}state_directory: /d/e\nmounts: [{{path: /d/e, source: tmpfs, type: tmpfs}}]\n").mounts
