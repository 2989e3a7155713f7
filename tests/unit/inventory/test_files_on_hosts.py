"""Reading the site's own files, and filling in templates among them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.file_contents import Content, read_whole, text_on


def with_template(text: str) -> tuple[Cluster, Content]:
    """A cluster with a file that is this template, and its content."""
    found = cluster(f"{THREE_HOSTS}files: {{/etc/motd: {{source: motd, template: true}}}}\n")
    return found, Content("/etc/motd", text)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{ cluster }} {{ host }} {{ address }} {{ roles | join(',') }}\n", "lab n1 10.0.0.2 compute\n"),
        ("{% for one in hosts %}\n{{ addresses[one] }}\n{% endfor %}\n", "10.0.0.1\n10.0.0.2\n10.0.0.3\n"),
        ("{{ controllers[0] }} {{ compute | length }} {{ partitions | join }}{{ login }}{{ database }}", "c1 2 main()"),
    ],
)
def test_a_template_has_the_values_of_the_cluster_and_the_host(text: str, filled: str) -> None:
    found, content = with_template(text)
    assert text_on(found, "n1", content) == filled


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ok\n{% if %}\n", "files./etc/motd: motd, line 2: "),
        ("{{ clutser }}", "files./etc/motd: motd, line 1: 'clutser' is undefined"),
        ("{{ hosts[9] }}", "files./etc/motd: "),
        ("{{ host + 1 }}", "files./etc/motd: "),
        ("{{ 1 // (host | length - 2) }}", "files./etc/motd: "),
    ],
)
def test_a_wrong_template_is_refused_before_anything_is_changed(tmp_path: Path, text: str, reason: str) -> None:
    found, _ = with_template(text)
    (tmp_path / "motd").write_text(text)
    with pytest.raises(InputError) as error:
        read_whole(found, tmp_path)
    assert str(error.value).startswith(reason)
    assert str(error.value).endswith("Nothing was changed on any host.")


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"files./etc/motd: .*/motd cannot be read: No such file"):
        read_whole(with_template("")[0], tmp_path)


def test_a_file_that_is_no_text_is_taken_byte_by_byte(tmp_path: Path) -> None:
    found = cluster(f"{THREE_HOSTS}files: {{/etc/apt/keyrings/site.gpg: {{source: site.gpg}}}}\n")
    (tmp_path / "site.gpg").write_bytes(bytes(range(256)))
    (content,) = read_whole(found, tmp_path)
    assert content.text.encode("utf-8", "surrogateescape") == bytes(range(256))
