"""Directories that a cluster file names: those of the system, homes, and those in use otherwise are refused."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.errors import InputError

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


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "path", ["/srv/slurm", "/backup", "/home/slurm/state", "/var/spool/slurmctld", "/var/lib/slurm/other", "/etcetera"]
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
