"""Errors of the installed Slurm about new files, and the places of the cluster file that they are about."""

from __future__ import annotations

import dataclasses

import pytest
from support import FakeHosts, run_over

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.complaints import place_in_words
from slurmfab.cluster.inventory.loading import parse
from slurmfab.cluster.inventory.reading import read
from slurmfab.cluster.inventory.shared_files import FilesRead
from slurmfab.core.engine.refused_files import END, LEFT, places, refuse_unparsable
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import Outcome
from slurmfab.on_hosts.agent.slurm.files import BETWEEN, REFUSED

TEXT = """cluster: lab
controllers: [ctl]
nodes:
  - hosts: n[1-2]
    RealMemory: 900G
  - hosts: n3
    RealMemory: 2000
partitions:
  - PartitionName: main
    Nodes: ALL
    MaxTime: 7 days
  - {PartitionName: short, Nodes: ALL, MaxTime: 7dd, State: NOPE}
slurm_conf:
  SlurmdTimeout: five
  PreemptType: preempt/qos
  PriorityDecayHalfLife: 14 days-0
"""


@pytest.mark.parametrize(
    ("error", "found"),
    [
        ('error: SlurmdTimeout value "five" is not a valid number', ["14 slurm_conf.SlurmdTimeout"]),
        ("error: RealMemory value (900G) is not a valid number", ["5 nodes[0].RealMemory"]),
        (
            'error: Parse error in file /etc/slurm/slurm.conf line 72: " RealMemory=900G State=UNKNOWN"',
            ["5 nodes[0].RealMemory"],
        ),
        ('error: Parse error in file /etc/slurm/slurm.conf line 75: " days"', ["11 partitions[0].MaxTime"]),
        ('error: Bad value "7dd" for MaxTime', ["12 partitions[1].MaxTime"]),
        ('error: Bad value "NOPE" for State', ["12 partitions[1].State"]),
        ("error: PreemptType and PreemptMode values incompatible", ["15 slurm_conf.PreemptType"]),
        ("error: _parse_next_key: Parsing error at unrecognized key: SLURMDTIMEOUT", ["14 slurm_conf.SlurmdTimeout"]),
        ('error: Parse error in file /etc/slurm/slurm.conf line 3: ""', []),
        ("error: something else", []),
    ],
)
def test_an_error_of_slurm_is_about_these_places_of_the_cluster_file(error: str, found: list[str]) -> None:
    document = read(TEXT, "cluster.yaml")
    assert [f"{document.line(place)} {place_in_words(place)}" for place in places(error, document)] == found


def refused(*errors: str, host: str = "ctl", status: str = "failed", text: str | None = TEXT) -> str:
    """What is said of new files that the Slurm of a host refuses; empty if they are not refused."""
    files = None if text is None else FilesRead(text.encode(), b"")
    run = run_over(FakeHosts({}), parse(TEXT_WITHOUT_MISTAKES, "cluster.yaml"))
    run.change_cluster(dataclasses.replace(run.inventory, files=files), run.hosts)
    outcome = Outcome("slurm-files:/etc/slurm", status, message=REFUSED + BETWEEN.join(errors))
    try:
        refuse_unparsable(run, [Step("slurm.conf", host, (outcome,), 0.0)])
    except InputError as error:
        return str(error)
    return ""


TEXT_WITHOUT_MISTAKES = "cluster: lab\ncontrollers: [ctl]\nnodes: [{hosts: n1}]\n"
VALUE = 'error: SlurmdTimeout value "five" is not a valid number'


def test_files_that_slurm_refuses_are_refused_with_the_line_of_the_cluster_file() -> None:
    assert refused(VALUE, VALUE, END).splitlines() == [
        "cluster.yaml:14: slurm_conf.SlurmdTimeout: Slurm on ctl refuses it: " + VALUE.removeprefix("error: "),
        LEFT,
    ]
    assert refused('error: Bad value "7dd" for MaxTime', VALUE).count("refuses it") == 2


@pytest.mark.parametrize("text", [None, TEXT])
def test_errors_about_no_line_are_told_in_slurms_words(text: str | None) -> None:
    assert refused("error: something else", END, text=text).splitlines() == [
        "ctl: the installed Slurm refuses the new slurm.conf: error: something else",
        LEFT,
    ]
    assert refused(END, text=text).splitlines()[0].endswith(END)


def test_files_that_are_not_refused_on_the_controller_go_on() -> None:
    assert refused(VALUE, host="n1") == refused(VALUE, status="would change") == ""
    run = run_over(FakeHosts({}), parse(TEXT_WITHOUT_MISTAKES, "cluster.yaml"))
    other = Outcome("file:/x", "failed", message="no space left")
    refuse_unparsable(run, [Step("files", "ctl", (other,), 0.0)])
