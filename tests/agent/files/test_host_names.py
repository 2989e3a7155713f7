"""Names of the cluster in lines of others in /etc/hosts: loopback addresses become the hosts' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.files.host_names import HostNames

NAMES = HostNames("/etc/hosts", (("n1", "10.0.0.2"), ("ctl", "10.0.0.1")))
BLOCK = "# BEGIN slurmfab hosts\n10.0.0.1 ctl\n10.0.0.2 n1\n# END slurmfab hosts\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("127.0.1.1 n1\n", "10.0.0.2 n1 # by slurmfab, was 127.0.1.1\n"),
        ("127.0.1.1\tn1.example.org\tn1\n", "10.0.0.2 n1.example.org n1 # by slurmfab, was 127.0.1.1\n"),
        ("127.0.0.1 localhost ctl\n", "127.0.0.1 localhost\n10.0.0.1 ctl # by slurmfab, was 127.0.0.1\n"),
        ("::1 localhost n1 # six\n", "::1 localhost # six\n10.0.0.2 n1 # by slurmfab, was ::1\n"),
        (
            "127.0.1.1 ctl n1 # as cloned\n",
            "10.0.0.1 ctl # by slurmfab, was 127.0.1.1\n10.0.0.2 n1 # by slurmfab, was 127.0.1.1\n",
        ),
        ("10.0.0.9 n1 # by slurmfab, was 127.0.1.1\n", "10.0.0.2 n1 # by slurmfab, was 127.0.1.1\n"),
    ],
)
def test_a_name_with_a_loopback_address_gets_its_hosts_address(
    root: Path, context: Context, before: str, after: str
) -> None:
    (root / "etc/hosts").write_text(before + BLOCK)
    outcome = apply(NAMES, context)
    assert [change.actual for change in outcome.changes] == [" ".join(before.split())]
    assert (root / "etc/hosts").read_text() == after + BLOCK
    assert (outcome.status, apply(NAMES, context).status) == ("changed", "ok")


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1 localhost\n::1 localhost ip6-localhost\n",
        "127.0.1.1 n10.example.org n10\n",
        "192.168.7.2 n1 n1-data\n",
        "# 127.0.1.1 n1\n\n",
        "10.0.0.2 n1.example.org n1 # by slurmfab, was 127.0.1.1\n",
        "",
    ],
)
def test_other_lines_stay_as_they_are(root: Path, context: Context, text: str) -> None:
    (root / "etc/hosts").write_text(text + BLOCK)
    assert apply(NAMES, context).status == "ok"
    assert (root / "etc/hosts").read_text() == text + BLOCK


def test_a_missing_file_has_no_such_lines(context: Context) -> None:
    assert apply(NAMES, context).status == "ok"


def test_a_template_of_cloud_inits_gives_the_own_name_the_hosts_address(root: Path, context: Context) -> None:
    template = root / "etc/hosts.debian.tmpl"
    template.write_text("## template:jinja\n{# a comment -#}\n127.0.1.1 {{fqdn}} {{hostname}}\n127.0.0.1 localhost\n")
    own = HostNames("/etc/hosts.debian.tmpl", (("{{fqdn}}", "10.0.0.2"), ("{{hostname}}", "10.0.0.2")))
    assert [apply(own, context).status for _ in range(2)] == ["changed", "ok"]
    assert template.read_text() == (
        "## template:jinja\n{# a comment -#}\n10.0.0.2 {{fqdn}} {{hostname}} # by slurmfab, was 127.0.1.1\n"
        "127.0.0.1 localhost\n"
    )
