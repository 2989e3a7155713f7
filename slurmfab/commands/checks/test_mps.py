"""Check of NVIDIA's MPS daemon: it can be started for jobs with mps, and runs only while there are some."""

from __future__ import annotations

import shlex

from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.plan.phases.scripts import MPS_SCRIPTS, SCRIPTS

PROGRAM = "nvidia-cuda-mps-control"
SETTLED = "settled"
SECONDS = 30  # seconds in which a daemon must be started or stopped around jobs: the epilog allows it as much

STATE = f"""
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin
command -v {PROGRAM} >/dev/null || echo {PROGRAM}
for script in "$@"; do test -x "$script" || echo "$script"; done
daemon() {{
    for comm in $(grep -lxs {PROGRAM[:15]} /proc/[0-9]*/comm); do
        test "$(stat -c %u "$comm" 2>/dev/null)" != 0 || echo root
    done
}}
jobs() {{
    for file in /run/slurmfab-mps/job.*; do
        ! grep -qs "^slurmstepd: \\[${{file##*.}}\\." /proc/[0-9]*/cmdline || echo "${{file##*.}}"
    done
}}
for try in $(seq {2 * SECONDS}); do
    daemon=$(daemon) jobs=$(jobs)
    test "${{daemon:+yes}}" != "${{jobs:+yes}}" || break
    sleep 0.5
done
echo {SETTLED} "${{daemon:+yes}}:" $jobs
"""
"""Prints what is missing, then whether root has a daemon, and the jobs for which it was started that still run.

Users may have daemons of their own. The kernel knows 15 characters of a program's name; a job's processes have a parent
with its number in the title (slurmstepd).
"""


def test_mps_daemon_runs_for_jobs_alone(mps_node: CheckedHost) -> None:
    """NVIDIA's MPS daemon can be started, and runs only while jobs with mps run"""
    scripts = [f"{SCRIPTS.format(kind)}/{name}" for kind, name in MPS_SCRIPTS.items()]
    shown = mps_node.ask(f"set -- {shlex.join(scripts)}\n{STATE}", seconds=2 * SECONDS)
    head, _, state = shown.rpartition(SETTLED)
    missing = head.split()
    assert PROGRAM not in missing, (
        f"there is no {PROGRAM}, so a job with mps would drain the node. "
        "Repair: install it in the version of the driver (Debian: nvidia-cuda-mps)"
    )
    assert not missing, f"{' and '.join(missing)} is missing. Repair: {deploy(mps_node.name)}"
    daemon, _, jobs = state.strip().partition(":")
    numbers = ", ".join(jobs.split())
    assert daemon or not numbers, (
        f"the MPS daemon has ended while jobs with mps run ({numbers}). "
        "Repair: see /var/log/nvidia-mps; the next job with mps starts it again"
    )
    assert numbers or not daemon, (
        "the MPS daemon runs without a job that asked for mps, and keeps a GPU from other jobs. "
        f"Repair: echo quit | {PROGRAM}"
    )
