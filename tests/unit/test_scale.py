"""Ten thousand hosts: a plan is made, told and saved within seconds of one processor, in the memory of a laptop."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks/plan_10000.py"
CPU_SECONDS = 30
"""Three times of what a present-day processor takes; of its own time, so that busy neighbours do not count."""
PEAK_MIB = 1024
LINES, SAVED_KIB = 200, 100
"""What people read, and what is saved, grows with the kinds of differences and not with the hosts."""


def test_a_plan_over_ten_thousand_hosts_takes_seconds_and_little_memory_and_is_told_in_few_lines() -> None:
    argv = [sys.executable, str(BENCHMARK), "--nodes", "10000", "--json", "-"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cpu_seconds"] < CPU_SECONDS, found
    assert found["peak_mib"] < PEAK_MIB, found
    assert found["plan_lines"] < LINES, found
    assert found["saved_kib"] < SAVED_KIB, found
