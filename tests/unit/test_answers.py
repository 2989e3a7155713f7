"""What agents answer besides facts: each value has a model, and nothing else is taken."""

from __future__ import annotations

from typing import Any

import pytest

from slurmfab.base.answers import values
from slurmfab.base.errors import AgentFailed
from slurmfab.core.engine.report import outcome_from
from slurmfab.hosts.answer_bounds import PARTS, VALUES
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.main import MODULE_OF, OPERATIONS

RUN = "20261121T104500.123456Z-deploy"
FILE = {"path": "/etc/hosts", "run": RUN, "existed": True, "secret": False, "same": True, "content": None}
PLACES = {
    "conf": "/etc/slurm/slurm.conf",
    "program": "/usr/sbin/slurmd",
    "version": "24.11.5",
    "configless": False,
    "slurmdbd_conf": "",
    "drop_ins": [],
    "running": ["slurmd"],
}
FOUND = {
    "places": PLACES,
    "slurm_conf": "ClusterName=a\n",
    "files": [("/etc/slurm/slurm.conf", "ClusterName=a\n", 0o644, "")],
    "drop_ins": [],
    "left": [("/etc/slurm/prolog.sh", "there is no such file")],
    "hidden": [],
    "federation": "",
    "mark": "41 1790000000000000000",
}
KEPT = {"runs": [RUN], "dropped": "", "files": [FILE], "services": []}
OUTCOME = {"id": "file:/etc/hosts", "status": "ok", "changes": [], "message": "", "seconds": 0, "drift": ""}


def test_every_operation_of_the_agent_has_a_model_for_what_it_answers() -> None:
    elsewhere = {"facts", "outcome", "piece", "neighbours"}
    without_answer = {"stage"}
    for operation in OPERATIONS.keys() - without_answer:
        for name in VALUES.get(operation, {operation.replace("-", "_")}) - elsewhere:
            assert values(name) is not None, name
    assert MODULE_OF.keys() <= OPERATIONS.keys()
    assert {"piece", "file"} == PARTS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kept", KEPT),
        ("munge", {"made": "MUNGE:AwQ=:", "trouble": "", "decoded": ["Success (0)"]}),
        ("slurm", {"ping": "Slurmctld(primary) at ctl is UP\n", "jobs": [["1", "ann"]], "trouble": ""}),
        ("saved", {"next_job_id": 1, "jobs": None}),
        ("lock", {"idle": None}),
        ("bundle", {}),
        ("job_processes", {"steps": ["12.extern", "12.0", "7.batch"], "hung": ["python"]}),
        ("support", {"files": [], "left": [], "secrets": ["c2VjcmV0", "QQ==", "QUE="], "public": []}),
        ("evidence", {"account": {"trouble": "", "uid": "2000", "owner": "0", "free": "17", "expired": "20000"}}),
        ("found_files", FOUND),
        ("addresses", {"n1": ["10.0.0.1", "fd83::11"], "n2": []}),
    ],
)
def test_a_true_answer_is_taken(name: str, value: Any) -> None:
    assert answer_value("n1", ({name: value},), name) == value


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("job_processes", {"steps": ["x.0"], "hung": []}),
        ("job_processes", {"steps": ["12"], "hung": []}),
        ("support", {"files": [], "left": [], "secrets": ["A"], "public": []}),
        ("evidence", {"account": {"trouble": "", "uid": "x"}}),
        ("evidence", {"account": {"trouble": "", "expired": "9999999"}}),
        ("evidence", {"now": 1e12}),
        ("logs", {"lines": [["slurmd", "x", 1e300, 1.0, 1]], "notes": [], "now": 1.0}),
        ("logs", {"lines": [["slurmd", "x", 1e12, 1.0, 1]], "notes": [], "now": 1.0}),
        ("job", {"rows": [["12", "12", "", 1 << 40, 0, 0, "n1", ""]], "origin": ""}),
        ("kept", {**KEPT, "dropped": "zzzz"}),
        ("kept", []),
        ("kept", {**KEPT, "evil": 1}),
        ("kept", {**KEPT, "runs": ["../../etc"]}),
        ("kept", {**KEPT, "runs": f"{RUN}\n"}),
        ("kept", {**KEPT, "files": [{**FILE, "path": "/etc/hosts\n/etc/shadow"}]}),
        ("kept", {**KEPT, "files": [{**FILE, "content": 1}]}),
        ("kept", {**KEPT, "files": [{**FILE, "existed": "yes"}]}),
        ("munge", {"made": "MUNGE:x\nMUNGE:y", "trouble": "", "decoded": []}),
        ("munge", {"made": "", "trouble": "", "decoded": "Success (0)"}),
        ("munge", {"made": "", "trouble": ""}),
        ("slurm", {"ping": 1}),
        ("slurm", {"jobs": [[[]]]}),
        ("slurm", []),
        ("job_processes", {"steps": [1], "hung": []}),
        ("node_health", {"causes": {}}),
        ("node_health", {"causes": ["x\x1b[2J"]}),
        ("node_jobs", {"pending": [[]], "reservations": {}}),
        ("accounts", {"clusters": []}),
        ("backup", {"is_done": 0}),
        ("backup", {"is_done": False, "next_job_id": -1}),
        ("saved", {"next_job_id": 10**30}),
        ("saved", {"jobs": ["1"]}),
        ("collected", {"index": None}),
        ("bundle", {"lacking": ["a\nb"]}),
        ("lock", {"idle": float("nan")}),
        ("lock", {"idle": "0"}),
        ("file", ["x"]),
        ("found_files", {**FOUND, "evil": 1}),
        ("found_files", {**FOUND, "places": {**PLACES, "conf": "slurm.conf"}}),
        ("found_files", {**FOUND, "places": {**PLACES, "running": "slurmd"}}),
        ("found_files", {**FOUND, "files": [["../evil", "", 0o644, ""]]}),
        ("found_files", {**FOUND, "files": [["/etc/slurm/x\n", "", 0o644, ""]]}),
        ("found_files", {**FOUND, "files": [["/etc/slurm/x", "", 1 << 20, ""]]}),
        ("found_files", {**FOUND, "left": [["/etc/slurm/x", "\x1b[2J"]]}),
        ("addresses", {"n1": ["evil.example.org"]}),
        ("addresses", {"n1": "10.0.0.1"}),
    ],
)
def test_a_lie_in_any_answer_is_an_error_of_its_host(name: str, lie: Any) -> None:
    with pytest.raises(AgentFailed, match=rf"^n1: its {name} was refused: "):
        answer_value("n1", ({name: lie},), name)


@pytest.mark.parametrize(
    "lie",
    [
        None,
        [],
        "ok",
        {},
        {"id": "file:/etc/hosts"},
        {**OUTCOME, "evil": 1},
        {**OUTCOME, "status": "unknown"},
        {**OUTCOME, "id": ["file:/etc/hosts"]},
        {**OUTCOME, "seconds": float("inf")},
        {**OUTCOME, "seconds": -1},
        {**OUTCOME, "drift": "hardware"},
        {**OUTCOME, "changes": {}},
        {**OUTCOME, "changes": [["mode"]]},
        {**OUTCOME, "changes": [{"actual": "1"}]},
        {**OUTCOME, "changes": [{"name": "mode", "evil": 1}]},
    ],
)
def test_a_lie_in_an_outcome_is_an_error_of_its_host(lie: Any) -> None:
    with pytest.raises(AgentFailed, match=r"^n1: its outcome was refused: "):
        outcome_from(lie, "n1")
