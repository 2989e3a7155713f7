"""Broken GPUs: a missing device file, a fatal error logged by the driver, or memory that needs a reset.

Which errors are fatal: those of NVIDIA's catalogue of Xids (docs.nvidia.com/deploy/xid-errors) that call for a reset of
the GPU or the host, or for its replacement. Errors that a job's program can cause do not count (13, 31, 43, 45, 68 and
69), nor errors after which restarting the program is enough (94), nor records (63, 92).
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any, Callable, Dict, Iterator, List, Sequence

from slurmfab.on_hosts.agent.core.reading import is_device
from slurmfab.on_hosts.programs.health.path_probe import is_alive, start_of

FATAL_XIDS = {
    48: "an uncorrectable ECC error",
    62: "its microcontroller halted",
    64: "a bad memory row could not be retired",
    74: "an NVLink error",
    79: "it has fallen off the bus",
    95: "an uncontained ECC error",
    119: "its firmware does not answer",
    120: "a firmware error",
    140: "an ECC error that it did not recover from",
    143: "it could not be initialized",
}
"""The text for each fatal Xid."""

RECOVERY_XID = 154
"""The Xid that names the action needed for recovery, as a change from one to another; `None` means no action."""

XID_RECORD = re.compile(rb"^\d+,\d+,(\d+),[^;]*;.*?NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]+)\): (\d+)(.*)", re.MULTILINE)
"""A record of the kernel's log, as read from /dev/kmsg (Documentation/ABI/testing/dev-kmsg of Linux)."""

KERNEL_LOG = "/dev/kmsg"
NVIDIA_SMI = "nvidia-smi"
SMI_EVERY = 3600  # seconds between two runs of nvidia-smi, which is slow

SMI_SECONDS = 5.0
SMI_FAILURES = {
    9: "the driver is not loaded",
    10: "the kernel detected a problem with a GPU's interrupts",
    15: "a GPU has fallen off the bus",
}
"""Exit codes of nvidia-smi for broken GPUs (nvidia-smi(1), RETURN VALUE)."""

ROW_FIELDS = "gpu_bus_id,remapped_rows.pending,remapped_rows.failure"
PAGE_FIELDS = "gpu_bus_id,retired_pages.pending"
PENDING_VALUES = ("1", "yes")

Causes = Dict[str, str]
Left = Callable[[float], float]  # limits a time in seconds to what is left of the health check's time


def missing_devices(files: Sequence[str]) -> Causes:
    """GPUs whose device file is missing."""
    return {"gpu " + path: "GPU %s is gone" % path for path in files if not is_device(path)}


def xid_causes(memory: Dict[str, Any], path: str = KERNEL_LOG) -> Causes:
    """Fatal errors since boot or the last `forget`.

    `memory`: keeps them in `xids`, since the kernel's log is limited; errors up to `xids_after` (microseconds since
    boot) do not count.
    """
    known: Dict[str, str] = memory.setdefault("xids", {})
    after = memory.get("xids_after", -1)
    for match in XID_RECORD.finditer(driver_records(path)):
        when, bus, code = int(match[1]), match[2].decode(), int(match[3])
        key, text = "xid %s %d" % (bus, code), FATAL_XIDS.get(code, "")
        if code == RECOVERY_XID:
            text = "" if b"(None)" in match[4].rpartition(b" to ")[2] else "it needs a reset"
        if text and when > after:
            known[key] = "GPU %s: Xid %d, %s" % (bus, code, text)
        elif code == RECOVERY_XID:
            known.pop(key, None)
    return dict(known)


def driver_records(path: str) -> bytes:
    """The records of NVIDIA's driver in the kernel's log; for a regular file, its whole content."""
    found: List[bytes] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        while True:
            try:
                record = os.read(descriptor, 65536)
            except BrokenPipeError:  # the next record was overwritten; reading goes on with the oldest one left
                continue
            except OSError:
                break
            if not record:
                break
            if b"NVRM: " in record:
                found.append(record)
    finally:
        os.close(descriptor)
    return b"".join(found)


def latest(path: str = KERNEL_LOG) -> int:
    """When the log's last error occurred, in microseconds since the boot; -1 for none."""
    return max((int(match[1]) for match in XID_RECORD.finditer(driver_records(path))), default=-1)


def smi_causes(memory: Dict[str, Any], now: float, left: Left, program: str = NVIDIA_SMI) -> Causes:
    """Problems reported by nvidia-smi, which runs every `SMI_EVERY` seconds.

    nvidia-smi may hang; the node counts as broken if it hangs twice in a row. `memory`: keeps in `smi` the time and
    result of the last run, and the process if it hangs. `left`: limits a time to what is left. `program`: name or path
    of nvidia-smi.
    """
    last: Dict[str, Any] = memory.get("smi", {})
    if last.get("stuck") and is_alive(*last["stuck"]):
        return {"smi": "nvidia-smi does not answer"}
    if last and not last.get("stuck") and 0 <= now - last["at"] < SMI_EVERY:
        return dict(last["causes"])
    fresh: Dict[str, Any] = {"at": int(now), "causes": {}}
    try:
        rows = query([program, "--query-remapped-rows=" + ROW_FIELDS, "--format=csv,noheader"], left(SMI_SECONDS))
        pages = (
            [] if rows else query([program, "--query-gpu=" + PAGE_FIELDS, "--format=csv,noheader"], left(SMI_SECONDS))
        )
        fresh["causes"] = dict([*pending_rows(rows), *pending_pages(pages)])
    except FileNotFoundError:
        pass
    except SmiTimeout as error:
        fresh["stuck"] = [error.pid, start_of(error.pid)]
        fresh["causes"] = {"smi": "nvidia-smi does not answer"} if last.get("stuck") else {}
    except SmiFailure as error:
        fresh["causes"] = {"smi": "nvidia-smi: %s" % error}
    memory["smi"] = fresh
    return dict(fresh["causes"])


class SmiTimeout(Exception):
    """nvidia-smi did not end in time."""

    def __init__(self, pid: int) -> None:
        super().__init__(str(pid))
        self.pid = pid


class SmiFailure(Exception):
    """nvidia-smi reports broken GPUs by its exit code."""


def query(argv: Sequence[str], seconds: float) -> List[List[str]]:
    """Run a program and return its comma-separated table.

    Returns a list of columns for each row; empty if the program does not support the query. Raises SmiTimeout if it did
    not end in time; it was killed, but may hang in the kernel. Raises SmiFailure if its exit code reports broken GPUs.
    """
    run = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        text, _ = run.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        run.kill()
        run.returncode = -9  # not waited for: it may hang in the kernel
        raise SmiTimeout(run.pid) from None
    if run.returncode in SMI_FAILURES:
        raise SmiFailure(SMI_FAILURES[run.returncode])
    lines = text.decode(errors="replace").splitlines() if run.returncode == 0 else []
    return [[word.strip() for word in line.split(",")] for line in lines if "," in line and ":" in line]


def pending_rows(rows: Sequence[Sequence[str]]) -> "Iterator[tuple[str, str]]":
    """Causes for memory rows whose replacement waits for a reset, or has failed."""
    for bus, pending, failure in (row for row in rows if len(row) == 3):  # noqa: PLR2004
        if failure.lower() in PENDING_VALUES:
            yield "rows %s failed" % bus, "GPU %s: a bad memory row could not be replaced" % bus
        elif pending.lower() in PENDING_VALUES:
            yield "rows %s" % bus, "GPU %s: a bad memory row waits for a reset" % bus


def pending_pages(rows: Sequence[Sequence[str]]) -> "Iterator[tuple[str, str]]":
    """Causes for memory pages of older GPUs whose retirement waits for a reset."""
    for bus, pending in (row for row in rows if len(row) == 2):  # noqa: PLR2004
        if pending.lower() in PENDING_VALUES:
            yield "pages %s" % bus, "GPU %s: bad memory pages wait for a reset" % bus
