"""The site's own files by role and host: those of apt before packages, and the units that read the others."""

from __future__ import annotations

import dataclasses

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.cluster.inventory.file_contents import Content
from slurmfab.core.plan.phases import files
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.in_effect import InEffect
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services.service import Service

FILES = """\
files:
  /etc/motd: {text: all}
  /etc/limits: {text: l, roles: [compute], mode: 640, group: adm, restart: sssd}
  /etc/sssd/x: {text: "{{ host }}", hosts: n2, template: true, restart: sssd}
  /etc/apt/sources.list.d/site.sources: {text: s, roles: [controllers]}
"""


def planned(*, owned: tuple[str, ...] = ()) -> PlanInput:
    """What a plan is made from with these files, on hosts that have files of these capabilities."""
    found = cluster(f"{THREE_HOSTS}{FILES}")
    wanted = prepared_input(found, owned=owned)
    contents = tuple(Content(path, one.text or "") for path, one in sorted(found.files.items()))
    return dataclasses.replace(wanted, own_files=contents)


@pytest.mark.parametrize(
    ("host", "paths", "watched"),
    [
        ("c1", ["/etc/motd"], ()),
        ("n1", ["/etc/limits", "/etc/motd"], ("/etc/limits",)),
        ("n2", ["/etc/limits", "/etc/motd", "/etc/sssd/x"], ("/etc/limits", "/etc/sssd/x")),
    ],
)
def test_a_host_has_the_files_of_its_roles_and_its_own(host: str, paths: list[str], watched: tuple[str, ...]) -> None:
    first, second, *rest = files.resources(planned(), host)
    assert isinstance(first, OwnedFiles)
    assert second == InEffect(())
    assert [one[0] for one in first.files] == paths
    assert rest == ([Service("sssd", watches=watched)] if watched else [])


def test_mode_group_and_a_filled_template_reach_the_host() -> None:
    first = files.resources(planned(), "n2")[0]
    assert isinstance(first, OwnedFiles)
    assert first.files[0] == ("/etc/limits", "l", 0o640, "root", "adm", True)
    assert first.files[2][1] == "n2"


def test_files_of_apt_come_before_packages() -> None:
    kinds = [one.kind for one in files.with_packages(planned(), "c1")]
    assert kinds == ["free-space", "owned-files", "packages"]
    assert [one.kind for one in files.with_packages(planned(), "n1")] == ["free-space", "packages"]


def test_files_that_the_cluster_file_no_longer_has_are_taken_back() -> None:
    wanted = prepared_input(owned=("files", "apt"))
    assert files.resources(wanted, "n1") == (OwnedFiles("files", ()), InEffect(()))
    assert files.of_apt(wanted, "n1") == (OwnedFiles("apt", ()),)


def test_files_that_something_has_to_read_are_in_effect_at_once() -> None:
    paths = ("/etc/sysctl.d/90-a.conf", "/etc/sysctl.d/README", "/etc/tmpfiles.d/a.conf", "/etc/udev/rules.d/1.rules")
    wanted = prepared_input(THREE_HOSTS + "files:\n" + "".join(f"  {path}: {{text: a}}\n" for path in paths))
    known = dataclasses.replace(wanted, own_files=tuple(Content(path, "a") for path in paths))
    assert files.resources(known, "n1")[1] == InEffect((paths[0], *paths[2:]))
