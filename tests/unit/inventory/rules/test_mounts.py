"""Mounts in a cluster file: what does not fit together, or would hide the system, is refused with its line."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.mounts import covering, needs_network
from slurmfab.cluster.inventory.storage import mounts_of

HEAD = """\
cluster: lab
controllers: [c1]
login: [l1]
nodes: [{hosts: "n[1-2]"}]
mounts:
"""


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("{path: home, source: 'a:/b', type: nfs}", "is not an absolute path"),
        ("{path: /etc, source: 'a:/b', type: nfs}", "is a directory of the system"),
        ("{path: /root, source: 'a:/b', type: nfs}", "is a directory of the system"),
        ("{path: /var, source: 'a:/b', type: nfs}", "is a directory of the system"),
        ("{path: /etc/slurm, source: 'a:/b', type: nfs}", "would hide /etc/slurm"),
        ("{path: /var/lib/slurmfab/x, source: 'a:/b', type: nfs}", "would hide /var/lib/slurmfab"),
        ("{path: /home, source: /b, type: nfs}", "is SERVER:PATH"),
        ("{path: /home, source: 'a:/b', type: cifs}", "is //SERVER/SHARE"),
        ("{path: /home, source: home, type: bind}", "is another directory of the host"),
        ("{path: /home, source: /home, type: bind}", "is another directory of the host"),
        ("{path: /home, source: 'a:/b c', type: nfs}", "without spaces"),
        ("{path: /home, source: 'a:/b', type: 'NFS 4'}", "is not a type of file systems"),
        ("{path: /home, source: 'a:/b', type: nfs, options: 'x-systemd.automount'}", "automount: true"),
        ("{path: /home, source: '//a/b', type: cifs, options: ['password=geheim']}", "credentials=FILE"),
        ("{path: /home, source: 'a:/b', type: nfs, hosts: n1, roles: compute}", "has roles or hosts, not both"),
        ("{path: /home, source: 'a:/b', type: nfs, hosts: n9}", '"n9" is no host of this cluster'),
        ("{path: /home, source: 'a:/b', type: nfs, roles: worker}", "roles"),
    ],
)
def test_a_mount_that_cannot_be_right_is_refused_with_its_line(entry: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(f"{HEAD}  - {entry}\n")
    assert "cluster.yaml:6: mounts[0]" in str(refused.value)
    assert why in str(refused.value)
    assert "geheim" not in str(refused.value)


def test_a_path_that_is_mounted_twice_on_a_host_is_refused() -> None:
    both = "  - {{path: /home, source: 'a:/b', type: nfs, {}}}\n  - {{path: /home, source: 'c:/d', type: nfs, {}}}\n"
    with pytest.raises(InputError, match=r'"/home" is already mounted on n1 by mounts\[0\]'):
        cluster(HEAD + both.format("roles: compute", "hosts: [l1, n1]"))
    assert len(cluster(HEAD + both.format("roles: compute", "hosts: [l1, c1]")).mounts) == 2


def test_mounts_of_a_host_follow_its_roles_and_know_what_is_on_them() -> None:
    found = cluster(
        HEAD
        + "  - {path: /home/soft, source: /shared/soft, type: bind}\n"
        + "  - {path: /home, source: 'a:/b', type: sshfs, roles: [login, compute]}\n"
        + "  - {path: /shared, source: 'a:/c', type: nfs, hosts: n1}\n"
    )
    assert [one.path for one in mounts_of(found, "n1")] == ["/home", "/home/soft", "/shared"]
    assert [one.path for one in mounts_of(found, "c1")] == ["/home/soft"]
    inner = covering(mounts_of(found, "n1"), "/home/soft/x")
    assert inner is not None
    assert inner.path == "/home/soft"
    assert covering(mounts_of(found, "n1"), "/homeless") is None
    assert [needs_network(found.mounts[0], mounts_of(found, host)) for host in ("n1", "c1")] == [True, False]
    assert found.mounts[1].type == "fuse.sshfs"


@pytest.mark.parametrize(
    ("mounts", "lacking"),
    [
        ("mounts: []", r"on no mount of l1,n\[1-2\], where users work"),
        ("mounts: [{path: /data, source: 'a:/b', type: nfs, roles: compute}]", "on no mount of l1,"),
        ("exports: [{path: /data/home, host: l1}]", r"on no mount of n\[1-2\],"),
    ],
)
def test_homes_that_users_do_not_find_everywhere_are_refused_with_their_line(mounts: str, lacking: str) -> None:
    with pytest.raises(InputError, match=f'cluster.yaml:5: homes: "/data/home" is {lacking}'):
        cluster(HEAD.replace("mounts:\n", "") + f"homes: /data/home\n{mounts}\n")


@pytest.mark.parametrize(
    "mounts",
    [
        "mounts: [{path: /data, source: 'a:/b', type: nfs, roles: [login, compute]}]",
        "exports: [{path: /data/home, host: l1, mount: /data/home, to: compute}]",
        "exports: [{path: /srv/home, host: c1, mount: /data/home}]",
    ],
)
def test_homes_on_shared_file_systems_are_those_of_users_without_their_own(mounts: str) -> None:
    head = HEAD.replace("mounts:\n", "") + f"homes: /data/home\n{mounts}\n"
    found = cluster(head + "users: [{name: ann}, {name: bob, home: /other/bob}]\n")
    assert [user.home_directory for user in found.users] == ["/data/home/ann", "/other/bob"]
    other = cluster(head + "unix_users: false\nusers: [{name: ann}]\n")
    assert other.users[0].home == ""
