"""Ansible inventories: hosts, ranges, groups and the variables that say how SSH reaches a host."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.host_files.ansible import parse_ini, parse_yaml
from slurmfab.cluster.host_files.host_file import HostFile

INI = """
# the head is first
head ansible_host=10.0.0.1 ansible_user=admin

[gpu]
g[01:03] gpus=8
big.site:2222 ansible_host=10.0.0.9   # an aside

[cpu]
c-[a:c] ansible_port=2200

[nodes:children]
gpu
cpu

[gpu:vars]
ansible_user=gpuadmin
motd="hello world"

[nodes:vars]
ansible_user = root

[all:vars]
ansible_port=22
"""

YAML = """
all:
  vars: {ansible_user: root}
  hosts:
    head: {ansible_host: 10.0.0.1}
  children:
    gpu:
      hosts:
        g[01:02]:
        g07: {ansible_host: "fd83::7", ansible_port: 2222, tags: [a, b]}
      vars:
        ansible_user: gpuadmin
    nodes:
      children:
        gpu:
"""


def endpoints(file: HostFile, group: str = "") -> list[str]:
    return [host.endpoint for host in file.selected(group)]


def test_an_ini_inventory_when_all_is_selected_then_has_every_host_in_the_files_order() -> None:
    assert endpoints(parse_ini(INI, "hosts")) == [
        "admin@10.0.0.1:22",
        "gpuadmin@g01:22",
        "gpuadmin@g02:22",
        "gpuadmin@g03:22",
        "gpuadmin@10.0.0.9:2222",
        "root@c-a:2200",
        "root@c-b:2200",
        "root@c-c:2200",
    ]


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("gpu", ["g01", "g02", "g03", "big.site"]),
        ("nodes", ["g01", "g02", "g03", "big.site", "c-a", "c-b", "c-c"]),
        ("ungrouped", ["head"]),
        ("all", ["head", "g01", "g02", "g03", "big.site", "c-a", "c-b", "c-c"]),
    ],
)
def test_a_group_when_selected_then_has_its_hosts_and_those_of_its_children(group: str, names: list[str]) -> None:
    assert [host.name for host in parse_ini(INI, "hosts").selected(group)] == names


def test_a_yaml_inventory_when_read_then_has_hosts_groups_and_variables() -> None:
    file = parse_yaml(YAML, "hosts.yml")
    assert endpoints(file) == ["root@10.0.0.1", "gpuadmin@g01", "gpuadmin@g02", "gpuadmin@[fd83::7]:2222"]
    assert [host.name for host in file.selected("nodes")] == ["g01", "g02", "g07"]


def test_a_childs_variable_when_its_parent_sets_it_too_then_holds_whatever_their_names() -> None:
    text = "[zz:children]\naa\n[aa]\nn1\n[zz:vars]\nansible_user=parent\n[aa:vars]\nansible_user=child\n"
    assert endpoints(parse_ini(text, "hosts")) == ["child@n1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gpu]\nn[1:3\n", "hosts:2: 'n[1:3' is no name of a host"),
        ("[gpu]\nn[5:3]\n", "hosts:2: 'n[5:3]'"),
        ("[gpu]\nn1 n2\n", "hosts:2: 'n2' is no variable"),
        ("[gpu]\nn1 'x\n", "hosts:2: this line cannot be read"),
        ("[gpu]\nn[1:99999999]\n", "hosts:2:"),
        ("[a:children]\nb\n[b:children]\na\n[a]\nn1\n", "its groups contain each other"),
        ("[gpu]\nn1 ansible_host={{ip}}\n", "n1: ansible_host is a template"),
        ("[gpu]\nn1 ansible_port=ssh\n", "n1: ansible_port 'ssh' is not a number"),
    ],
)
def test_a_mistake_in_an_ini_inventory_when_read_then_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_ini(text, "hosts")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- hosts: all\n", "hosts.yml:1:"),
        ("all:\n  host:\n    n1:\n", "'host' is none of hosts, vars and children"),
        ("all:\n  hosts: n1\n", "hosts.yml:2: a mapping is expected"),
        ("all: [\n", "hosts.yml:1: this is not valid YAML"),
    ],
)
def test_a_mistake_in_a_yaml_inventory_when_read_then_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_yaml(text, "hosts.yml")
    assert words in str(refused.value)


def test_a_group_when_it_is_not_in_the_file_then_the_groups_that_are_there_are_named() -> None:
    with pytest.raises(InputError, match=r"there is no group .gpus.\. It has all, cpu, gpu, nodes, ungrouped"):
        parse_ini(INI, "hosts").selected("gpus")
