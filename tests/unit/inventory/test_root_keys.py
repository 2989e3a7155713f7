"""Keys of a cluster file that can make somebody root: all that are not known to be harmless."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.accounting import User
from slurmfab.cluster.inventory.cluster import HARMLESS, Cluster, NodeGroup
from slurmfab.commands.backup.trust import HARMLESS_OF_GROUP, HARMLESS_OF_USER, MOST_SHOWN, root_keys

MEANS_ROOT = {
    "ssh", "slurm_conf", "cgroup_conf", "slurmdbd_conf", "slurm_files", "slurm_conf_directory", "slurm", "packages",
    "files", "ids", "state_directory", "database", "users", "backup", "mounts", "exports", "homes", "private_tmp",
    "scratch", "mail", "modules", "mpi", "containers", "registry", "firewall", "monitoring", "gpu_checks", "acceptance",
    "drift", "prolog", "epilog", "job_environment", "health", "power", "bundle", "slurm_ssh", "user_ssh", "slurm_user",
    "guard_directories", "rest", "directory", "jupyter", "login_slurm",
}  # fmt: skip
MEANS_MORE_OF_USER = {"uid", "gid", "groups", "home", "keys", "sudo", "settings"}


def shown(more: str) -> str:
    cluster = loading.parse(f"{THREE_HOSTS}{more}", "cluster.yaml")
    return "\n".join(root_keys(cluster))


def test_every_key_of_a_cluster_file_is_known_to_be_harmless_or_not() -> None:
    assert set(Cluster.model_fields) == HARMLESS | MEANS_ROOT
    assert not HARMLESS & MEANS_ROOT
    assert set(NodeGroup.model_fields) == HARMLESS_OF_GROUP | {"slurm"}
    assert set(User.model_fields) == HARMLESS_OF_USER | MEANS_MORE_OF_USER
    assert not HARMLESS_OF_USER & MEANS_MORE_OF_USER


def test_a_plain_cluster_has_no_keys_that_mean_root() -> None:
    assert shown("licenses: {ansys: 4}\nusers: [{name: ann, uid: 4000}]\n") == ""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("files: {/etc/cron.d/evil: {text: '* * * * * root id'}}\n", ("files./etc/cron.d/evil: ", "root id")),
        ("users: [{name: eve, sudo: true}]\n", ('users.eve: {"sudo": true}',)),
        ("users: [{name: eve, groups: [team]}]\n", ("users.eve: ", "team")),
        ("homes: /home\nmounts: [{path: /home, source: '192.0.2.1:/home', type: nfs}]\n", ("homes: /home",)),
        ("slurm_conf: {Epilog: /tmp/x}\n", ("slurm_conf.Epilog: /tmp/x",)),
        ("slurm_conf: {Prolog: /tmp/x}\n", ("slurm_conf.Prolog: /tmp/x",)),
        ("prolog: prolog.d\n", ("prolog: prolog.d",)),
        ("packages: {all: [evil]}\n", ("packages.",)),
        ("health: {daemons: [evil]}\n", ("health.",)),
        (
            "login: l1\nlogin_slurm: {version: '24.11.*', source: {suite: evil}}\n",
            ("login_slurm.", "evil"),
        ),
        ("user_ssh: hostbased\n", ("user_ssh: hostbased",)),
        ("state_directory: /shared/state\n", ("state_directory: /shared/state",)),
        ("bundle: /tmp/evil.tar\n", ("bundle: /tmp/evil.tar",)),
        ("mounts: [{path: /opt/site, source: '192.0.2.1:/evil', type: nfs}]\n", ("mounts: ", "192.0.2.1:/evil")),
    ],
)
def test_a_key_that_can_make_somebody_root_is_shown_with_its_value(more: str, words: tuple[str, ...]) -> None:
    text = shown(more)
    assert all(word in text for word in words), text


def test_where_nodes_of_a_group_get_slurm_from_is_shown() -> None:
    group = "{hosts: n3, slurm: {version: '24.11.*', source: {suite: evil}}}"
    text = THREE_HOSTS.replace("nodes: [", f"nodes: [{group}, ")
    (line,) = root_keys(loading.parse(text, "cluster.yaml"))
    assert line.startswith("nodes.n3.slurm: ")
    assert "evil" in line


def test_a_public_key_of_a_user_is_shown() -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG0Z0nE9rVhPvP3n0nXo0bRr4s0Wn3iE0e0Yk0sQm0aB eve"
    assert f'users.eve: {{"keys": ["{key}"]}}' in shown(f"users: [{{name: eve, keys: ['{key}']}}]\n")


def test_a_long_value_or_one_with_control_characters_takes_one_line() -> None:
    content = "\\e[2J\\n" + "x" * 500
    (line,) = shown(f'files: {{/etc/motd: {{text: "{content}"}}}}\n').splitlines()
    assert "\x1b" not in line
    assert "more characters)" in line
    assert len(line) < 2 * MOST_SHOWN
