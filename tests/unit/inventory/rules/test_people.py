"""Mistakes in what a cluster file says of people, each with its line and what to try."""

from __future__ import annotations

import base64

import pytest

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import loading

HEAD = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x03abc").decode()
GOOD = f"""\
users:
  - {{name: ann, uid: 1000, gid: 1001, groups: [ml], shell: /usr/bin/fish, home: /data/ann, keys: ["{KEY} a@b"]}}
  - {{name: bob, uid: 70000, comment: "Bob Example, room 7", sudo: yes}}
"""


def complaints(text: str) -> list[str]:
    with pytest.raises(ClusterFileError) as error:
        loading.parse(HEAD + text, "c.yaml")
    return list(error.value.complaints)


def test_people_without_a_database_are_users_of_the_hosts() -> None:
    users = loading.parse(HEAD + GOOD, "c.yaml").users
    assert [(user.name, user.home_directory, user.sudo) for user in users] == [
        ("ann", "/data/ann", False),
        ("bob", "/home/bob", True),
    ]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{name: root}", 'name: "root" is a system user; a person needs another name'),
        ("{name: slurm}", 'name: "slurm" is a system user; a person needs another name'),
        ("{name: systemd-oom}", 'name: "systemd-oom" is a system user; a person needs another name'),
        ("{name: ann, uid: 999}", "uid: 999 is reserved for system users; people have numbers from 1000"),
        ("{name: ann, gid: 100}", "gid: 100 is reserved for system users; people have numbers from 1000"),
        ("{name: ann, uid: 65534}", "uid: 65534 cannot be a user's number"),
        ("{name: ann, uid: 64030}", "uid: 64030 is the number of slurm"),
        ("{name: ann, groups: [slurm]}",
         "groups[0]: members of slurm could take over the host or the cluster; see sudo"),
        *((f"{{name: ann, groups: [ml, {group}]}}",
           f"groups[1]: members of {group} could take over the host or the cluster; see sudo")
          for group in ("sudo", "wheel", "lxd", "adm", "disk", "incus-admin", "libvirt", "shadow")),
        ("{name: ann, groups: [docker]}",
         "groups[0]: members of docker could take over the host or the cluster; see containers.docker.users"),
        ("{name: docker}", 'name: "docker" is a system group; a person needs another name'),
        ("{name: ann, groups: [ann]}", 'groups[0]: "ann" is the user\'s own group already'),
        ("{name: ann, shell: bash}",
         'shell: "bash" is not an absolute path of letters, digits and _ . + @ -, such as /home/ann'),
        ("{name: ann, home: /home/../etc}",
         'home: "/home/../etc" is not an absolute path of letters, digits and _ . + @ -, such as /home/ann'),
        ("{name: ann, home: /home}", 'home: "/home" cannot be the home of one person'),
        ('{name: ann, comment: "a:0:0"}', "comment: it goes into a line of /etc/passwd: no colon and no line break"),
        ("{name: ann, keys: [hello]}",
         "keys[0]: this is not a public SSH key such as: ssh-ed25519 AAAAC3NzaC1… ann@laptop"),
        ("{name: ann, shel: /bin/sh}",
         "shel: unknown key; did you mean shell?"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(entry: str, told: str) -> None:
    assert complaints(f"users:\n  - {entry}\n") == [f"c.yaml:5: users[0].{told}"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("{name: ann}", 'name: "ann" is already the name of users[0]'),
        ("{name: bob, uid: 2000}", "uid: 2000 is already the UID of ann"),
        ("{name: bob, gid: 2000}", "gid: 2000 is already the GID of ann"),
        ("{name: bob, home: /home/ann}", 'home: "/home/ann" is already the home of ann'),
        (f"{{name: bob, keys: ['{KEY} bob']}}", "keys[0]: this is already a key of ann"),
    ],
    ids=["name", "uid", "gid", "home", "key"],
)
def test_what_is_one_persons_is_not_anothers(second: str, told: str) -> None:
    text = f"users:\n  - {{name: ann, uid: 2000, keys: ['{KEY} ann']}}\n  - {second}\n"
    assert f"c.yaml:6: users[1].{told}" in complaints(text)


def test_a_private_key_is_refused_and_not_shown() -> None:
    secret = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEA"
    told = complaints(f"users:\n  - name: ann\n    keys: ['{secret}']\n")
    assert told == [
        "c.yaml:6: users[0].keys[0]: this is a private key, which must stay with its owner; the public key is in the "
        ".pub file"
    ]


def test_what_is_said_of_hosts_is_refused_where_a_directory_service_has_the_people() -> None:
    told = complaints("unix_users: false\nusers:\n  - {name: ann, uid: 2000, sudo: yes}\n")
    why = "it has no effect with unix_users: false: slurmfab makes no users on the hosts"
    assert told == [f"c.yaml:6: users[0].uid: {why}", f"c.yaml:6: users[0].sudo: {why}"]


def test_all_mistakes_are_told_at_once() -> None:
    told = complaints("users:\n  - {name: root, uid: 5}\n  - {name: ann, shell: sh}\n  - {name: ann}\n")
    assert [line.split()[0] for line in told] == ["c.yaml:5:", "c.yaml:5:", "c.yaml:6:", "c.yaml:7:"]
