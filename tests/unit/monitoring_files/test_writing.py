"""Files for a Prometheus elsewhere: what is in them, without any host."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support import THREE_HOSTS, cluster, facts_of, prepared

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.monitoring_files import writing
from slurmfab.core.plan.pinned import pin


def known(key: str) -> Inventory:
    """A deployed cluster with this key."""
    of = cluster(THREE_HOSTS + key)
    return Inventory(of, pin(of, Lock(), facts_of(of, prepared)), Path("cluster.yaml"))


def test_files_when_written_then_name_every_host_with_the_labels_of_rules_and_dashboard() -> None:
    texts = writing.files(known("monitoring: {port: 9200, every: 60}\n"))
    name = cluster().name
    assert list(texts) == [
        f"slurmfab-{name}.scrape.yml",
        f"slurmfab-{name}.targets.json",
        f"slurmfab-{name}.rules.yml",
        "slurmfab-dashboard.json",
    ]
    found = json.loads(texts[f"slurmfab-{name}.targets.json"])
    assert [one["labels"] for one in found] == [
        {"instance": host, "cluster": name, "job": "node"} for host in cluster().hosts
    ]
    assert all(one["targets"][0].endswith(":9200") for one in found)
    (scrape,) = yaml.safe_load(texts[f"slurmfab-{name}.scrape.yml"])["scrape_configs"]
    assert scrape["file_sd_configs"] == [{"files": [f"slurmfab-{name}.targets.json"]}]
    assert scrape["scrape_interval"] == "60s"
    assert scrape["follow_redirects"] is False
    assert scrape["sample_limit"] == 20000


def test_slurms_own_figures_when_the_version_has_them_then_are_scraped_with_the_same_labels() -> None:
    inventory = known("monitoring: {openmetrics: true}\n")
    lock = Lock(**{**vars(inventory.lock), "slurm": "25.11.0"})
    scrapes = yaml.safe_load(writing.scrapes(Inventory(inventory.cluster, lock, inventory.path), monitoring(inventory)))
    assert [one["job_name"].rpartition("-")[2] for one in scrapes["scrape_configs"][1:]] == list(writing.PAGES)
    assert {one["follow_redirects"] for one in scrapes["scrape_configs"]} == {False}
    assert scrapes["scrape_configs"][1]["static_configs"][0]["labels"]["job"] == f"slurm-{writing.PAGES[0]}"


def monitoring(inventory: Inventory) -> writing.Monitoring:
    """The key of a cluster that has it."""
    found = inventory.cluster.monitoring
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("inventory", "words"),
    [
        (Inventory(cluster(), Lock(), Path("cluster.yaml")), "has no monitoring"),
        (Inventory(cluster(f"{THREE_HOSTS}monitoring: true\n"), Lock(), Path("cluster.yaml")), "never been deployed"),
    ],
)
def test_a_cluster_when_there_is_nothing_to_watch_then_is_refused(inventory: Inventory, words: str) -> None:
    with pytest.raises(InputError, match=words):
        writing.files(inventory)


def test_the_dashboard_when_read_then_its_panels_have_places_and_queries_of_the_chosen_cluster() -> None:
    found = writing.dashboard()
    places = set[tuple[int, int]]()
    for panel in found["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not places & cells, panel["title"]
        assert place["x"] + place["w"] <= writing.COLUMNS
        places |= cells
        for target in panel["targets"]:
            assert 'cluster="$cluster"' in target["expr"]
            assert target["datasource"]["uid"] == "${datasource}"
    assert [one["name"] for one in found["templating"]["list"]] == ["datasource", "cluster"]
    assert len({panel["id"] for panel in found["panels"]}) == len(writing.PANELS)
