"""Answers about a job, as flags and on a terminal, and the submit scripts that they make."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submit_cluster import CLUSTER, Everything
from terminals import Terminal

from slurmfab.on_hosts.programs.user_tools import job_answers, sjob, slint
from slurmfab.on_hosts.programs.user_tools.job_script import script

LIMITS = job_answers.limits_of(CLUSTER, ("oci", "docker", "podman"))


@pytest.fixture(autouse=True)
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> slint.Surroundings:
    """The cluster of the tests of slint, without sbatch."""
    found = slint.Surroundings(CLUSTER, frozenset(), (), Everything(), str(tmp_path))
    monkeypatch.setattr(slint, "surroundings", lambda: found)
    monkeypatch.setattr(slint, "test", lambda _content: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    monkeypatch.chdir(tmp_path)
    return found


FLAGS = [
    (["--command", "hostname"], ["--output=%x-%j.out"]),
    (["--command", "./a", "--gpus", "1", "--time", "2h"], ["--partition=gpu", "--gres=gpu:1", "--time=02:00:00"]),
    (
        ["--command", "./a", "--gpus", "2", "--gpu-type", "v100", "--memory", "1.5 g"],
        ["--partition=gpu", "--mem=1536M", "--gres=gpu:v100:2"],
    ),
    (
        ["--command", "./a", "--array", "0-9%2", "--mail", "ann@example.org", "--cpus", "4", "--memory", "16"],
        ["--cpus-per-task=4", "--mem=16G", "--array=0-9%2", "--mail-user=ann@example.org", "--mail-type=END,FAIL"],
    ),
    (["--command", "./a", "--partition", "gpu", "--scratch", "50"], ["--gres=scratch:50"]),
    (["--command", "./a", "--image", "ubuntu", "--account", "theory", "--qos", "short"], ["--account=theory"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), FLAGS, ids=[" ".join(words) for words, _ in FLAGS])
def test_flags_when_they_are_right_then_a_script_comes_that_slint_passes(
    words: list[str], expected: list[str], capsys: pytest.CaptureFixture[str], around: slint.Surroundings
) -> None:
    assert sjob.main([*words, "-o", "-"]) == 0
    text = capsys.readouterr().out
    directives = [line[len("#SBATCH ") :] for line in text.splitlines() if line.startswith("#SBATCH")]
    assert set(expected) <= set(directives), text
    assert slint.check("job.sh", text.encode(), around).errors == 0


WRONG = [
    (["--time", "soon"], '--time: "soon" is no time'),
    (["--time", "2d"], "--time: at most 1-00:00:00 in this partition"),
    (["--memory", "much"], '--memory: "much" is no amount of memory'),
    (["--memory", "1T"], "--memory: nodes have at most 125G"),
    (["--cpus", "0"], '--cpus: "0" is no number of CPUs'),
    (["--cpus", "99"], "--cpus: there are at most 32 CPUs on a node"),
    (["--gpus", "9"], "--gpus: there are at most 4 GPUs on a node"),
    (["--gpus", "1", "--partition", "batch"], "--gpus: partition batch has no GPUs"),
    (["--gpus", "1", "--gpu-type", "a10"], 'there is no type of GPU "a10" for you; did you mean a100?'),
    (["--partition", "gpu", "--scratch", "500"], "--scratch: there are at most 400 GB of scratch space on a node"),
    (["--scratch", "5"], "--scratch: nodes of partition batch have no scratch space to reserve"),
    (["--partition", "gpuu"], 'there is no partition "gpuu" for you; did you mean gpu?'),
    (["--partition", "staff"], 'there is no partition "staff" for you'),
    (["--account", "x"], 'there is no account "x" for you; there is theory'),
    (["--array", "all"], '"all" is no list of indices'),
    (["--array", "1-2000"], "the highest index is 1000"),
    (["--mail", "ann"], '"ann" is no e-mail address'),
    (["--modules", "a;b"], '"a;b" is no name of a module'),
    (["--way", "docker"], 'there is no way of running containers "docker"'),
    (["--name", "a\nb"], "--name: the name has to be one line"),
    (["--nodes", "x"], '"x" is no number of nodes'),
    (["--tasks", "x"], '"x" is no number of tasks'),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_a_flag_when_it_cannot_be_then_it_is_refused_and_nothing_is_written(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert sjob.main(["--command", "hostname", *words]) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_job_when_only_the_whole_of_it_is_too_large_then_its_findings_are_told_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert sjob.main(["--command", "hostname", "--tasks", "41"]) == 1
    told = capsys.readouterr().err
    assert "QOS normal allows all jobs of one user together 40 CPUs" in told
    assert "nothing was written" in told
    assert list(tmp_path.iterdir()) == []


def test_a_file_when_it_exists_then_it_is_overwritten_with_force_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "job.sh"
    assert sjob.main(["--command", "hostname"]) == 0
    assert "To submit it: sbatch job.sh" in capsys.readouterr().out
    first = path.read_text()
    assert sjob.main(["--command", "id"]) == 1
    assert "--force overwrites it" in capsys.readouterr().err
    assert path.read_text() == first
    assert sjob.main(["--command", "id", "--force"]) == 0
    assert path.read_text() == first.replace("hostname", "id")


def test_a_terminal_when_a_user_answers_then_wrong_answers_are_asked_again_and_the_file_is_kept_until_agreed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = [
        "python train.py",
        "gpux",
        "gpu",
        "1",
        "a100",
        "8",
        "",
        "",
        "3h",
        "",
        "",
        "",
        "gcc cuda",
        "job.sh",
        "n",
    ]
    (tmp_path / "job.sh").write_text("mine\n")
    monkeypatch.setattr("sys.stdin", Terminal("\n".join(answers) + "\n"))
    assert sjob.main([]) == 1
    asked = capsys.readouterr().err
    assert 'there is no partition "gpux" for you; did you mean gpu?' in asked
    assert "GPUs on each node (at most 4) [0]: " in asked
    assert (tmp_path / "job.sh").read_text() == "mine\n"
    monkeypatch.setattr("sys.stdin", Terminal("\n".join([*answers[:-1], "yes"]) + "\n"))
    assert sjob.main([]) == 0
    assert (tmp_path / "job.sh").read_text() == (
        "#!/bin/bash -l\n#SBATCH --job-name=train\n#SBATCH --partition=gpu\n#SBATCH --cpus-per-task=8\n"
        "#SBATCH --mem=125G\n#SBATCH --gres=gpu:a100:1\n#SBATCH --time=03:00:00\n#SBATCH --output=%x-%j.out\n"
        "\nset -e\nmodule load gcc cuda\n\npython train.py\n"
    )


def test_a_terminal_when_its_input_ends_then_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("hostname\n"))
    assert sjob.main([]) == 1
    assert list(tmp_path.iterdir()) == []


def test_no_terminal_when_there_is_no_command_then_that_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert sjob.main(["--gpus", "1"]) == 2
    assert "--command is needed" in capsys.readouterr().err


def test_partitions_when_listed_then_each_says_what_it_gives() -> None:
    assert LIMITS.lines()[:2] == [
        "  batch: 4 nodes, 32 CPUs and 125G each, up to 1-00:00:00",
        "  gpu: 2 nodes, 64 CPUs and 1000G each, 4 GPUs (a100, v100), up to 12:00:00",
    ]


ANSWERS = st.dictionaries(st.sampled_from([field.name for field in sjob.FIELDS]), st.text(max_size=30))


@settings(derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANSWERS, st.text(max_size=20))
def test_any_answers_when_read_then_a_script_comes_that_sbatch_reads_or_a_complaint(
    answers: dict[str, str], command: str
) -> None:
    try:
        found, _ = sjob.from_flags({**answers, "command": command}, LIMITS)
    except ValueError:
        return
    text = script(sjob.options(found))
    around = slint.Surroundings(None, frozenset(), (), Everything(), "/tmp")
    form = ("quotes", "word", "option", "value", "time", "memory", "number", "array", "shebang", "late")
    wrong = [one for one in slint.check("-", text.encode("utf-8", "replace"), around).findings if one.rule in form]
    assert [one for one in wrong if one.severity == "error"] == [], text
