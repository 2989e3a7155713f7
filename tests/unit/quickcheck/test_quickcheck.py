"""What quickcheck tries, on stand-in hosts: which line comes of what, and which exit code of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from json_shapes import assert_fits
from ruled_shells import Rule, RuledShell

from slurmfab.base.errors import InputError, SlurmfabError, Unreachable
from slurmfab.base.json_output import as_json
from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory import loading as inventories
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.checks.hosts import Shells
from slurmfab.commands.checks.node_state import LOGS
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.quickcheck.containers import call
from slurmfab.commands.quickcheck.gpus import counted, gpus_in
from slurmfab.commands.quickcheck.lines import Line, Summary
from slurmfab.commands.quickcheck.running import QuickcheckOptions, quickcheck
from slurmfab.on_hosts.agent.nodes.user_jobs import Person

CLUSTER = """
cluster: tiny
addresses: {ctl: 10.0.0.1, login: 10.0.0.9, "n[1-3]": "10.0.0.[2-4]"}
controllers: [ctl]
login: [login]
nodes:
  - hosts: n[1-3]
"""
GPUS = (Gpu("/dev/nvidia0"), Gpu("/dev/nvidia1"))
LOCK = Lock(
    slurm="24.11.5",
    ids={"slurm.uid": 64030},
    hosts={"n1": HostLock("n1", gpus=GPUS), "n2": HostLock("n2", gpus=GPUS), "n3": HostLock("n3")},
)
RECORD = (
    "NodeName={name} CPUAlloc={used} CPUTot=4 Gres={gres} GresUsed={gres_used} RealMemory=7700 AllocMem=0 "
    "State={state} Partitions=main Reason={reason}\n"
)
HOSTS = ("ctl", "n1", "n2", "n3")
IDLE = {"used": 0, "gres": "(null)", "gres_used": "gpu:0", "state": "IDLE", "reason": "none"}
A100 = {**IDLE, "gres": "gpu:a100:2", "gres_used": "gpu:a100:0(IDX:N/A)"}
FOUND = """SLURM_JOB_ID=8
SLURM_JOB_NODELIST={node}
SLURM_NTASKS=1
TMPDIR=/tmp
host={node}
user=slurm
directory=/home/slurm
srun=/usr/bin/srun
writable=yes
"""
JOB = "7|{state}|Priority|n1|{code}|2026-11-21T17:00:00|\n"


def node_of(command: str) -> str:
    found = re.search(r"--nodelist=(\S+)", command)
    return found[1] if found else ""


def records(**nodes: dict[str, object]) -> str:
    return "".join(RECORD.format(name=name, **said) for name, said in nodes.items())


def sound() -> dict[str, Rule]:
    """What a login host says of a cluster that works."""
    return {
        "scontrol ping": "Slurmctld(primary) at ctl is UP\n",
        "getent passwd slurm": "slurm:x:64030:64030::/home/slurm:/bin/bash\n",
        "getent passwd": CommandResult(2),
        "^id ": "uid=64030(slurm)\n",
        "show node$": records(n1=A100, n2=A100, n3=IDLE),
        "show node ": lambda command: RECORD.format(name=command.split()[-1], **IDLE),
        "squeue .*--states=all": JOB.format(state="COMPLETED", code="0:0"),
        "sbatch": "7\n",
        "tail .*/home/slurm/slurmfab-check": "job 7 on n1\nn1\n",
        r" rm -f /home/slurm/slurmfab-check": "",
        "^squeue": "",
        "^scancel": "",
        "srun .*SLURM_JOB_ID": lambda command: FOUND.format(node=node_of(command)),
        r"srun .*n\[1-2\].*uname -n": "n1\nn2\n",
        "srun .*gres=gpu:a100:1 .*CUDA": "visible=0\nvisible=\nsmi=GPU 0: A100\nsmi=GPU 1: A100\n",
        "srun .*gres=gpu:a100:2 .*CUDA": "visible=0,1\nvisible=\nsmi=GPU 0: A100\nsmi=GPU 1: A100\n",
        "srun .*all_reduce_perf": "no program\n",
        "srun .*container-image": "runtime=podman\nimage=localhost/tiny:latest\n",
        "srun .*podman run": "inside Linux\n",
    }


ALL = QuickcheckOptions()


class Tiny:
    """A cluster of stand-in hosts, deployed once.

    Args:
        path: of its cluster file.
    """

    def __init__(self, path: Path) -> None:
        self.known = Inventory(inventories.parse(CLUSTER, "tiny.yaml"), LOCK, path)
        self.login = RuledShell(sound())
        self.shells: dict[str, Any] = {"login": self.login, **{name: RuledShell(sound()) for name in HOSTS}}

    @property
    def rules(self) -> dict[str, Rule]:
        """What the login host says."""
        return self.login.rules

    def seen(self, wish: QuickcheckOptions = ALL) -> Summary:
        """What quickcheck sees."""

        @contextmanager
        def opener(_: Inventory, hosts: Sequence[str]) -> Iterator[Shells]:
            yield {host: self.shells[host] for host in hosts}

        return quickcheck(self.known, wish, opener=opener)


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path / "tiny.yaml")


def lines(summary: Summary) -> dict[str, str]:
    """By check, the outcome of its first line."""
    return {line.check: line.outcome for line in reversed(summary.lines)}


def one(summary: Summary, check: str) -> Line:
    return next(line for line in summary.lines if line.check == check)


def test_a_cluster_that_works_passes_line_by_line_and_exits_0(tiny: Tiny) -> None:
    summary = tiny.seen()
    assert lines(summary) == {
        "allocation": "passed",
        "environment": "passed",
        "nodes": "passed",
        "partitions": "not run",
        "gpus": "passed",
        "nccl": "not run",
        "container": "passed",
    }
    assert summary.exit_code == 0
    assert "job 7 started after" in one(summary, "allocation").words
    assert one(summary, "gpus").words == "jobs with one a100 and all 2; nvidia-smi lists 2"
    assert one(summary, "container").words == "podman ran a shell in localhost/tiny:latest"


def test_jobs_come_from_the_login_host_and_else_from_the_controller(tiny: Tiny) -> None:
    assert tiny.seen().sender == "login"
    tiny.shells["login"], tiny.shells["ctl"] = Unreachable("login", "no answer."), tiny.login
    summary = tiny.seen()
    assert (summary.sender, summary.exit_code) == ("ctl", 1)
    assert (summary.lines[0].host, summary.lines[0].words) == ("login", "no answer.")
    assert one(summary, "allocation").outcome == "passed"


def test_nobody_to_send_jobs_from_is_one_error_with_its_host(tiny: Tiny) -> None:
    tiny.shells["login"] = tiny.shells["ctl"] = Unreachable("ctl", "no answer.")
    with pytest.raises(Unreachable, match="ctl: no answer"):
        tiny.seen()


def test_jobs_are_a_persons_own_with_nothing_of_roots_environment(tiny: Tiny) -> None:
    tiny.login.rules = {"getent passwd ann": "ann:x:2000:2000::/home/ann:/bin/bash\n", **tiny.rules}
    tiny.seen(QuickcheckOptions(user="ann", only="nodes"))
    sent = [command for command in tiny.login.commands if "srun" in command]
    assert all("runuser -u ann -- env -i HOME=/home/ann USER=ann" in command for command in sent)
    assert all("--chdir=/home/ann" in command for command in sent)


def test_jobs_that_are_left_are_cancelled_by_name(tiny: Tiny) -> None:
    tiny.seen(QuickcheckOptions(only="allocation"))
    name = re.search(r"--job-name=(\S+)", next(one for one in tiny.login.commands if "sbatch" in one))
    assert name
    assert tiny.login.commands[-1] == f"scancel --quiet --name={name[1]}"


def test_an_interruption_cancels_the_jobs_as_well(tiny: Tiny) -> None:
    def interrupts(_: str) -> str:
        raise KeyboardInterrupt

    tiny.login.rules = {"srun": interrupts, **tiny.rules}
    with pytest.raises(KeyboardInterrupt):
        tiny.seen(QuickcheckOptions(only="nodes"))
    assert tiny.login.commands[-1].startswith("scancel --quiet --name=slurmfab-check-")


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        pytest.param(QuickcheckOptions(only="gpu"), "--only gpu: quickcheck knows allocation, environment", id="check"),
        pytest.param(
            QuickcheckOptions(hosts="ctl"), "--hosts ctl: no jobs run there; name compute nodes", id="no compute node"
        ),
        pytest.param(QuickcheckOptions(hosts="n9"), "n9: not in ", id="stranger"),
        pytest.param(QuickcheckOptions(seconds=0), "--timeout 0: write seconds from 5 to 3600", id="time"),
        pytest.param(QuickcheckOptions(user="eve"), "--user eve: there is no such user on login", id="user"),
    ],
)
def test_wrong_input_is_told(tiny: Tiny, wish: QuickcheckOptions, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        tiny.seen(wish)


def test_a_cluster_that_was_never_deployed_is_wrong_input(tiny: Tiny) -> None:
    tiny.known = replace(tiny.known, lock=Lock())
    with pytest.raises(InputError, match="never been deployed"):
        tiny.seen()


def test_without_slurmctld_nothing_is_tried(tiny: Tiny) -> None:
    tiny.rules["scontrol ping"] = CommandResult(1, b"Slurmctld(primary) at ctl is DOWN\n")
    with pytest.raises(SlurmfabError, match="slurmctld does not answer on ctl, so no job can be submitted"):
        tiny.seen()


def test_all_nodes_full_of_other_jobs_is_not_run_and_exit_code_3(tiny: Tiny) -> None:
    full = {**A100, "used": 4, "state": "ALLOCATED"}
    tiny.rules["show node$"] = records(n1=full, n2=full, n3=full)
    summary = tiny.seen()
    assert set(lines(summary).values()) == {"not run"}
    assert one(summary, "allocation").words == "other jobs use all of n[1-3]."
    assert summary.exit_code == 3


def test_no_node_that_takes_jobs_fails_with_slurms_reason_and_stops_there(tiny: Tiny) -> None:
    gone = {**A100, "state": "DOWN*", "reason": "Not responding"}
    tiny.rules["show node$"] = records(n1=gone, n2=gone, n3=gone)
    summary = tiny.seen()
    first, *others = summary.lines
    assert first.outcome == "failed"
    assert "n1: its state in Slurm is DOWN*, with the reason “Not responding”" in first.words
    assert "fab deploy --hosts n1" in first.repair
    assert {(line.outcome, line.words) for line in others} == {("not run", "the batch job failed.")}
    assert summary.exit_code == 1


@pytest.mark.parametrize(
    ("pattern", "answer", "words", "repair"),
    [
        pytest.param(
            "sbatch",
            CommandResult(
                1, b"", b"sbatch: error: Batch job submission failed: Invalid account or account/partition\n"
            ),
            "Slurm rejects jobs of slurm: Invalid account or account/partition.",
            "give slurm an account",
            id="account",
        ),
        pytest.param(
            "squeue .*--states=all",
            JOB.format(state="FAILED", code="1:0"),
            "job 7 is FAILED with exit code 1:0: job 7 on n1",
            "/var/log/slurmd/slurmd.log on n1",
            id="failed",
        ),
        pytest.param(
            "tail ",
            CommandResult(1, b"", b"tail: /home/slurm/x.out: No such file or directory\n"),
            "job 7 completed, but its output /home/slurm/slurmfab-check-",
            "slurm and /home/slurm must exist on n1",
            id="output",
        ),
    ],
)
def test_a_batch_job_that_does_not_go_well_is_told_with_the_repair(
    tiny: Tiny, pattern: str, answer: Rule, words: str, repair: str
) -> None:
    for name in ("login", "n1"):
        tiny.shells[name].rules = {pattern: answer, **tiny.shells[name].rules}
        tiny.shells[name].rules[pattern] = answer
    line = one(tiny.seen(QuickcheckOptions(only="allocation")), "allocation")
    assert (line.outcome, line.host) == ("failed", "n1")
    assert words in line.words
    assert repair in line.repair


def test_output_that_is_only_on_the_node_is_read_there(tiny: Tiny) -> None:
    tiny.rules["tail .*/home/slurm/slurmfab-check"] = CommandResult(1, b"", b"cat: No such file or directory\n")
    assert one(tiny.seen(QuickcheckOptions(only="allocation")), "allocation").outcome == "passed"
    assert any(" && rm " in command for command in tiny.shells["n1"].commands)


@pytest.mark.parametrize(
    ("state", "outcome", "words"),
    [
        pytest.param("PENDING", "not run", "did not start within 5 s: other jobs come first (Priority).", id="waits"),
        pytest.param("RUNNING", "failed", "job 7 is RUNNING after 5 s (Priority).", id="hangs"),
    ],
)
def test_a_job_that_does_not_end_in_time_is_cancelled(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, state: str, outcome: str, words: str
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("slurmfab.commands.quickcheck.batch.time.monotonic", lambda: float(next(clock)))
    tiny.rules["squeue .*--states=all"] = JOB.format(state=state, code="0:0")
    line = one(tiny.seen(QuickcheckOptions(only="allocation", seconds=5)), "allocation")
    assert (line.outcome, words in line.words) == (outcome, True)
    assert any(command.startswith("scancel") for command in tiny.login.commands)


def test_a_job_that_a_limit_holds_is_waited_for_no_longer(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("slurmfab.commands.quickcheck.batch.time.monotonic", lambda: float(next(clock)))
    tiny.rules["squeue .*--states=all"] = JOB.format(state="PENDING", code="0:0").replace(
        "Priority", "QOSMaxCpuPerJobLimit"
    )
    line = one(tiny.seen(QuickcheckOptions(only="allocation", seconds=500)), "allocation")
    assert "job 7 did not start within 6 s: a limit holds it (QOSMaxCpuPerJobLimit)." in line.words
    assert line.outcome == "not run"


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        pytest.param("user=slurm", "user=nobody", "user is “nobody” instead of “slurm”", id="user"),
        pytest.param("directory=/home/slurm", "directory=/tmp", "/home/slurm does not exist, so the job", id="home"),
        pytest.param("srun=/usr/bin/srun", "srun=", "srun is not in PATH", id="path"),
        pytest.param("TMPDIR=/tmp", "CUDA_VISIBLE_DEVICES=0", "the job requested no GPU", id="gpu"),
        pytest.param("writable=yes", "", "/tmp cannot be written to", id="tmpdir"),
        pytest.param("SLURM_NTASKS=1", "SLURM_NTASKS=4", "SLURM_NTASKS is “4” instead of “1”", id="tasks"),
    ],
)
def test_an_environment_that_is_not_a_jobs_is_told(tiny: Tiny, before: str, after: str, words: str) -> None:
    tiny.rules["srun .*SLURM_JOB_ID"] = lambda command: FOUND.format(node=node_of(command)).replace(before, after)
    line = one(tiny.seen(QuickcheckOptions(only="environment")), "environment")
    assert line.outcome == "failed"
    assert words in line.words


def test_one_node_is_no_two(tiny: Tiny) -> None:
    line = one(tiny.seen(QuickcheckOptions(hosts="n2", only="nodes")), "nodes")
    assert (line.outcome, line.words) == ("not run", "n2 is the only node that may be used.")


def test_nodes_that_the_user_names_are_tried_each_and_not_one_of_a_kind(tiny: Tiny) -> None:
    named = tiny.seen(QuickcheckOptions(hosts="n[1-2]", only="gpus"))
    assert [line.host for line in named.lines] == ["n1", "n2"]
    assert [line.host for line in tiny.seen(QuickcheckOptions(only="gpus")).lines] == ["n1"]


def test_a_gpu_whose_device_file_is_gone_is_named_with_what_to_do(tiny: Tiny) -> None:
    tiny.rules["srun .*gres=gpu:a100:1 .*CUDA"] = "visible=0\n/dev/nvidia1 No such file or directory\n"
    line = one(tiny.seen(QuickcheckOptions(only="gpus")), "gpus")
    assert line.outcome == "failed"
    assert line.words == "/dev/nvidia1 is gone, but Slurm still counts it."
    assert "dmesg" in line.repair


def test_nccl_is_left_out_where_the_gpus_have_failed(tiny: Tiny) -> None:
    tiny.rules["show node$"] = records(n1=A100, n2={**A100, "gres": "gpu:v100:2"}, n3=IDLE)
    tiny.rules["srun .*gres=gpu:a100:1 .*CUDA"] = "visible=0\n/dev/nvidia1 No such file or directory\n"
    tiny.rules["srun .*CUDA"] = lambda command: "visible=0,1\n" if ":2" in command else "visible=0\n"
    summary = tiny.seen(QuickcheckOptions(only="gpus,nccl"))
    assert [(line.check, line.host, line.outcome) for line in summary.lines] == [
        ("gpus", "n1", "failed"),
        ("gpus", "n2", "passed"),
        ("nccl", "n2", "not run"),
        ("nccl", "", "not run"),
    ]
    assert summary.lines[-1].words == "these GPUs failed an earlier check (2 a100)."


def test_a_user_whom_the_node_does_not_know_is_told(tiny: Tiny) -> None:
    tiny.rules["tail .*/home/slurm/slurmfab-check"] = CommandResult(1, b"", b"cat: No such file or directory\n")
    tiny.shells["n1"].rules["^id "] = CommandResult(1, b"", b"id: no such user\n")
    line = one(tiny.seen(QuickcheckOptions(only="allocation")), "allocation")
    assert "there is no user slurm on n1" in line.words


def test_no_two_nodes_says_what_the_others_are(tiny: Tiny) -> None:
    tiny.rules["show node$"] = records(
        n1=IDLE, n2={**IDLE, "state": "DOWN*"}, n3={**IDLE, "used": 4, "state": "ALLOCATED"}
    )
    line = one(tiny.seen(QuickcheckOptions(only="nodes")), "nodes")
    assert line.words == "no two nodes of one partition have room; n2 is DOWN*, n3 is ALLOCATED."


def test_fewer_gpus_than_asked_for_fail(tiny: Tiny) -> None:
    tiny.rules["srun .*gres=gpu:a100:2 .*CUDA"] = "visible=0\nvisible=\n"
    line = one(tiny.seen(QuickcheckOptions(only="gpus")), "gpus")
    assert line.words == "a job that requested 2 GPUs (--gres=gpu:a100:2) was given 1."


def test_gpus_that_jobs_have_are_left_to_them(tiny: Tiny) -> None:
    part, all_of = ({**A100, "gres_used": f"gpu:a100:{used}(IDX:0)"} for used in (1, 2))
    tiny.rules["show node$"] = records(n1=part, n2=all_of, n3=IDLE)
    words = one(tiny.seen(QuickcheckOptions(only="gpus")), "gpus").words
    assert words == "a job with one a100; not with all 2, because jobs use 1"
    tiny.rules["show node$"] = records(n1=all_of, n2=all_of, n3=IDLE)
    line = one(tiny.seen(QuickcheckOptions(only="gpus")), "gpus")
    assert (line.outcome, line.words) == ("not run", "other jobs use all GPUs of n1.")


POLICY = b"srun: error: Unable to allocate resources: Job violates accounting/QOS policy (job submit limit, ...)\n"
HELD = b"srun: job 8 queued and waiting for resources\nsrun: error: Unable to allocate resources: Job revoked\n"


@pytest.mark.parametrize(
    ("answer", "reason", "why"),
    [
        pytest.param(POLICY, "", "Slurm says: Unable to allocate resources: Job violates accounting/QOS", id="refused"),
        pytest.param(HELD, "QOSMaxGRESPerUser", "Slurm's reason: QOSMaxGRESPerUser", id="held"),
    ],
)
def test_gpus_that_the_users_limit_forbids_are_no_failure_and_those_that_it_allows_are_tried(
    tiny: Tiny, answer: bytes, reason: str, why: str
) -> None:
    tiny.rules["srun .*gres=gpu:a100:2 .*CUDA"] = CommandResult(1, b"", answer)
    tiny.rules["squeue .*--states=all"] = f"{reason}\n"
    gpus = one(tiny.seen(QuickcheckOptions(only="gpus")), "gpus")
    limit = f"not with all 2: a limit holds the job of slurm. {why}"
    assert (gpus.outcome, gpus.words.partition("; ")[0]) == ("passed", "a job with one a100"), gpus
    assert limit in gpus.words
    tiny.rules["srun .*all_reduce_perf"] = CommandResult(1, b"", answer)
    nccl = one(tiny.seen(QuickcheckOptions(only="nccl")), "nccl")
    assert (nccl.outcome, why in nccl.words) == ("not run", True), nccl


def test_gpus_that_an_admin_has_taken_out_of_service_are_not_run_with_the_reason(tiny: Tiny) -> None:
    drained = {**A100, "state": "IDLE+DRAIN", "reason": "new fans [ann@2026-11-21T09:00:00]"}
    tiny.rules["show node$"] = records(n1=drained, n2=drained, n3=IDLE)
    line = one(tiny.seen(QuickcheckOptions(only="gpus")), "gpus")
    assert (line.outcome, line.words) == ("not run", "n1 is out of service: new fans.")


def test_a_cluster_without_gpus_says_so_and_passes_the_rest(tiny: Tiny) -> None:
    tiny.rules["show node$"] = records(n1=IDLE, n2=IDLE, n3=IDLE)
    summary = tiny.seen()
    assert one(summary, "gpus").words == "Slurm has no GPUs on n[1-3]."
    assert summary.exit_code == 0


NCCL = """# nThread 1 nGpus 2 minBytes 1048576 maxBytes 67108864 step: 4(factor) warmup iters: 2 iters: 5
#       size         count   type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                            (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144  float     sum      -1    50.00   20.97   20.97      {wrong}    49.00   21.40   21.40      0
    67108864      16777216  float     sum      -1   300.00  223.70  223.70      0   298.00  225.20  225.20      0
# Out of bounds values : {bounds}
# Avg bus bandwidth    : 122.8
exit code 0
"""


@pytest.mark.parametrize(
    ("output", "outcome", "words"),
    [
        pytest.param(NCCL.format(wrong=0, bounds="0 OK"), "passed", "2 a100: 223.7 GB/s", id="well"),
        pytest.param(NCCL.format(wrong=3, bounds="3 FAILED"), "failed", "3 values are wrong", id="wrong"),
        pytest.param("n1: Test CUDA failure common.cu:1 'out of memory'\n", "failed", "Test CUDA failure", id="cuda"),
        pytest.param("Killed\nexit code 137\n", "failed", "printed no results: Killed", id="killed"),
    ],
)
def test_nccl_is_judged_by_its_figures(tiny: Tiny, output: str, outcome: str, words: str) -> None:
    tiny.rules["srun .*all_reduce_perf"] = output
    line = one(tiny.seen(QuickcheckOptions(only="nccl")), "nccl")
    assert line.outcome == outcome
    assert words in line.words


@pytest.mark.parametrize(
    ("there", "image", "words"),
    [
        pytest.param("", "", "no container runtime (enroot with pyxis, apptainer, podman) on n1.", id="nothing"),
        pytest.param("runtime=enroot\n", "", "pyxis is not in plugstack.conf", id="enroot alone"),
        pytest.param(
            "runtime=apptainer\n", "", "n1 has apptainer, but no image was given: --image IMAGE.", id="no image"
        ),
    ],
)
def test_a_container_that_cannot_be_tried_is_not_run_and_says_why(
    tiny: Tiny, there: str, image: str, words: str
) -> None:
    tiny.rules["srun .*container-image"] = there
    line = one(tiny.seen(QuickcheckOptions(only="container", image=image)), "container")
    assert line.outcome == "not run"
    assert words in line.words


@pytest.mark.parametrize(
    ("runtime", "options", "command"),
    [
        pytest.param("pyxis", ("--container-image=a b", "--no-container-mount-home"), "echo", id="pyxis"),
        pytest.param("podman", (), "podman run --rm --network=none 'a b' sh -c 'echo", id="podman"),
        pytest.param("apptainer", (), "apptainer exec 'a b' sh -c 'echo", id="apptainer"),
    ],
)
def test_each_runtime_is_called_in_its_own_way(runtime: str, options: tuple[str, ...], command: str) -> None:
    said, line = call(runtime, "a b")
    assert said == options
    assert line.startswith(command)


@pytest.mark.parametrize(
    ("gres", "counts"),
    [
        pytest.param("(null)", {}, id="none"),
        pytest.param("gpu:2", {"": 2}, id="untyped"),
        pytest.param("gpu:a100:4(S:0-1),shard:a100:16,localtmp:800G", {"a100": 4}, id="beside others"),
        pytest.param("gpu:a100:1,gpu:v100:2(S:1)", {"a100": 1, "v100": 2}, id="two types"),
        pytest.param("gpu", {"": 1}, id="without a count"),
    ],
)
def test_gpus_are_counted_by_type_in_slurms_spelling(gres: str, counts: dict[str, int]) -> None:
    assert counted(gres) == counts
    assert gpus_in({"Gres": gres}).total == sum(counts.values())


PEOPLED = f"""{CLUSTER}
database: ctl
accounts: [{{name: physics}}, {{name: maths}}]
users:
  - {{name: ann, uid: 4001, accounts: physics}}
  - {{name: bob, uid: 4002, accounts: maths}}
partitions:
  - {{PartitionName: main, Nodes: ALL}}
  - {{PartitionName: gpu, Nodes: "n[1-2]", AllowAccounts: maths}}
  - {{PartitionName: shut, Nodes: n3, State: DOWN}}
"""
STATE = "{number}|{state}|{reason}|{nodes}|0|N/A|\n"


def peopled(tiny: Tiny, *states: dict[str, str]) -> Tiny:
    """The cluster with accounts and partitions; its first job in a partition is 21, and the others follow."""
    tiny.known = replace(tiny.known, cluster=inventories.parse(PEOPLED, "tiny.yaml"))
    shown = [
        STATE.format(**{"number": str(21 + count), "state": "COMPLETED", "reason": "None", "nodes": "n1", **state})
        for count, state in enumerate(states)
    ]
    numbers = iter(range(21, 40))
    tiny.login.rules = {
        "getent passwd (ann|bob)": lambda command: f"{command.split()[-1]}:x:1:1::/home/x:/bin/bash\n",
        "sbatch": lambda _: f"{next(numbers)}\n",
        "squeue .*--states=all": "".join(shown),
        **{pattern: rule for pattern, rule in tiny.rules.items() if not pattern.startswith(("sbatch", "squeue .*"))},
    }
    return tiny


PARTITIONS = QuickcheckOptions(only="partitions")


def test_each_partition_runs_a_job_of_the_first_user_who_may_use_it(tiny: Tiny) -> None:
    summary = peopled(tiny, {}, {"nodes": "n2"}).seen(PARTITIONS)
    assert [(line.outcome, line.host, line.words) for line in summary.lines] == [
        ("not run", "", "shut: it is DOWN in the cluster file."),
        ("passed", "n1", "main: job 21 of ann ran"),
        ("passed", "n2", "gpu: job 22 of bob ran"),
    ]
    sent = [command for command in tiny.login.commands if "sbatch" in command]
    assert [re.findall(r"runuser -u (\w+)|--partition=(\w+)", command) for command in sent] == [
        [("ann", ""), ("", "main")],
        [("bob", ""), ("", "gpu")],
    ]
    assert summary.exit_code == 0


@pytest.mark.parametrize(
    ("waits", "told"),
    [
        (
            ("PENDING", "QOSMaxGRESPerUser"),
            ("not run", "waits for a limit. Slurm's reason: QOSMaxGRESPerUser.", ""),
        ),
        (
            ("PENDING", "PartitionDown"),
            (
                "failed",
                "does not start. Slurm's reason: PartitionDown.",
                "scontrol update PartitionName=main State=UP",
            ),
        ),
        (("PENDING", "BadConstraints"), ("failed", "does not start. Slurm's reason: BadConstraints.", LOGS)),
        (("PENDING", "Priority"), ("not run", "did not run within 6 s. Slurm's reason: Priority.", "")),
        (("FAILED", "NonZeroExitCode"), ("failed", "is FAILED.", "see /var/log/slurmd/slurmd.log on n1")),
    ],
)
def test_a_partition_whose_job_does_not_run_is_told_with_slurms_own_reason(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, waits: tuple[str, str], told: tuple[str, str, str]
) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    peopled(tiny, {"state": waits[0], "reason": waits[1]}, {})
    tiny.login.rules = {"squeue .*--nodelist": lambda command: "" if "--name" in command else "5\n", **tiny.rules}
    line = next(one for one in tiny.seen(replace(PARTITIONS, seconds=5)).lines if "main" in one.words)
    words = re.sub(r"within \d+", "within 6", line.words)
    assert (line.outcome, words, line.repair) == (told[0], f"main: job 21 of ann {told[1]}", told[2])


@pytest.mark.parametrize(
    ("refusal", "outcome", "words"),
    [
        ("Required partition not available (inactive or drain)", "failed", "gpu: Slurm rejects jobs of bob: Required"),
        ("Invalid account or account/partition combination", "failed", "gpu: Slurm rejects jobs of bob: Invalid acc"),
        ("User's group not permitted to use this partition", "not run", "gpu: no user of the cluster file is in its"),
    ],
)
def test_a_partition_that_rejects_its_users_is_told_with_slurms_words(
    tiny: Tiny, refusal: str, outcome: str, words: str
) -> None:
    error = CommandResult(1, b"", f"sbatch: error: Batch job submission failed: {refusal}\n".encode())
    peopled(tiny, {})
    tiny.login.rules = {"sbatch .*partition=gpu": error, **tiny.rules}
    line = next(one for one in tiny.seen(PARTITIONS).lines if "gpu" in one.words)
    assert line.outcome == outcome
    assert line.words.startswith(words)


def test_a_user_of_the_command_line_is_the_one_whose_jobs_are_tried(tiny: Tiny) -> None:
    summary = peopled(tiny, {}).seen(replace(PARTITIONS, user="ann"))
    assert [(line.outcome, line.words) for line in summary.lines][-1] == ("passed", "main: job 21 of ann ran")
    refused = next(line for line in summary.lines if "gpu" in line.words)
    assert (refused.outcome, refused.words.partition(";")[0]) == (
        "not run",
        "gpu: ann is not known to be allowed there",
    )


def test_a_person_has_an_environment_of_their_own() -> None:
    command = Person("ann", "/home/ann").command
    assert command[:6] == ("runuser", "-u", "ann", "--", "env", "-i")
    assert "HOME=/home/ann" in command


def test_the_lines_are_there_for_machines_too(tiny: Tiny) -> None:
    told = as_json(tiny.seen(QuickcheckOptions(only="nodes,nccl")))
    assert_fits("quickcheck", told)
    assert (told["version"], told["passed"], told["not_run"], told["exit_code"]) == (1, 1, 1, 0)
    assert (told["user"], told["sender"], told["cluster"]) == ("slurm", "login", "tiny")
    assert set(told["checks"][0]) == {"check", "host", "outcome", "words", "repair", "seconds"}


def test_a_line_has_its_repair_below_it() -> None:
    text = tuple(Line("gpus", "n1", "failed", "one is gone.", "see dmesg", 1.25).text())
    assert text == ("FAILED   gpus          1.2 s  n1: one is gone.", " " * 22 + "repair: see dmesg")
