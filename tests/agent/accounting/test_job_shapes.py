"""The kinds of last week's jobs, from rows of sacct."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from slurmfab.base.answers import values
from slurmfab.on_hosts.agent.accounting.job_shapes import FIELDS, MOST_SHAPES, Shape, gres_of, read
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed

ANN = {
    "User": "ann", "UID": "4001", "Account": "physics", "Partition": "main", "QOS": "normal", "TimelimitRaw": "60",
    "ReqTRES": "billing=4,cpu=4,mem=8G,node=2", "JobID": "7", "ElapsedRaw": "100",
}  # fmt: skip


class Slurm(Context):
    """A slurmdbd with these records, or one for which sacct says an error."""

    def __init__(self, rows: Sequence[dict[str, str]] = (), error: str = "") -> None:
        super().__init__("/", dry_run=False)
        self.rows, self.error = rows, error

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if self.error:
            return subprocess.CompletedProcess(list(argv), 1, b"", self.error.encode())
        mark = next(word.partition("=")[2] for word in argv if word.startswith("--delimiter="))
        shown = "".join("".join({**ANN, **row}.get(name, "") + mark for name in FIELDS) + "\n" for row in self.rows)
        return subprocess.CompletedProcess(list(argv), 0, shown.encode(), b"")


def answer(*rows: dict[str, str]) -> tuple[dict[str, Any], list[Shape]]:
    """What the agent answers, which its model accepts, and the kinds in it."""
    found = read({"days": 7}, Slurm(rows))
    model = values("job_shapes")
    assert model is not None
    model.validate_python(found)
    return found, [Shape(*one) for one in found["shapes"]]


def test_jobs_that_differ_in_number_and_run_time_are_one_kind() -> None:
    found, [one] = answer({}, {"JobID": "8", "ElapsedRaw": "20"})
    assert one == Shape("ann", 4001, "physics", "main", "normal", "", 2, 4, 8192, "", 60, 2, 120, 0)
    assert (found["jobs"], found["more"], found["accounting"]) == (2, 0, True)


def test_tasks_of_arrays_are_counted_each_with_the_mean_size_of_an_array() -> None:
    tasks = [{"JobID": f"9_{task}"} for task in range(5)] + [{"JobID": f"20_{task}"} for task in range(3)]
    _, [one] = answer(*tasks, {"JobID": "7"})
    assert (one.jobs, one.array) == (9, 4)


def test_a_kind_of_each_partition_and_account_comes_before_those_that_most_jobs_have() -> None:
    many = [{"JobID": str(number)} for number in range(5)]
    longer = [{"JobID": str(number), "TimelimitRaw": "90"} for number in range(10, 14)]
    _, shapes = answer(*many, *longer, {"Partition": "gpu"}, {"Account": "maths"})
    assert [(one.partition, one.account, one.jobs) for one in shapes] == [
        ("main", "physics", 5),
        ("main", "maths", 1),
        ("gpu", "physics", 1),
        ("main", "physics", 4),
    ]


def test_jobs_of_slurmfab_and_of_nobody_are_no_kinds_and_odd_texts_are_written_out() -> None:
    found, [one] = answer(
        {"Partition": "slurmfab"}, {"User": ""}, {"User": "-ann"}, {"Account": "phy\nsics"}, {"QOS": "q" * 201}
    )
    assert (one.account, found["more"]) == ("phy\\nsics", 1)


def test_more_kinds_than_an_answer_may_have_are_counted() -> None:
    found, shapes = answer(*({"TimelimitRaw": str(number)} for number in range(MOST_SHAPES + 5)))
    assert (len(shapes), found["more"], found["jobs"]) == (MOST_SHAPES, 5, MOST_SHAPES + 5)


@pytest.mark.parametrize(
    ("tres", "gres"),
    [({"cpu": 4.0}, ""), ({"gres/gpu": 2.0}, "gpu:2"), ({"gres/gpu": 2.0, "gres/gpu:a100": 2.0}, "gpu:a100:2")],
)
def test_gres_are_as_sbatch_has_them(tres: dict[str, float], gres: str) -> None:
    assert gres_of(tres) == gres


def test_where_slurm_keeps_no_records_the_answer_says_so() -> None:
    assert not read({"days": 7}, Slurm(error="Slurm accounting storage is disabled"))["accounting"]


def test_a_slurmdbd_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(ResourceFailed, match="refused"):
        read({"days": 7}, Slurm(error="sacct: error: Connection refused"))
