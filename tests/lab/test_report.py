"""`fab report` and `check-cluster --html` on real hosts, of which one is drained and one is down."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

HOSTILE = "fan <script>document.title='stolen'</script>"


@pytest.fixture(scope="module", params=in_turn("report"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=2, gpus=("n1:2",)) as made:
        made.deploy()
        made.until("ctl", "sinfo -h -o '%D %t'", "2 idle")
        yield made


def row_of(page: str, host: str) -> str:
    """The words of a host's row in the table of hosts."""
    row = re.search(rf'<tr id="node-{host}".*?</tr>', page, re.S)
    assert row, host
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", row[0]).split()))


def test_page_of_checks_when_all_is_well_then_it_has_them_for_its_owner_alone(
    cluster: DeployedLab, tmp_path: Path
) -> None:
    path = tmp_path / "checks.html"
    succeeded(cluster.slurmfab("check-cluster", "--only", "munge,nodes", "--html", str(path)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    page = path.read_text()
    assert re.search("all [0-9]+ checks passed", page)
    assert "the munge key is the same as the controller" in page
    assert 'class="fail"' not in page


def test_report_when_a_node_is_drained_and_another_is_down_then_the_page_says_so(
    cluster: DeployedLab, tmp_path: Path
) -> None:
    assert cluster.slurmfab("drain", "n1", "--reason", HOSTILE).returncode == 0
    lab.kill_host(cluster.lab, "n2")
    path = tmp_path / "page.html"
    done = ended(cluster.slurmfab("report", "--check", "--output", str(path)), 3)
    assert "Without answers of n2" in done.stdout
    page = path.read_text()
    assert HOSTILE not in page
    assert "n2 does not answer" in page
    assert f"idle, drain {HOSTILE}" in row_of(page, "n1")
    assert "64030" in row_of(page, "ctl")
    assert "no answer" in row_of(page, "n2")
    assert re.search('class="fail">✗<', page)

    ended(cluster.slurmfab("report", "--output", str(path)), 3)
    assert re.search('class="fail">✗<', path.read_text()), "the checks of before were kept"
