"""Which files of a host have the names of all hosts: /etc/hosts, and the template from which cloud-init makes it."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.core.plan.phases import hosts_file
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.host_names import HostNames

DEBIAN, REDHAT = "/etc/cloud/templates/hosts.debian.tmpl", "/etc/cloud/templates/hosts.redhat.tmpl"
EL = THREE_HOSTS + 'slurm: {packages: el, version: "24.11.*"}\n'


@pytest.mark.parametrize(("text", "template"), [(THREE_HOSTS, DEBIAN), (EL, REDHAT)])
def test_the_lines_are_in_etc_hosts_and_in_the_template_if_cloud_init_is_there(text: str, template: str) -> None:
    wanted = prepared_input(text)
    resources = hosts_file.resources(wanted, "n1")
    blocks = [one for one in resources if isinstance(one, Block)]
    assert [(one.path, one.is_found) for one in blocks] == [("/etc/hosts", False), (template, True)]
    assert {one.content for one in blocks} == {wanted.names_and_addresses}
    address = wanted.address("n1")
    own = [one.addresses for one in resources if isinstance(one, HostNames) and one.path == template]
    assert own == [(("{{fqdn}}", address), ("{{hostname}}", address))]


def test_both_blocks_are_taken_back_where_the_cluster_file_wants_none() -> None:
    resources = hosts_file.resources(prepared_input(THREE_HOSTS + "hosts_file: false\n"), "n1")
    assert [(one.path, one.content) for one in resources if isinstance(one, Block)] == [
        ("/etc/hosts", ""),
        (DEBIAN, ""),
    ]
    assert not any(isinstance(one, HostNames) for one in resources)
