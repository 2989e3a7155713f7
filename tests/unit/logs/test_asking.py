"""Who is asked about a node or a job, and what becomes of the answers."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from json_shapes import assert_fits
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError, SlurmfabError, Unreachable
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.logs import showing
from slurmfab.commands.logs.asking import AHEAD, Answers, ask
from slurmfab.commands.logs.times import Asked
from slurmfab.hosts.session import Line

CLUSTER = cluster(THREE_HOSTS.replace("[1-2]", "[1-3]").replace("[2-3]", "[2-4]"))
KNOWN = Inventory(CLUSTER, Lock(), Path("cluster.yaml"))
NOW = time.time()
ROW = ["12", "12", "FAILED", int(NOW - 900), int(NOW - 600), int(NOW - 300), "n[1-2]", "1:0"]


@dataclass
class Hosts:
    """Hosts with these lines; those without are away.

    Args:
        lines: by host.
        rows: what is known of a job.
        ahead: how many seconds the hosts' clocks are ahead.
    """

    lines: dict[str, list[list[Any]]]
    rows: list[list[Any]] = field(default_factory=list)
    ahead: float = 0.0
    requests: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def call(
        self,
        host: str,
        request: Mapping[str, Any],
        heard: Callable[[Line], None] = lambda _: None,  # noqa: ARG002
    ) -> tuple[Line, ...]:
        if host not in self.lines:
            raise Unreachable(host, "nothing listens at port 22.")
        if request["op"] == "job":
            return ({"job": {"rows": self.rows, "origin": "slurmctld"}},)
        self.requests[host] = request
        return ({"logs": {"lines": self.lines[host], "notes": ["it has more"], "now": time.time() + self.ahead}},)


def told(hosts: Hosts, target: str, asked: Asked = Asked(), *, every_line: bool = False) -> Answers:  # noqa: B008
    return ask(KNOWN, hosts, target, asked, every_line=every_line)  # type: ignore[arg-type]


def line(text: str, source: str = "slurmctld") -> list[Any]:
    return [source, text, NOW - 60.0, NOW - 60.0, 1]


def shown(answers: Answers) -> str:
    out = io.StringIO()
    showing.write(answers, out)
    return out.getvalue()


def test_for_a_node_the_node_and_the_controller_are_asked_and_lines_about_others_left_out() -> None:
    hosts = Hosts({"c1": [line("error: Nodes n3 gone"), line("error: Nodes n1 gone")], "n1": [line("n2", "slurmd")]})
    answers = told(hosts, "n1")
    assert set(hosts.requests) == {"c1", "n1"}
    assert [one.text for one in answers.lines] == ["error: Nodes n1 gone", "n2"]
    assert answers.exit_code == 0
    assert hosts.requests["n1"]["until"] - hosts.requests["n1"]["since"] == pytest.approx(3600 + AHEAD)
    assert {one.text for one in told(hosts, "n1", every_line=True).lines} == {
        "error: Nodes n3 gone", "error: Nodes n1 gone", "n2",
    }  # fmt: skip


def test_for_a_job_its_nodes_are_asked_from_its_start_to_its_end() -> None:
    hosts = Hosts(
        {"c1": [line("JobId=12 done on n3")], "n1": [line("[12.batch] error: no", "slurmd")], "n2": []}, [ROW]
    )
    answers = told(hosts, "12")
    assert set(hosts.requests) == {"c1", "n1", "n2"}
    assert hosts.requests["n1"]["jobs"] == ["12"]
    assert (hosts.requests["n1"]["since"], hosts.requests["n1"]["until"]) == (int(NOW - 660), int(NOW - 240))
    assert hosts.requests["c1"]["since"] == int(NOW - 960)  # from its submission
    text = shown(answers)
    assert text.startswith("job 12: FAILED, exit code 1:0, on n[1-2], started ")
    assert "[12.batch] error: no" in text
    assert "c1,n[1-2]: it has more." in text


def test_hosts_that_do_not_answer_are_named_and_make_the_exit_code_3() -> None:
    answers = told(Hosts({"c1": []}), "n1")
    assert answers.exit_code == 3
    assert "n1: nothing listens at port 22." in shown(answers)
    assert told(Hosts({}), "n1").exit_code == 1


def test_a_job_of_which_nobody_knows_is_an_error() -> None:
    with pytest.raises(SlurmfabError, match="Job 12 is not known"):
        told(Hosts({"c1": []}), "12")
    with pytest.raises(Unreachable):
        told(Hosts({}), "12")


@pytest.mark.parametrize("target", ["n9", "n1,", "12;reboot", "-1", ""])
def test_what_is_neither_a_host_nor_a_job_is_refused_before_a_host_is_asked(target: str) -> None:
    hosts = Hosts({"c1": []})
    with pytest.raises(InputError):
        told(hosts, target)
    assert hosts.requests == {}


def test_a_clock_that_differs_is_told() -> None:
    assert "its clock is 60 s ahead of this machine's" in shown(told(Hosts({"c1": [], "n1": []}, ahead=60), "n1"))
    assert "its clock is 60 s behind this machine's" in shown(told(Hosts({"c1": [], "n1": []}, ahead=-60), "n1"))


def test_lines_cannot_steer_the_terminal_or_look_like_others() -> None:
    text = shown(told(Hosts({"c1": [], "n1": [line("a\x1b[2J\nn2: all is well", "slurmd")]}), "n1"))
    assert "\x1b" not in text
    assert "a\\x1b[2J\\nn2: all is well" in text


def test_the_json_has_times_in_utc_and_every_field() -> None:
    answers = told(Hosts({"c1": [], "n1": [line("error: no", "slurmd")], "n2": []}, [ROW]), "12")
    told_json = as_json(showing.Logs("lab", answers))
    assert_fits("logs", told_json)
    assert_fits("logs", as_json(showing.Logs("lab", told(Hosts({"c1": [], "n1": []}), "n1"))))
    assert told_json["job"]["nodes"] == ["n1", "n2"]
    (one,) = told_json["lines"]
    assert one["first"].endswith("Z")
    assert (one["hosts"], one["log"], one["text"], one["count"]) == (["n1"], "slurmd", "error: no", 1)
    assert told_json["unreachable"] == {}
