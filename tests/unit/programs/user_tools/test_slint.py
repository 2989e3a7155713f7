"""Submit scripts and what slint finds in them, on a cluster that exists only as what Slurm would print about it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_shapes import assert_fits
from submit_cluster import CLUSTER, Everything

from slurmfab.on_hosts.programs.user_tools import (
    cluster,
    lint_cluster,
    lint_programs,
    lint_text,
    sbatch_options,
    slint,
    submit_script,
    wanted,
)
from slurmfab.on_hosts.programs.user_tools.cluster import Cluster
from slurmfab.on_hosts.programs.user_tools.findings import Finding


def found(content: bytes, here: str = "/tmp/nowhere", cluster: Cluster | None = CLUSTER) -> tuple[Finding, ...]:
    """What is found in a script, without asking sbatch."""
    around = slint.Surroundings(None, frozenset({"container-image"}), (), Everything(), here)
    checked = slint.check("job.sh", content, around).findings
    script = submit_script.read(content, around.options)
    more = [
        one
        for job in script.jobs
        if cluster
        for one in (*lint_cluster.check(wanted.read(job)[0], cluster), *slint.releases(job, cluster.version))
    ]
    return (*checked, *more)


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of the user who writes the scripts."""
    monkeypatch.setenv("HOME", "/home/ann")


@dataclass(frozen=True)
class Case:
    """A script without its first line and its command, and one word of each finding, with what to write instead."""

    directives: str
    expected: tuple[tuple[int, str, str, str], ...] = ()

    def __str__(self) -> str:
        return self.directives.replace("#SBATCH ", "").replace("\n", " / ")[:60]


def case(directives: str, *expected: tuple[int, str, str, str]) -> Case:
    return Case(directives, expected)


E, W, H = "error", "warning", "hint"
FINE = "#SBATCH --time=00:10:00"
CASES = [
    # What is right.
    case(FINE),
    case("#SBATCH -p gpu --gres=gpu:a100:2 -t 2:00:00 -c 8 --mem=64G"),
    case("#SBATCH --part=gpu --time 1:00:00   # an hour"),
    case("#SBATCH --nodes=2 --ntasks-per-node=8 --mem-per-cpu=2G"),
    case('#SBATCH --job-name="my job" --array=0-9%2 -o %x-%A_%a.out'),
    case("#SBATCH --container-image=ubuntu --exclusive --nice -v"),
    case("#SBATCH --gpus=4 -N1 -p gpu -t 60"),
    case("#SBATCH -p batch,gpu --gres=gpu:1 -t 60"),
    case("#SBATCH --constraint='icelake|cascadelake' --mail-type=end,fail --mail-user=a@b.org"),
    case("##SBATCH --time=forever\n# notes about #SBATCH lines\n#SBATCH\n#SBATCH # nothing"),
    # Partitions.
    case("#SBATCH -p gpus", (2, E, 'there is no partition "gpus"', "--partition=gpu")),
    case("#SBATCH -p gup -t 60", (2, E, 'there is no partition "gup"', "--partition=gpu")),
    case("# SEARCH -p gpu"),
    case("#SBATCH --partition=staff", (2, E, "for the groups staff", "--partition=batch")),
    case("#SBATCH -p physics", (2, E, "is for the accounts physics", "--partition=batch")),
    case("#SBATCH -p old", (2, E, "takes no jobs now (it is INACTIVE)", "--partition=batch")),
    case("#SBATCH -p later", (2, W, "starts no jobs now (it is DOWN)", "--partition=batch")),
    case("#SBATCH -p=batch", (2, E, "-p takes its value without an equals sign", "--partition=batch")),
    case(
        "#SBATCH -p gup -c 400 --gres=gpu:v100:3 -t 60",
        (2, E, 'there is no partition "gup"', "--partition=gpu"),
        (2, E, "no node of partition gpu gives more than", "--cpus-per-task="),
        (2, E, "has more than 2 GPUs of type v100", "--gres=gpu:v100:2"),
    ),
    case("#SBATCH --gres=scratch:3G", (2, E, "scratch is counted in GB", "--gres=scratch:3")),
    case("#SBATCH --tmp=1G", (2, E, "no node of partition batch has more than 0M of it", "")),
    # Time.
    case("#SBATCH --time=2h", (2, E, '"2h" is no time that Slurm reads', "--time=02:00:00")),
    case("#SBATCH --time='1 day'", (2, E, "is no time that Slurm reads", "--time=1-00:00:00")),
    case("#SBATCH --time=soon", (2, E, "is no time", "--time=DAYS-HOURS:MINUTES:SECONDS")),
    case("#SBATCH --time=2-0", (2, E, "partition batch allows 1-00:00:00 at most", "--time=1-00:00:00")),
    case("#SBATCH --time=UNLIMITED", (2, E, "allows 1-00:00:00 at most", "--time=1-00:00:00")),
    case("#SBATCH --time=2:30", (2, W, "2:30 means 2 minutes and 30 seconds", "--time=02:30:00")),
    case("#SBATCH --time = 60", (2, E, "no spaces around the equals sign of --time", "--time=VALUE")),
    case("#SBATCH -p gpu", (0, H, "asks for 12:00:00, all that partition gpu allows", "--time=01:00:00")),
    case("#SBATCH -q short -t 1:00:00", (2, E, "QOS short allows 00:30:00 at most", "--time=00:30:00")),
    # Memory.
    case("#SBATCH --mem=10GiB", (2, E, "is no amount of memory", "--mem=10G")),
    case('#SBATCH --mem="1.5 GB"', (2, E, "is no amount of memory", "--mem=1536M")),
    case("#SBATCH --mem=16", (2, W, "16 without a unit means 16 MiB", "--mem=16G")),
    case("#SBATCH --mem=200G", (2, E, "no node of partition batch gives more than 125G", "--mem=125G")),
    case("#SBATCH --mem-per-cpu=32G -c 8", (2, E, "this needs 256G on one", "--mem-per-cpu=16000M")),
    case("#SBATCH --mem=1G --mem-per-cpu=1G", (2, E, "only one of --mem and --mem-per-cpu", "one of them")),
    # CPUs, tasks and nodes.
    case("#SBATCH -c 48", (2, E, "gives more than 32 CPUs, and a task wants 48", "--cpus-per-task=32")),
    case("#SBATCH -c 0", (2, E, '--cpus-per-task wants a whole number, not "0"', "--cpus-per-task=1")),
    case("#SBATCH -N 1.5", (2, E, "--nodes wants a number or a range", "")),
    case("#SBATCH -N 8", (2, E, "partition batch gives 4 nodes at most", "--nodes=4")),
    case("#SBATCH -N 2-", (2, E, "--nodes wants a number or a range", "")),
    case("#SBATCH -N 1 -n 40", (2, E, "gives more than 32 CPUs, and this needs 40 on one", "--nodes=2")),
    case("#SBATCH -N 2 -c 20", (2, E, "partition batch has 1 node with 20 CPUs, and the job wants 2", "")),
    case("#SBATCH -n 100", (2, E, "partition batch has 80 CPUs in all", "--ntasks=80")),
    # GPUs.
    case("#SBATCH --gres=gpu:1", (2, E, "the nodes of partition batch have no GPUs", "--partition=gpu")),
    case("#SBATCH -p gpu -t 60 --gres=gpu:a10:1", (2, E, 'no GPUs of type "a10"', "--gres=gpu:a100:1")),
    case("#SBATCH -p gpu -t 60 --gpus=A100:1", (2, E, 'no GPUs of type "A100"', "--gpus=a100:1")),
    case("#SBATCH -p gpu -t 60 --gres=gpu:v100:3", (2, E, "has more than 2 GPUs of type v100", "--gres=gpu:v100:2")),
    case("#SBATCH -p gpu -t 60 --gpus-per-node=8", (2, E, "has more than 4 GPUs", "--gpus-per-node=4")),
    case("#SBATCH --gres=gpus:2", (2, E, "GPUs are called gpu", "--gres=gpu:2")),
    case("#SBATCH --gpus=two", (2, E, '--gpus wants TYPE:COUNT or COUNT, not "two"', "")),
    case("#SBATCH -p gpu -t 60 -c 40 --gres=gpu:v100:1", (2, E, "has no node with 40 CPUs and 1 GPU of type v100", "")),
    # Accounts, QOS and limits.
    case("#SBATCH -A theroy", (2, E, 'you have no account "theroy"; yours: theory', "--account=theory")),
    case("#SBATCH -q nromal", (2, E, 'there is no QOS "nromal"; you may use normal, short', "--qos=normal")),
    case("#SBATCH -q vip", (2, E, "you may not use the QOS vip; yours: normal, short", "")),
    case("#SBATCH -p gpu -t 60 --gpus=6 -N2", (2, E, "QOS gpuq allows all its jobs together 5 GPUs (GrpTRES", "")),
    case(
        "#SBATCH -n 41",
        (2, E, "QOS normal allows all jobs of one user together 40 CPUs", ""),
        (2, E, "account physics allows all its jobs together 30 CPUs", ""),
    ),
    case("#SBATCH -N 4", (2, E, "account theory allows a job 3 nodes", "")),
    case("#SBATCH -N 2 --mem=110G", (2, E, "has 1 node with 1 CPU and 110G, and the job wants 2", "")),
    # Files, arrays, features, messages.
    case("#SBATCH -o /nowhere/logs/%j.out", (2, E, "the directory /nowhere/logs does not exist", "mkdir -p")),
    case("#SBATCH -o /etc", (2, E, "/etc is a directory", "--output=/etc/%x-%j.out")),
    case("#SBATCH -o %x-%k.out", (2, W, "%k stands for nothing", "--output=%x-%j.out")),
    case("#SBATCH -i /nowhere/data", (2, E, "the file /nowhere/data does not exist", "")),
    case("#SBATCH -D /nowhere", (2, E, "the directory /nowhere does not exist", "mkdir -p /nowhere")),
    case("#SBATCH -a 0-9 -o job.out", (2, W, "all tasks of the array write to the same file", "%x-%A_%a.out")),
    case("#SBATCH -a 1-5000", (2, E, "the highest index of an array is 1000", "--array=0-1000")),
    case("#SBATCH -a first", (2, E, '"first" is no list of array indices', "--array=0-9%2")),
    case("#SBATCH -C icelak", (2, E, 'no node has the feature "icelak"', "--constraint=icelake")),
    case("#SBATCH -C '[icelake*2&cascadelake]&10gbe'", (2, E, 'no node has the feature "10gbe"', "")),
    case("#SBATCH --mail-type=ENDE", (2, E, '"ENDE" is no event', "--mail-type=END")),
    case("#SBATCH --mail-user=a@b.org", (2, W, "without --mail-type no message", "--mail-type=END,FAIL")),
    case("#SBATCH -o $HOME/$SLURM_JOB_ID.out", (2, E, "does not expand variables", "--output=/home/ann/%j.out")),
    case("#SBATCH -p $PARTITION", (2, E, "does not expand variables", "")),
    case("#SBATCH --export=ALL,A=$HOME --comment='$5'"),
    # Directives.
    case("#SBATCH --tme=1:00:00", (2, E, "sbatch has no option --tme", "--time=1:00:00")),
    case("#SBATCH --cpu-bind=cores", (2, E, "--cpu-bind is an option of srun", "srun --cpu-bind")),
    case("#SBATCH --gpu=1", (2, E, "--gpu may be any of --gpu-bind, --gpu-freq, --gpus", "")),
    case("#SBATCH -partition=gpu", (2, E, "with one dash sbatch reads -partition=gpu as -p artition=gpu",
                                    "#SBATCH --partition=gpu")),
    case("#SBATCH -time 60", (2, E, "with one dash sbatch reads -time as -t ime", "#SBATCH --time=60")),
    case("#SBATCH -Zx", (2, E, "sbatch has no option -Z", "")),
    case("#SBATCH --job-name=my job", (2, E, '"job" is no option', "")),
    case("#SBATCH --job-name='my job", (2, E, "the quote ' is not closed", "")),
    case("#SBATCH --time", (2, E, "--time needs a value", "--time=VALUE")),
    case("#SBATCH --hold=yes", (2, E, "--hold has no value", "#SBATCH --hold")),
    case("#SBATCH --time=10\n#SBATCH --time=20", (3, W, "--time was 10 in line 2 already", "one of the two")),
    case("#SBATCH --external", (2, E, "--external came with Slurm 25.05", "")),
    case("# SBATCH --time=10", (2, W, "a comment, which sbatch does not read", "#SBATCH --time=10")),
    case("#sbatch --time=10", (2, E, "a comment, which sbatch does not read", "#SBATCH --time=10")),
    case("#SBACTH -p gpu", (2, E, "a comment, which sbatch does not read", "#SBATCH -p gpu")),
    case("#SBATCH -p batch\n#SBATCH hetjob\n#SBATCH -p gpux", (4, E, 'no partition "gpux"', "--partition=gpu")),
]  # fmt: skip


@pytest.mark.parametrize("one", CASES, ids=str)
def test_a_directive_when_checked_then_each_mistake_is_told_with_what_to_write(one: Case) -> None:
    content = f"#!/bin/bash\n{one.directives}\nhostname\n".encode()
    has_limits = any(" allows a" in words for _, _, words, _ in one.expected)
    compare([item for item in found(content) if has_limits or item.rule != "limit"], one.expected)


def compare(items: Iterable[Finding], expected: Sequence[tuple[int, str, str, str]]) -> None:
    """Compare findings with their lines, severities, and parts of their texts."""
    shown = [(item.line, item.severity, item.text, item.instead) for item in items]
    assert len(shown) == len(expected), shown
    for (line, severity, text, instead), (of_line, of_severity, words, write) in zip(shown, expected, strict=True):
        assert (line, severity) == (of_line, of_severity), shown
        assert words in text, shown
        assert write in instead, shown


WHOLE = [
    (b"", [(0, E, "it is empty", "")]),
    (b"hostname\n", [(1, E, "the first line is no #!", "#!/bin/bash")]),
    (b"#!bash\nid\n", [(1, E, "has to be an absolute path", "#!/bin/bash")]),
    (b"#!\nid\n", [(1, E, "names no interpreter", "#!/bin/bash")]),
    (b"#!/usr/local/bin/bash\nid\n", [(1, E, "the interpreter /usr/local/bin/bash is not there", "#!/bin/bash")]),
    (b"#!/opt/python3\nprint()\n", [(1, W, "is not there", "#!/usr/bin/env python3")]),
    (b"#!/usr/bin/env python4\nprint()\n", [(1, E, "there is no program python4", "")]),
    (b"#!/usr/bin/env python3\nprint()\n", []),
    (b"#! /bin/bash -l\nid\n", []),
    (b"\xef\xbb\xbf#!/bin/bash\nid\n", [(1, E, "byte order mark", "sed -i")]),
    (b"#!/bin/bash\r\n#SBATCH -p batch\r\nid\r\n", [(1, E, "lines end as on Windows", "sed -i")]),
    (b"#!/bin/bash\nid \0\n", [(2, E, "NUL byte", "")]),
    (b"#!/bin/sh\nif [[ -f x ]]; then id; fi\n", [(1, W, "does not understand [[ in line 2", "#!/bin/bash")]),
    (b"#!/bin/sh\nif [ -f x ]; then . ./env; fi\necho '<<< a'\n"[:40], []),
    (b"#!/bin/bash\nid\n#SBATCH -p gpu\n", [(3, E, "sbatch ignores this", "above line 2")]),
    (b"#!/bin/bash\ncat > b.sh <<'EOF'\n#!/bin/bash\n#SBATCH -p gpu\nEOF\nid\n", []),
    (b"#!/bin/bash\nsrun --nodse=2 id\n", [(2, W, "srun has no option --nodse", "srun --nodes ...")]),
    (
        b"#!/bin/bash\n#SBATCH -n 2\nsrun -n 4 id\n",
        [(3, W, "srun starts 4 tasks, and the job asks for 2", "--ntasks=4")],
    ),
    (b"#!/bin/bash\n#SBATCH -c 4\nsrun ./a\n", [(3, W, "each task of srun gets one CPU", "--cpus-per-task=4")]),
    (b"#!/bin/bash\n#SBATCH -c 4\nsrun --cpus-per-task=4 ./a\nsrun --container-image=x -c4 ./b\n", []),
    (b"#!/bin/bash\n#SBATCH --container=/nowhere/b\nid\n", [(2, E, "bundle /nowhere/b does not exist", "sbundle")]),
    (
        b"#!/bin/bash\nsrun --container=/etc id\n",
        [(2, E, "/etc has no config.json, so it is no OCI bundle", "sbundle")],
    ),
    (b"#!/bin/bash\nsrun -n1 /nowhere/a b\n", [(2, W, "the program /nowhere/a does not exist", "")]),
    (b"#!/bin/bash\nmpirun -np 4 --mca btl self -x A=1 /etc/passwd\n", [(2, W, "is not executable", "chmod +x")]),
    (b"#!/bin/bash\nmpirun --map-by=core /etc\n", [(2, W, "/etc is a directory, not a program", "")]),
    (b"#!/bin/bash\nmpirun --new-option /nowhere/a\nsrun $A/b\nsrun sh -c /nowhere/a\nsrun /bin/true\n", []),
    (b"#!/bin/bash\ncd /nowhere\nsrun ./a\nsrun --container=b ./a\nmpirun '\n", []),
    (b"#!/bin/bash\n#SBATCH -D /usr\nmpiexec bin/env\nmpiexec bin/nothing\n", [(4, W, "/usr/bin/nothing does", "")]),
    (b"#!/bin/bash\nsrun --container-image=x /nowhere/a\n", []),
    (b"#!/bin/bash\nsrun nope -x\n", [(2, W, "there is no program nope on this host", "")]),
    (b"#!/bin/bash\nmpirun -np 2 nothere\n", [(2, W, "there is no program nothere on this host", "")]),
    (b"#!/bin/bash\nsrun bash -c id\nsource own\nsrun nope\n", []),
    (b"#!/bin/bash\nexport PATH=/sw/bin:$PATH\nsrun nope\n", []),
    (b"#!/bin/bash\nnope() { id; }\nmpirun nope\n", []),
    (
        b"#!/bin/bash\nconda activate own\npython3 a.py\n",
        [(2, W, "a batch script does not have conda's functions", "eval")],
    ),
    (b'#!/bin/bash\neval "$(conda shell.bash hook)"\nconda activate own\n', []),
    (b"#!/bin/bash\nsource /sw/conda/etc/profile.d/conda.sh\nconda activate own\n", []),
    (b"#!/bin/bash -l\nconda activate own\n", []),
    (b"#!/bin/bash\n" + b"#" * (4 << 20), [(0, E, "larger than 4 MiB", "")]),
]


@pytest.mark.parametrize(("content", "expected"), WHOLE, ids=[repr(content[:40]) for content, _ in WHOLE])
def test_a_script_when_checked_then_its_form_is_judged_as_sbatch_does(
    content: bytes, expected: list[tuple[int, str, str, str]]
) -> None:
    compare(found(content), expected)


def test_a_script_when_sbatch_takes_it_then_only_what_sbatch_does_not_judge_stays_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A site's own rules may send a job with GPUs to their partition."""
    content = b"#!/bin/bash\n#SBATCH --gres=gpu:1 --time=2-0 -o /nowhere/x\nid\n"
    around = slint.Surroundings(CLUSTER, frozenset(), (), Everything(), "/tmp")
    for accepted, severity in ((True, W), (False, E)):
        said = sbatch_options.Verdict(accepted, "", "")
        monkeypatch.setattr(slint, "test", lambda _content, said=said: said)
        rules = {one.rule: one.severity for one in slint.check("job.sh", content, around).findings}
        assert rules == {"gpus": severity, "time": E, "path": E}


def test_variables_of_the_shell_when_they_count_instead_of_a_script_then_that_is_told() -> None:
    told = slint.in_environment({"SBATCH_PARTITION": "gpu", "HOME": "/"})
    compare(told, [(0, H, "in your shell SBATCH_PARTITION is gpu", "unset SBATCH_PARTITION")])


def test_module_names_when_a_script_loads_them_then_those_that_are_not_there_are_told() -> None:
    script = submit_script.read(b"#!/bin/bash\nmodule load gcc/12 opnmpi # for MPI\nml add cuda && make\n")
    names = lint_text.modules(script)
    assert names == [(2, "gcc/12"), (2, "opnmpi"), (3, "cuda")]
    there = lint_text.available_modules("/sw/modules:\ngcc/12(default)\nopenmpi/4.1\ncuda/12.2\n\n")
    expected = [(2, W, 'there is no module "opnmpi"', "module load openmpi")]
    compare(lint_text.unknown_modules(names, there), expected)
    compare(lint_text.unknown_modules(names, None), [(2, W, "there is no command module", "")])


KINDS = {
    "22.05": "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\n"
    "specific pmix plugin versions available: pmix_v4\n",
    "24.11": "MPI plugin types are...\n\tnone\n\tpmix\n\tcray_shasta\n\tpmi2\n"
    "specific pmix plugin versions available: pmix_v5\n",
    "nothing": "srun: error: no answer\n",
}
"""What `srun --mpi=list` of Debian 12 and 13 prints."""


@pytest.mark.parametrize(
    ("version", "call", "expected"),
    [
        ("22.05", "srun --mpi=pmix_v4 ./a", []),
        (
            "22.05",
            "srun --mpi=pmix_v5 ./a",
            [(2, E, 'no MPI plugin "pmix_v5"; there is cray_shasta, none', "--mpi=pmix_v4")],
        ),
        ("24.11", "srun --mpi pmix -n2 ./a", []),
        ("24.11", "srun --mpi=openmpi ./a", [(2, E, 'no MPI plugin "openmpi"; there is', "")]),
        ("24.11", "srun --mpi=$KIND ./a", []),
        ("nothing", "srun --mpi=openmpi ./a", []),
    ],
)
def test_a_kind_of_mpi_when_srun_does_not_have_it_then_that_is_told(
    version: str, call: str, expected: list[tuple[int, str, str, str]]
) -> None:
    script = submit_script.read(f"#!/bin/bash\n{call}\n".encode(), frozenset())
    compare(lint_programs.unknown_kinds(lint_programs.mpi_kinds(script), KINDS[version]), expected)


def test_modules_when_more_directories_are_used_then_nothing_is_known_about_them() -> None:
    script = submit_script.read(b"#!/bin/bash\nmodule load a\nmodule use /sw/own\nmodule load b\n")
    assert lint_text.modules(script) == [(2, "a")]


@pytest.mark.parametrize(
    ("code", "shown", "accepted", "words"),
    [
        (0, "sbatch: Job 5 to start at 2026-11-23T14:59:41 using 1 processors on nodes n1 in partition main\n", True,
         "takes it: submitted now, it would start at 2026-11-23 14:59:41 on n1 in partition main"),
        (0, "sbatch: Job 5 to start at 2026-11-23T14:59:41 a using 1 processors on nodes n1 in partition main\n", True,
         "takes it: submitted now, it would start at 2026-11-23 14:59:41 on n1 in partition main"),  # Slurm 26.05
        (1, "allocation failure: Requested node configuration is not available\n", False,
         "refuses it: no node has all of that (CPUs, memory, GPUs, features), or those that do are down (sstatus)"),
        (1, "sbatch: error: a rule of the site\nallocation failure: Something new\n", False,
         "refuses it: a rule of the site; Something new"),
        (124, "", False, "did not answer"),
    ],
)  # fmt: skip
def test_a_verdict_when_sbatch_has_spoken_then_it_is_told_in_plain_words(
    code: int, shown: str, accepted: bool, words: str
) -> None:
    said = sbatch_options.verdict(code, shown)
    assert said.accepted == accepted
    assert words in said.text


def test_limits_of_accounts_when_slurmctld_tells_them_then_those_above_count_too() -> None:
    shown = (
        "Records\n\nClusterName=c Account=root UserName= Partition= Priority=0 ID=1\n    ParentAccount= X=1\n"
        "    GrpTRES=cpu=N(0),mem=N(0),gres/gpu:a100=N(0)\nClusterName=c Account=physics UserName= Partition= ID=3\n"
        "    ParentAccount=root(1) Lineage=/\n    GrpTRES=cpu=30(2),mem=5000(0),gres/gpu:a100=4(1)\n"
        "ClusterName=c Account=theory UserName= Partition= ID=4\n    ParentAccount=physics(3)\n    GrpTRES=cpu=N(0)\n"
        "ClusterName=c Account=theory UserName=ann(1) Partition= ID=5\n    ParentAccount=\n    GrpTRES=cpu=1(0)\n"
    )
    own = ("physics", "cpu=30,mem=5000M,gres/gpu:a100=4")
    assert cluster.account_limits(shown) == {"root": (), "physics": (own,), "theory": (own,)}


def test_json_when_asked_for_then_it_has_a_version_and_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(b"#!/bin/bash\n#SBATCH --mem=1\x1b[31mG\nid\n")
    around = slint.Surroundings(None, frozenset(), (), Everything(), str(tmp_path))
    monkeypatch.setattr(slint, "surroundings", lambda: around)
    assert slint.main(["--json", str(path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert_fits("slint", told)
    assert told["version"] == 1
    assert told["files"][0]["errors"] == 1
    assert told["files"][0]["findings"][0]["rule"] == "memory"
    assert slint.main([str(path)]) == 1
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--bogus", "x"], ["/nowhere/job.sh"]])
def test_slint_when_it_is_called_wrongly_then_its_exit_code_is_2(words: list[str]) -> None:
    assert slint.main(words) == 2


FRAGMENTS = st.sampled_from(
    ["#SBATCH ", "#SBATCH", "--time=", "--mem ", "-p", "--gres=gpu:", "'", '"', "\\", "=", "#", "\n", "hetjob", "srun ",
     "module load ", "<<E", "#!/bin/sh\n", "1", "9" * 30, "%", "$(", "\r\n", "\0", "-", ":", "--array=0-", "--nodes="]
)  # fmt: skip


@settings(derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(st.binary(max_size=300), st.lists(st.one_of(FRAGMENTS, st.text(max_size=4)), max_size=30).map("".join))
)
def test_any_bytes_when_checked_then_findings_come_and_no_exception(content: bytes | str) -> None:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    for one in found(data):
        assert one.text
        assert 0 <= one.line <= data.count(b"\n") + 1
    script = submit_script.read(data)
    list(lint_text.unknown_modules(lint_text.modules(script), frozenset({"a"})))
    lint_text.available_modules(data.decode("utf-8", "replace"))
    cluster.account_limits(data.decode("utf-8", "replace"))
    sbatch_options.verdict(1, data.decode("utf-8", "replace"))
