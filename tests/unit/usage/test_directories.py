"""Which directories are measured where, and how the answers are shown."""

from __future__ import annotations

import io
from typing import Any

import pytest
from json_shapes import assert_fits

from slurmfab.base.errors import HostFailed
from slurmfab.base.json_output import as_json
from slurmfab.base.terminal import Paint
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.usage.showing import NO_ACCOUNTING, collected, directory_table, output_of, places, write

FILE: dict[str, Any] = {
    "cluster": "a",
    "controllers": ["ctl"],
    "addresses": {"ctl": "10.0.0.1", "n1": "10.0.0.2", "n2": "10.0.0.3", "nfs": "10.0.0.4"},
    "nodes": [{"hosts": "n[1-2]"}],
    "partitions": [{"PartitionName": "main", "Nodes": "ALL"}],
}
EXPORT = {"path": "/srv/home", "host": "nfs", "mount": "/home"}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ({}, {"ctl": ("/home",), "n1": ("/home",), "n2": ("/home",)}),
        ({"homes": "/data/home"}, {"ctl": ("/data/home",)}),
        ({"homes": "/home", "login": ["nfs"], "exports": [EXPORT]}, {"nfs": ("/srv/home",)}),
        (
            {"homes": "/home", "scratch": {"groups": [{"hosts": "n2", "size": "10G"}]}},
            {"ctl": ("/home",), "n2": ("/scratch",)},
        ),
    ],
    ids=["own homes", "shared homes", "served by a member", "scratch on one node"],
)
def test_shared_homes_are_measured_once_and_others_on_each_host(
    keys: dict[str, Any], found: dict[str, tuple[str, ...]]
) -> None:
    assert places(Cluster.model_validate({**FILE, **keys})) == found


def test_directories_are_shown_by_size_and_a_host_without_an_answer_by_its_reason() -> None:
    rows = [["/home", "ann", "ann", 2048, 1700000000, ""], ["/home", "bob", "bob", 0, 0, "late"]]
    large = [["/scratch", "77", "eve", 5 * 1024**4, 1700000000, "partly"]]
    found = collected(
        [("ctl", {"rows": rows, "more": 0}), ("n1", {"rows": large, "more": 2}), ("n2", HostFailed("n2", "is away"))]
    )
    assert [one.name for one in found.held] == ["77", "ann", "bob"]
    lines = "\n".join(directory_table(found, Paint(io.StringIO())))
    assert "n1    /scratch/77  eve    5.0 TiB (not all could be read)  2023-11-1" in lines
    assert "ctl   /home/bob    bob    not measured in time" in lines
    assert "n2: " in lines
    assert "2 further directories" in lines
    out = io.StringIO()
    write(None, ("user",), out, found)
    assert NO_ACCOUNTING.split(",")[0] in out.getvalue()
    assert as_json(found)["held"][0]["bytes"] == 5 * 1024**4
    assert_fits("usage", as_json(output_of("lab", None, ("user",), found)))
