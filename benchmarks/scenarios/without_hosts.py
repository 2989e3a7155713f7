"""What is measured without any host: a plan over ten thousand nodes, and how soon the program is at work."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measuring import Way
from benchmarks.programs import PROGRAM, ProgramFailed, output_of, surroundings, timed
from benchmarks.results import SECONDS, Sample, Target
from benchmarks.scenarios.scenario import Scenario, Setting

PLAN_10000 = Path(__file__).parents[1] / "plan_10000.py"
PLAN_AND_RENDER = "plan and render"
WHOLE_RUN = "everything but SSH"
PLANNING = ("cluster file", "lock", "render", "plan")
"""The steps of the benchmark that read the cluster file, render Slurm's files, and make the plan."""

PASS, LIST, FIRST_REQUEST = "python -c pass", "fab --list", "start to first request"
FILE = """\
cluster: nobody
ssh: {{user: root, port: {port}, key: {key}}}
addresses: {{m1: 127.0.0.1, n1: 127.0.0.2}}
controllers: [m1]
nodes: [{{hosts: n1}}]
"""
PATIENCE = 30.0


def ten_thousand(_: Setting) -> Iterable[Way]:
    """A plan over ten thousand hosts whose facts are made up; once, told in two ways."""
    found: dict[str, object] = {}

    def work() -> Sample:
        found.update(json.loads(output_of([sys.executable, str(PLAN_10000), "--nodes", "10000", "--json", "-"])))
        seconds: dict[str, float] = found["seconds"]  # type: ignore[assignment]
        return Sample(round(sum(seconds[name] for name in PLANNING), 3), peak_mib=float(str(found["peak_mib"])))

    def all_of_it() -> Sample:
        return Sample(float(str(found["total_seconds"])), peak_mib=float(str(found["peak_mib"])))

    yield Way(PLAN_AND_RENDER, work)
    yield Way(WHOLE_RUN, all_of_it)


def start(setting: Setting) -> Iterable[Way]:
    """Python alone, the list of tasks, and a deployment until it knocks at its first host."""
    fab = str(Path(sys.executable).with_name("fab"))
    tree = Path(__file__).parents[2]
    yield Way(PASS, lambda: timed([sys.executable, "-c", "pass"]))
    yield Way(LIST, lambda: timed([fab, "--list"], cwd=tree))
    yield Way(FIRST_REQUEST, lambda: first_request(setting.directory))


def first_request(directory: Path) -> Sample:
    """From the start of `deploy` to its first connection, which is all that it is given.

    Raises:
        ProgramFailed: it does not knock.
    """
    key = directory / "nobody"
    if not key.exists():
        output_of(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE)
        file = directory / "nobody.yaml"
        port = server.getsockname()[1]
        file.write_text(FILE.format(key=key, port=port))
        begun = time.monotonic()
        process = subprocess.Popen(
            [*PROGRAM, "deploy", "--cluster", str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, env=surroundings({}),
        )  # fmt: skip
        try:
            server.accept()[0].close()
            seconds = time.monotonic() - begun
        except TimeoutError as error:
            raise ProgramFailed(f"`slurmfab deploy` did not connect to any host within {PATIENCE:.0f} s.") from error
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Sample(round(seconds, 4))


TEN_THOUSAND = Scenario(
    "plan-10000",
    "plan and render for 10,000 nodes, facts generated",
    ten_thousand,
    (Target(PLAN_AND_RENDER, at_most=2, unit=SECONDS), Target(WHOLE_RUN, unit=SECONDS)),
    needs_hosts=False,
    warm_ups=0,
    rounds=3,
    notes=(
        "Seconds of one CPU, measured by benchmarks/plan_10000.py; tests/lab/test_ten_thousand.py loads such files "
        "into real slurmctld daemons.",
    ),
)
START = Scenario(
    "start",
    "start of the program to its first request, and `fab --list`",
    start,
    (
        Target(FIRST_REQUEST, at_most=0.2, unit=SECONDS),
        Target(LIST, at_most=0.4, unit=SECONDS),
        Target(FIRST_REQUEST, PASS),
        Target(LIST, PASS),
    ),
    needs_hosts=False,
    rounds=9,
    notes=(
        "The time of the first request is when the program connects to a socket that stands in for the first host.",
    ),
)
