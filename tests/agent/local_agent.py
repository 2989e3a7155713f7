"""A local agent that runs from memory as on a host, and snapshots of directories."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from slurmfab.hosts.payload import BOOT_WITHOUT_TRACE, FLAGS, GREETING, payload


class Agent:
    """A local agent process with input and output."""

    def __init__(self) -> None:
        argv = [sys.executable, *FLAGS, "-c", BOOT_WITHOUT_TRACE]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        assert self.stdout.readline().decode() == GREETING + "\n"
        self.stdin.write(b"%d\n%s" % (len(payload()), payload()))

    def send(self, request: object) -> None:
        """Send one frame without waiting for the answer."""
        body = json.dumps(request).encode("ascii")
        self.stdin.write(b"%d\n%s" % (len(body), body))
        self.stdin.flush()

    def line(self) -> dict[str, Any]:
        """The next line of an answer; empty at the end."""
        answer: dict[str, Any] = json.loads(self.stdout.readline() or "{}")
        return answer

    def ask(self, request: object) -> list[dict[str, Any]]:
        """Send one frame and return its answer, without heartbeats and without the last line."""
        self.send(request)
        lines: list[dict[str, Any]] = []
        while True:
            line = self.line()
            assert line, "the agent ended in the middle of its answer"
            if line.get("done"):
                return lines
            if "alive" not in line:
                lines.append(line)

    def apply(self, root: Path, *resources: dict[str, Any], dry_run: bool = False) -> list[dict[str, Any]]:
        """The outcomes of resources."""
        request = {"op": "apply", "dry_run": dry_run, "root": str(root), "who": "a test", "resources": resources}
        return [line.get("outcome", line) for line in self.ask(request)]

    def end(self) -> None:
        """Kill the process, if it still runs."""
        self.process.kill()
        self.process.wait()
        self.stdout.close()
        if not self.stdin.closed:
            self.stdin.close()


def snapshot(root: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Name, mode, change time, inode and content of everything below a directory."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_mode,
            path.lstat().st_ctime_ns,
            path.lstat().st_ino,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(root.rglob("*"))
    }
