"""The plan of an upgrade on real hosts: to a newer Slurm that apt has, and to one that Slurm does not allow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended
from stock import Stock
from suites import PACKAGES, SUITES

pytestmark = pytest.mark.lab

SOURCE = """
database: ctl
slurm:
  version: "24.11.*"
  source: {uris: "file:/srv/newer-slurm", suites: newer, key: key.asc}
"""
PLACES = "/etc /var/lib/apt /var/cache/slurmfab-fetched /var/lib/slurmfab"
FILES = f"find {PLACES} -type f -newer /root/before 2>/dev/null | sort"
PLUGINS = "/usr/lib/x86_64-linux-gnu/slurm-wlm"
SITES_OWN = f"cp {PLUGINS}/job_submit_logging.so {PLUGINS}/job_submit_ours.so && touch /root/before"


@pytest.fixture(scope="module", params=[suite for suite in SUITES if suite == "trixie" and PACKAGES == "debian"])
def trixie(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """A cluster of one node with accounting on Slurm 24.11, whose hosts could have 26.05."""
    with stock.copy(request.param, nodes=1, database=True, newer_slurm=True) as lab:
        beside = lab.inventory_path.parent
        (beside / "key.asc").write_text(lab.on("ctl", "cat /srv/newer-slurm/key.asc") + "\n")
        text = lab.inventory_path.read_text()
        lab.inventory_path.write_text(text + "\ndatabase: ctl\n")
        lab.deploy()
        lab.inventory_path.write_text(text + SOURCE)
        yield lab


def planned(lab: DeployedLab, *words: str, code: int) -> dict[str, Any]:
    """The plan of an upgrade as JSON."""
    done = ended(lab.slurmfab("upgrade", "--plan", "--json", "-", *words), code)
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def test_a_plan_shows_what_apt_would_install_in_slurms_order_and_changes_nothing(trixie: DeployedLab) -> None:
    trixie.on("ctl", SITES_OWN)
    trixie.on(
        "ctl",
        f"{AS_SLURM}sbatch --wrap 'sleep 600' && {AS_SLURM}sbatch --begin=now+1hour --wrap true",
    )
    trixie.until("ctl", "squeue -h -t R | wc -l", "1")
    plan = planned(trixie, "--to", "26.05", code=4)
    assert (plan["from_series"], plan["to_series"], plan["refusals"]) == ("24.11", "26.05", [])
    assert plan["jobs"] == {"RUNNING": 1, "PENDING": 1}
    assert [(step["what"], step["hosts"]) for step in plan["steps"]] == [
        ("backup", ["ctl"]),
        ("slurmdbd", ["ctl"]),
        ("controllers", ["ctl"]),
        ("nodes", ["n1"]),
        ("files", ["ctl", "n1"]),
    ]
    last = "\n".join(plan["steps"][-1]["lines"])
    assert "CommunicationParameters: (default) -> disable_http   [restart of slurmctld and slurmd]" in last
    assert "+CommunicationParameters=disable_http" in last
    ctl, n1 = plan["hosts"]["ctl"], plan["hosts"]["n1"]
    assert {name: version[:5] for name, version in ctl["running"].items()} == {
        "slurmctld": "24.11",
        "slurmdbd": "24.11",
    }
    assert ctl["offered"]["slurmdbd"].startswith("26.05.")
    assert n1["offered"]["slurmd"].startswith("26.05.")
    assert n1["offered"].keys() == n1["installed"].keys() & n1["offered"].keys()
    assert plan["conversion"]["bytes"] > 0
    assert any("job_submit_ours belongs to no package" in one for one in plan["warnings"])
    assert trixie.on("ctl", FILES) == ""


def test_a_plugin_that_the_new_packages_lack_is_refused(trixie: DeployedLab) -> None:
    text = trixie.inventory_path.read_text()
    trixie.inventory_path.write_text(f"{text}mpi: pmix\n")
    plan = planned(trixie, "--to", "26.05", code=1)
    trixie.inventory_path.write_text(text)
    assert any(one.startswith("mpi needs the plugin mpi_pmix") for one in plan["refusals"]), plan["refusals"]


@pytest.mark.parametrize("deployed_lab", [one for one in SUITES if one == "bookworm"], indirect=True, scope="module")
def test_a_plan_beyond_slurms_window_names_the_series_between(deployed_lab: DeployedLab) -> None:
    plan = planned(deployed_lab, "--to", "24.11", code=1)
    assert any("22.05 -> 23.11 -> 24.11" in one and "with an empty queue" in one for one in plan["refusals"])
    assert any("none of the package sources has Slurm 24.11.*" in one for one in plan["refusals"])
    assert planned(deployed_lab, "--to", "22.05", code=0)["steps"] == []
