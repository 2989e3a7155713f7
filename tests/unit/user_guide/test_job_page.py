"""The page with the form, as far as it needs no browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from offered_clusters import example, form_cluster, known

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.user_guide import job_page
from slurmfab.core.user_guide.offer import offer

NOTHING = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"
SCRIPTS = re.compile(r"<script([^>]*)>(.*?)</script>", re.S)


def test_the_form_when_made_then_knows_partitions_accounts_and_qos_with_their_limits() -> None:
    page = job_page.page(offer(form_cluster(), known(form_cluster())))
    (data,) = (text for attributes, text in SCRIPTS.findall(page) if "json" in attributes)
    known_by_form = json.loads(data)
    assert [one["name"] for one in known_by_form["partitions"]] == ["batch", "gpu", "physics"]
    assert known_by_form["partitions"][1]["shapes"][0] == {
        "count": 4,
        "cpus": 128,
        "memory": 1000070,
        "gpus": {"v100": 2},
        "scratch": 800,
    }
    assert known_by_form["accounts"]["biology"] == [
        {"of": "cpus", "most": 96, "says": "account biology: 96 CPUs for all together"}
    ]
    assert list(known_by_form["qos"]) == ["normal", "urgent"]


def test_the_form_when_the_cluster_has_less_then_asks_for_less() -> None:
    page = job_page.page(offer(example("small"), Lock()))
    for name in ("account", "qos", "gpus", "gpu_type", "modules", "way", "image"):
        assert f'id="{name}"' not in page
    assert "<option selected>batch</option>" in page


def test_the_page_when_read_then_allows_its_own_style_and_script_alone() -> None:
    page = job_page.page(offer(form_cluster(), Lock()))
    scripts = [text for attributes, text in SCRIPTS.findall(page) if not attributes]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert f"script-src &#39;sha256-{hashes[0]}&#39;" in page
    assert len(hashes) == 1
    assert not re.search(r" style=| on[a-z]+=|https?://", page)


def test_names_of_the_file_when_they_could_end_an_element_then_do_not() -> None:
    partition = "{PartitionName: p, Nodes: ALL, AllowGroups: '</script><b>'}"
    cluster = loading.parse(f"{NOTHING}partitions: [{partition}]\n", "cluster.yaml")
    assert "</script><b>" not in job_page.page(offer(cluster, Lock()))


def test_the_memory_that_the_form_begins_with_fits_on_small_nodes() -> None:
    cluster = loading.parse("cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1, RealMemory: 2000}]\n", "cluster.yaml")
    assert 'value="1000M"' in job_page.page(offer(cluster, Lock()))
