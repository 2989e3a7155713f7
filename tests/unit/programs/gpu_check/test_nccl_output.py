"""The output of nccl-tests, as versions from 1.x to 2.19 print it; files in `real` are from a machine with one H200."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.lab.roots import SHIPPED
from slurmfab.on_hosts.programs.gpu_check.nccl_output import Measurement, parse

REAL = {path.stem: path.read_text() for path in Path(__file__).with_name("real").iterdir()}

HEAD = """\
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""

CHECKED = f"""\
# nThread 1 nGpus 8 minBytes 536870912 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   4512 on         g1 device  0 [0x07] NVIDIA A100-SXM4-40GB
#
{HEAD}\
   536870912     134217728     float     sum      -1   4201.3  127.79  223.63      0   4198.8  127.86  223.76      0
  1073741824     268435456     float     sum      -1   8233.0  130.42  228.24      0   8228.5  130.49  228.36      0
  2147483648     536870912     float     sum      -1    16287  131.85  230.74      0    16301  131.74  230.54      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 227.545
#
"""

UNCHECKED = f"""\
#
{HEAD}\
     8388608        131072     float    none      -1    349.2   24.02   22.52    N/A    347.0   24.18   22.67    N/A
  8589934592     134217728     float    none      -1    42783  200.78  188.23    N/A    42777  200.81  188.26    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 126.358
#
"""

OLD = """\
# nThread 1 nGpus 2 minBytes 33554432 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   2809 on         c1 device  0 [0x1a] Tesla V100-SXM2-16GB
#   Rank  1 Pid   2809 on         c1 device  1 [0x1b] Tesla V100-SXM2-16GB
#
#                                                     out-of-place                       in-place
#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
    33554432       8388608   float     sum    531.7   63.11   63.11  0e+00    530.2   63.29   63.29  0e+00
   134217728      33554432   float     sum   1986.4   67.57   67.57  2e-07   1984.9   67.62   67.62  2e-07
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 65.3961
#
"""

NEWEST = f"""\
# Collective test starting: all_reduce_perf
# nccl-tests version 2.17.1 nccl-headers=22703 nccl-library=22703
# nThread 1 nGpus 4 minBytes 1073741824 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20
{HEAD}\
  1073741824     268435456     float     sum      -1  7487.21  143.41  284.58       0  7468.65  143.77  285.29       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 284.935
#
# Collective test concluded: all_reduce_perf
#
"""

STAMPED = CHECKED.replace("busbw #wrong\n", "busbw #wrong  timestamp\n").replace("      0\n", "      0 2026-11-21\n")

WRONG = CHECKED.replace("230.54      0", "230.54      7").replace(": 0 OK", ": 1 FAILED")

OLD_AND_WRONG = OLD.replace("2e-07\n", "3e+01\n").replace(": 0 OK", ": 2 FAILED")

CUT_OFF = "\n".join(CHECKED.splitlines()[:-3])

FAILED_AT_ONCE = """\
g1: Test CUDA failure common.cu:1044 'no CUDA-capable device is detected'
 .. g1 pid 4512: Test failure common.cu:1002
"""

FAILED_BETWEEN = f"""\
{HEAD}\
   536870912     134217728     float     sum      -1   4201.3  127.79  223.63      0   4198.8  127.86  223.76      0
g1:4512:4530 [3] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with error No such device
g1: Test NCCL failure common.cu:1212 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '
 .. g1 pid 4512: Test failure common.cu:405
"""

NOISY = "srun: some remark\n" + CHECKED.replace(
    "# Out of", "g1:1:2 [0] init.cc:1 NCCL WARN something harmless\n# Out of"
)


@pytest.mark.parametrize(
    ("output", "measured"),
    [
        pytest.param(CHECKED, (230.54, 227.545, 2147483648, 0, True), id="2.13 and later"),
        pytest.param(UNCHECKED, (188.23, 126.358, 8589934592, 0, False), id="values not looked at"),
        pytest.param(OLD, (67.57, 65.3961, 134217728, 0, False), id="before 2.11: error, no root"),
        pytest.param(NEWEST, (284.58, 284.935, 1073741824, 0, True), id="2.17"),
        pytest.param(STAMPED, (230.54, 227.545, 2147483648, 0, True), id="a column more"),
        pytest.param(WRONG, (230.54, 227.545, 2147483648, 7, True), id="wrong values"),
        pytest.param(OLD_AND_WRONG, (67.57, 65.3961, 134217728, 2, False), id="out of bounds"),
        pytest.param(
            REAL["one-h200"], (0.0, 0.0, 536870912, 0, True), id="2.19 on one H200, which has no bus to others"
        ),
        pytest.param(NOISY, (230.54, 227.545, 2147483648, 0, True), id="remarks in between"),
    ],
)
def test_figures_are_found_by_the_names_of_their_columns(output: str, measured: tuple[float, ...]) -> None:
    assert parse(output) == Measurement(*measured)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("output", "failure"),
    [
        (FAILED_AT_ONCE, "Test CUDA failure common.cu:1044 'no CUDA-capable device is detected'"),
        (
            FAILED_BETWEEN,
            "Test NCCL failure common.cu:1212 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '",
        ),
        ("g1: Test timeout (60s) common.cu:300\n", "Test timeout (60s) common.cu:300"),
        (REAL["no-gpu-visible"], "Test CUDA failure util.cu:674 'no CUDA-capable device is detected'"),
        (REAL["two-gpus-asked-of-one"], "Invalid number of GPUs: 2 requested but only 1 were found."),
    ],
    ids=["at once", "between", "timeout", "no GPU visible", "fewer GPUs than asked for"],
)
def test_a_failure_is_told_in_the_programs_words_without_the_host(output: str, failure: str) -> None:
    measured = parse(output)
    assert measured is not None
    assert measured.failure == failure


@pytest.mark.parametrize(
    "output",
    ["", "srun: error: n1: task 0: Exited with exit code 1\n", HEAD, CUT_OFF, "no all_reduce_perf\n"],
    ids=["nothing", "an error", "no rows", "cut off", "no program"],
)
def test_what_is_no_whole_output_is_no_measurement(output: str) -> None:
    assert parse(output) is None


def test_the_labs_program_says_that_it_is_a_stand_in() -> None:
    program, table = ((SHIPPED / name).read_text() for name in ("all_reduce_perf", "nccl-table"))
    assert "STAND-IN" in program.splitlines()[1]
    assert 'echo "# STAND-IN' in program
    assert "STAND-IN" in table.splitlines()[0]
