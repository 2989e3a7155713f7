"""The cluster file that a lab writes, and whose file it is."""

import json

import pytest

from slurmfab.base.errors import InputError
from slurmfab.lab import clusterfile
from slurmfab.lab.spec import LabHost, LabSpec
from slurmfab.on_hosts.agent.core import replace

ADDRESSES = {"ctl": "10.1.2.10", "n1": "10.1.2.11"}


def test_render_when_root_logs_in_then_the_file_is_ready_for_a_deployment(tmp_path):
    assert clusterfile.render(LabSpec(name="x", nodes=1), ADDRESSES, tmp_path / "key").splitlines()[1:] == [
        "cluster: x",
        f"ssh: {{user: root, key: {tmp_path}/key}}",
        "addresses: {ctl: 10.1.2.10, n1: 10.1.2.11}",
        "controllers: [ctl]",
        "nodes:",
        "  - hosts: n1",
        "partitions:",
        "  - {PartitionName: main, Nodes: ALL, Default: YES, MaxTime: 1-00:00:00}",
    ]


def test_render_when_another_user_logs_in_then_sudo_makes_root(tmp_path):
    text = clusterfile.render(LabSpec(ssh_user="admin"), ADDRESSES, tmp_path / "key")
    assert f"ssh: {{user: admin, key: {tmp_path}/key, become: sudo}}" in text
    assert "hosts: n[1-2]" in text


def test_render_when_hosts_have_the_stand_in_for_schedmds_packages_then_the_file_names_their_kind_and_version(tmp_path):
    text = clusterfile.render(LabSpec(slurm_packages="smd"), ADDRESSES, tmp_path / "key")
    assert 'slurm: {packages: smd, version: "24.11.*"}' in text.splitlines()


def test_render_when_nodes_have_other_packages_then_they_are_a_group_that_says_so(tmp_path):
    spec = LabSpec(nodes=3, other_packages=("n2:el-smd",))
    assert spec.kinds == {"ctl": "debian", "n1": "debian", "n2": "el-smd", "n3": "debian"}
    lines = clusterfile.render(spec, ADDRESSES, tmp_path / "key").splitlines()
    assert lines[lines.index("nodes:") + 1 : -2] == [
        "  - hosts: n[1,3]",
        "  - hosts: n2",
        '    slurm: {packages: el-smd, version: "24.11.*"}',
    ]


def test_render_lock_when_keys_are_known_then_they_are_pinned():
    host = LabHost("x", "ctl", "10.1.2.10", "controller", {"ssh-ed25519": "AAAAexample"})
    lock = json.loads(clusterfile.render_lock([host]))
    assert lock == {"version": 1, "hosts": {"ctl": {"host_keys": {"ssh-ed25519": "AAAAexample"}}}}


def test_files_when_the_lab_wrote_them_then_they_may_be_written_again_and_are_removed(tmp_path):
    path = tmp_path / "configs" / "lab-x.yaml"
    clusterfile.write(path, clusterfile.render(LabSpec(name="x"), ADDRESSES, tmp_path), "{}")
    clusterfile.require_ours(path)
    clusterfile.remove(path)
    assert list(path.parent.iterdir()) == []


def test_files_when_somebody_else_wrote_them_then_they_are_refused_and_kept(tmp_path):
    path = tmp_path / "lab-x.yaml"
    clusterfile.write(path, "cluster: mine\n", "{}")
    with pytest.raises(InputError, match="was not written by a lab"):
        clusterfile.require_ours(path)
    clusterfile.remove(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lab-x.lock.json", "lab-x.yaml"]


def test_files_when_there_is_a_lock_alone_then_it_is_refused(tmp_path):
    (tmp_path / "lab-x.lock.json").write_text("{}")
    with pytest.raises(InputError, match="without its cluster file"):
        clusterfile.require_ours(tmp_path / "lab-x.yaml")


def test_what_a_kill_left_of_writing_a_cluster_file_when_the_lab_goes_then_goes_too(tmp_path):
    path = tmp_path / "lab-x.yaml"
    for name in (path.name, clusterfile.lock_path(path).name):
        (tmp_path / replace.temporary_name(name, "0" * replace.DIGITS)).touch()
    clusterfile.remove(path)
    assert list(tmp_path.iterdir()) == []
