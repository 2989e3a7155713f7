"""What a deployment costs: the commands that every host is asked to run over SSH, by the word of its own sshd."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab
from lab_user import Person, running_lab, words_of
from suites import OLDEST

from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

SPEC = LabSpec(name="hreq", suite=OLDEST, nodes=2, no_python=("n2",))
ALL = ("ctl", "n1", "n2")
BEFORE_PYTHON = 2
"""Commands that a host without python3 takes beforehand: the agent, in vain, and the package manager."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """Hosts whose sshd writes down every command that it is asked to run."""
    with running_lab(SPEC, tmp_path_factory.mktemp("requests")) as made:
        for host in ALL:
            made.on(host, "echo LogLevel VERBOSE >/etc/ssh/sshd_config.d/count.conf && systemctl restart ssh")
        yield made


@pytest.fixture(scope="module")
def first(hosts: DeployedLab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How many commands the first deployment took, by host."""
    return counted(hosts, Person.at(tmp_path_factory.mktemp("first")), "changes on 3 hosts")


def commands(hosts: DeployedLab) -> dict[str, int]:
    """How many commands each host was asked to run until now."""
    count = "journalctl --sync; journalctl -o cat | grep -c 'Starting session: command' || true"
    return {host: int(hosts.on(host, count)) for host in ALL}


def counted(hosts: DeployedLab, person: Person, expected: str) -> dict[str, int]:
    """How many commands a deployment took that ends with these words."""
    before = commands(hosts)
    done = person.slurmfab("deploy", "--cluster", str(hosts.inventory_path))
    assert (done.returncode, expected in words_of(done)) == (0, True), words_of(done)
    after = commands(hosts)
    return {host: after[host] - before[host] for host in ALL}


def test_a_first_deployment_when_counted_then_asks_each_host_for_one_command(first: dict[str, int]) -> None:
    assert first == {"ctl": 1, "n1": 1, "n2": 1 + BEFORE_PYTHON}


def test_a_deployment_without_changes_when_counted_then_asks_each_host_for_one_command(
    hosts: DeployedLab, first: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert first
    counts = counted(hosts, Person.at(tmp_path_factory.mktemp("again")), "nothing changed on 3 hosts")
    assert counts == {"ctl": 1, "n1": 1, "n2": 1}
