"""`fab rehearse -- import`: a takeover is carried out on a twin made by hand, and the cluster is not touched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import escapes
import pytest
from hand_made import PASSWORD, HandMade, Jobs, everywhere, file, made_by_hand
from lab_cluster import report
from lab_user import Person, words_of
from stock import Stock, in_turn
from touched import LOGINS, watched

from slurmfab import lab as labs
from slurmfab.commands.rehearse import programs
from slurmfab.commands.rehearse.rehearsing import lab_name

pytestmark = pytest.mark.lab

UNTOUCHED = """
find /etc /usr/local /var/lib/slurm /var/spool/slurmctld -xdev -type f -name '*.conf' -exec sha256sum {} + | sort
find /etc/slurm /etc/munge /etc/systemd/system /usr/local -xdev -printf '%p %m %u %g %s %T@\\n' | sort
"""
"""Prints the files that a takeover may change."""


@dataclass(frozen=True)
class Real:
    """A cluster made by hand, and the admin who dares the takeover later."""

    cluster: HandMade
    admin: Person

    def state(self) -> tuple[Jobs, dict[str, str], dict[str, str], dict[str, str]]:
        """What a rehearsal must not change: jobs, daemons, settings, files."""
        files = {host: self.cluster.on(host, UNTOUCHED) for host in self.cluster.hosts}
        return self.cluster.jobs(), self.cluster.daemons(), self.cluster.settings(), files

    def logins(self) -> dict[str, str]:
        """How many logins each host has seen."""
        return {host: self.cluster.on(host, LOGINS) for host in self.cluster.hosts}

    @property
    def way(self) -> tuple[str, ...]:
        """The words of the import."""
        made = self.cluster.lab.lab
        return ("--", "import", "--hosts", made.host("ctl").address, "--user", "root", "--key", str(made.ssh_key))

    def rehearse(self, *words: str) -> tuple[int, dict[str, Any], str]:
        """Rehearse the import: exit code, JSON report, which is empty if it was refused, and what it printed."""
        told = self.admin.directory / "rehearsal.json"
        told.unlink(missing_ok=True)
        done = self.admin.slurmfab("rehearse", "--json", str(told), *words, *self.way)
        return done.returncode, json.loads(told.read_text()) if told.exists() else {}, words_of(done)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a cluster that runs all the same, because no daemon has read its files since."""

    name: str
    script: str  # makes it so, on all hosts
    code: int  # of the rehearsal
    wanted: tuple[str, ...]  # words by which the rehearsal names it


FAULTS = (
    Fault(
        "a plugin that is not there",
        "sed -i 's,^ProctrackType=.*,ProctrackType=proctrack/nonsense,' /etc/slurm/slurm.conf",
        1,
        ("with the files that", "proctrack/nonsense"),
    ),
    Fault(
        "nodes of a cloud",
        "echo 'NodeName=cloud[1-3] State=CLOUD' >>/etc/slurm/slurm.conf",
        2,
        ("cloud[1-3]", "State=CLOUD"),
    ),
)

BEFORE = "/var/tmp/before"
UNIT = f"[Service]\nExecStartPre=/bin/touch {BEFORE}\nNice=3"
PROGRAMS = (
    file("/etc/slurm/prolog.sh", f"{escapes.PROGRAM}exit 1", "755")
    + "echo Prolog=/etc/slurm/prolog.sh >>/etc/slurm/slurm.conf\n"
    + file("/etc/systemd/system/slurmd.service.d/site.conf", UNIT)
    + "systemctl daemon-reload"
)
"""Makes programs of the site that no daemon runs before it is started again: they look for a way out, and fail."""


@pytest.fixture(scope="module", params=in_turn("rehearse_import"))
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def made(kind: str, suite: str, stock: Stock, place: Path) -> Iterator[Real]:
    """A cluster of this kind; no twin of it is left."""
    admin = Person.at(place)
    with made_by_hand(stock, kind, suite) as cluster:
        hosts = cluster.lab.lab
        admin.has_seen(hosts, *(host.name for host in hosts.hosts))
        try:
            yield Real(cluster, admin)
        finally:
            labs.down(lab_name(admin.cluster_file))


def changes(told: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """What a report says of resources that were not right, by host and phase, without times."""
    return {(step["host"], step["phase"]): step["outcomes"] for step in told["steps"]}


def alike(found: dict[tuple[str, str], list[dict[str, Any]]]) -> dict[tuple[str, str], str]:
    """Changes without whether jobs are held to their GPUs' devices, which they are not on a twin."""
    return {step: re.sub(r"ConstrainDevices=(yes|no)", "", json.dumps(texts)) for step, texts in found.items()}


@pytest.mark.parametrize("kind", ["plain", "accounts"])
def test_a_takeover_when_it_is_rehearsed_then_the_cluster_is_not_touched_and_later_changes_just_that(
    kind: str, suite: str, stock: Stock, tmp_path: Path
) -> None:
    with made(kind, suite, stock, tmp_path) as real:
        before = real.state()
        with watched(real.logins, lab_name(real.admin.cluster_file)) as counts:
            code, told, shown = real.rehearse()
        assert code == 0, shown
        assert (real.state(), counts) == (before, [real.logins()])
        assert [path for path in real.admin.directory.rglob("*") if path.name != "rehearsal.json"] == []
        assert PASSWORD not in shown + json.dumps(told)
        assert real.admin.slurmfab(*real.way[1:]).returncode == 0
        done = report(real.admin.slurmfab("deploy", "--json", "-"))
        assert alike(changes(told)) == alike(changes(done))
        assert (real.cluster.daemons(), real.cluster.jobs().jobs) == (before[1], before[0].jobs)


def test_a_fault_of_a_cluster_made_by_hand_when_its_takeover_is_rehearsed_then_is_named_and_the_cluster_is_untouched(
    suite: str, stock: Stock, tmp_path: Path
) -> None:
    with made("plain", suite, stock, tmp_path) as real:
        everywhere(real.cluster.lab, "cp -a /etc/slurm /root/slurm")
        for fault in FAULTS:
            everywhere(real.cluster.lab, fault.script)
            before = real.state()
            code, _, shown = real.rehearse()
            assert (code, [one for one in fault.wanted if one not in shown]) == (fault.code, []), shown
            assert "Traceback" not in shown
            assert real.state() == before
            everywhere(real.cluster.lab, "rm -r /etc/slurm; cp -a /root/slurm /etc/slurm")
        everywhere(real.cluster.lab, PROGRAMS)
        before = real.state()
        stand_ins_are_called(real)
        programs_find_no_way_out(real)
        assert real.state() == before


def stand_ins_are_called(real: Real) -> None:
    """Rehearse without the hosts' programs, with faults: all goes well, and the report names what was called."""
    code, told, shown = real.rehearse("--keep", "--kill", "1", "--power-cut", "n1")
    assert (code, [one["exit_code"] for one in told["attempts"]][-1], told["found"]) == (0, 0, []), shown
    assert any("/etc/slurm/prolog.sh (" in line for line in told["told"]), told["told"]
    assert any("/etc/slurm/prolog.sh" in line and "--with-programs" in line for line in told["unknown"])
    assert on_twin(real, f"ls {BEFORE} {escapes.NOTES}; systemctl show -P Nice slurmd") == "3\n"


def programs_find_no_way_out(real: Real) -> None:
    """Rehearse with the hosts' programs: they are shown, run as root of the twin's hosts, and get nowhere else."""
    code, shown = real.admin.at_a_terminal("n\n", "rehearse", "--with-programs", *real.way)
    assert (code, "exec >>" in shown, "Nothing was started." in shown) == (1, True, True), shown
    code, shown = real.admin.at_a_terminal("y\n", "rehearse", "--keep", "--with-programs", *real.way)
    assert (code, "Prolog error" in shown) == (1, True), shown
    assert escapes.found_open(on_twin(real, f"ls {BEFORE} >/dev/null && cat {escapes.NOTES}")) == []
    assert escapes.found_open(on_twin(real, escapes.SCRIPT)) == []
    assert on_twin(real, programs.CALLS) == ""


def on_twin(real: Real, script: str) -> str:
    return labs.run(labs.load(lab_name(real.admin.cluster_file)), "n1", ["sh", "-c", script]).stdout
