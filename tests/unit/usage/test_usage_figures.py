"""What `fab usage` shows of an answer: sums by keys, shares, and what is unknown."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from json_shapes import assert_fits

from slurmfab.base.errors import InputError
from slurmfab.base.json_output import as_json
from slurmfab.commands.usage.asking import Usage, from_answer, moment
from slurmfab.commands.usage.showing import NO_GPU_USE, NO_GPUS, UsageOptions, as_csv, output_of, write

ANN_GPU: list[Any] = ["ann", "physics", "gpu", "a100", [2, 7200, 3600, 7200, 3600, 100, 25, 0, 0, 2, 300, 200]]
ANN_CPU = ["ann", "maths", "main", "", [1, 3600, 0, 0, 0, 0, 0, 0, 0, 1, 60, 60]]
BOB = ["bob", 'mat"hs, b', "main", "", [1, 36000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
ANSWER: dict[str, Any] = {
    "accounting": True,
    "since": 1793491200,
    "until": 1793577600,
    "since_text": "2026-11-01T00:00:00+0100",
    "until_text": "2026-11-02T00:00:00+0100",
    "capacity": {"cpu": 72000, "gres/gpu": 7200},
    "tracked": ["cpu", "gres/gpu"],
    "groups": [ANN_GPU, ANN_CPU, BOB],
    "points": [[1793491200, 46800, 3600]],
    "waits": [["7_1", "ann", "physics", "gpu", 1, 200, True], ["8", "\x1b[2Jeve", "maths", "main", 0, 100, False]],
    "idle": [["7_1", "ann", "physics", "gpu", 1, 3600, "cputime", True]],
}


def usage(**others: object) -> Usage:
    found = from_answer("minerva", {**ANSWER, **others})
    assert found is not None
    return found


def shown(one: Usage, by: tuple[str, ...] = ("user",)) -> str:
    out = io.StringIO()
    write(one, by, out)
    return out.getvalue()


def test_sums_by_keys_have_those_with_most_gpus_first() -> None:
    rows = usage().by(("user",))
    assert [(row.key, row.sums.jobs, row.sums.cpu_seconds, row.sums.longest_wait) for row in rows] == [
        (("ann",), 3, 10800, 200),
        (("bob",), 1, 36000, 0),
    ]
    assert [row.key for row in usage().by(("account", "gpu"))] == [
        ("physics", "a100"),
        ('mat"hs, b', ""),
        ("maths", ""),
    ]


def test_json_has_shares_of_the_cluster_and_null_for_what_is_unknown() -> None:
    told = as_json(output_of("lab", usage(), ("user",), None))
    assert_fits("usage", told)
    assert_fits("usage", as_json(output_of("lab", None, ("user",), None)))
    assert (told["version"], told["by"], told["capacity"]["gpu_seconds"]) == (1, ["user"], 7200)
    ann, bob = told["rows"]
    assert (ann["gpu_share"], ann["cpu_share"], ann["cpu_efficiency"], ann["memory_efficiency"]) == (
        0.5,
        0.15,
        0.5,
        0.25,
    )
    assert (ann["mean_wait"], ann["gpu_busy"], bob["mean_wait"], bob["cpu_efficiency"]) == (120, None, None, None)
    assert told["total"]["cpu_seconds"] == 46800
    assert told["idle_gpus"][0]["evidence"] == "cputime"


def test_csv_quotes_cells_and_has_a_row_for_each_key() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(usage(), ("account", "user")))))
    assert [(row["account"], row["user"], row["cpu_seconds"], row["cpu_efficiency"]) for row in rows] == [
        ("physics", "ann", "7200", "0.5"),
        ('mat"hs, b', "bob", "36000", ""),
        ("maths", "ann", "3600", ""),
    ]


def test_the_text_has_hours_waits_idle_gpus_and_no_control_characters() -> None:
    text = shown(usage())
    assert "minerva, 2026-11-01 00:00 +0100 to 2026-11-02 00:00 +0100" in text
    assert "USER  JOBS  CPU HOURS  OF CPUS  GPU HOURS  OF GPUS  GPU BUSY" in text
    assert "ann   3     3.00       15.0 %   1.00       50.0 %" in text
    assert "7_1  ann   physics  gpu        1     1.00       running  hardly any CPU time" in text
    assert NO_GPU_USE in text
    assert "\x1b" not in text
    assert "00:03:20  started" in text


def test_the_text_says_that_gpus_are_not_counted_or_that_nothing_ran() -> None:
    assert NO_GPUS in shown(usage(tracked=["cpu"], groups=[BOB], idle=[]))
    assert "No job ran or waited." in shown(usage(groups=[]))
    assert from_answer("minerva", {**ANSWER, "accounting": False}) is None


def test_gpus_that_slurm_watched_have_a_bound_of_their_use() -> None:
    watched = [*ANN_GPU[:4], [*ANN_GPU[4][:7], 3600, 900, 0, 0, 0]]
    text = shown(usage(groups=[watched], idle=[]))
    assert "≤ 75.0 %" in text
    assert "None that Slurm can tell." in text
    assert NO_GPU_USE not in text


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("2026-11-01", "2026-11-01T00:00:00"),
        ("2026-11-01T08:30", "2026-11-01T08:30:00"),
        ("2026-11-01 08:30:15", "2026-11-01T08:30:15"),
        ("12h", "-43200"),
        ("4w", "-2419200"),
        ("", ""),
    ],
)
def test_a_time_or_an_age_is_a_moment(given: str, asked: str) -> None:
    assert moment(given, "--since") == asked


@pytest.mark.parametrize(
    ("options", "json"),
    [
        (UsageOptions(by=("colour",)), ""),
        (UsageOptions(by=()), ""),
        (UsageOptions(csv="-"), "-"),
        (UsageOptions(csv="/etc"), ""),
        (UsageOptions(since="yesterday"), ""),
    ],
)
def test_wrong_options_are_refused_before_any_host_is_asked(options: UsageOptions, json: str) -> None:
    with pytest.raises(InputError):
        options.check(json)
