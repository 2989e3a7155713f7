"""An interactive shell on a terminal of its own: keys go in, and the words of the command that it runs come out."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("slurmfab")
SECONDS = 120
POLL = 0.05
PROMPT = b"#READY#"
CLUSTER = 'controllers: [ctl]\nnodes: [{hosts: "n[1-2],gpu1"}]\nusers: [{name: ann}]\n'


@dataclass(frozen=True)
class Shell:
    """A shell that waits for keys.

    Args:
        terminal: the terminal's other end.
        place: its working directory, where a function `fab` puts its words.
    """

    terminal: int
    place: Path

    def words_after(self, keys: str) -> list[str]:
        """The words with which `fab` is called after these keys and Enter."""
        result = self.place / "words"
        result.unlink(missing_ok=True)
        os.write(self.terminal, keys.encode() + b"\r")
        # A shell may show its prompt again while it completes, so the prompt alone does not mean that `fab` has run.
        self.read_until_prompt(result)
        return result.read_text().splitlines()

    def read_until_prompt(self, result: Path | None = None) -> None:
        """Read what the shell shows, until it shows its prompt, and until a file is there if one is awaited."""
        deadline, seen = time.monotonic() + SECONDS, b""
        while PROMPT not in seen or not (result is None or result.exists()):
            assert time.monotonic() < deadline, f"The shell does not answer: {seen.decode(errors='replace')}"
            ready, _, _ = select.select([self.terminal], [], [], POLL)
            seen += os.read(self.terminal, 4096) if ready else b""


def make_place(place: Path) -> Path:
    """Make a directory that is the home as well, with a cluster file and what else can be completed."""
    (place / "configs").mkdir()
    (place / "configs/cluster.yaml").write_text(CLUSTER)
    (place / "fabfile.py").write_text("from slurmfab.fabfile import namespace\n")
    (place / "an archive.tar").write_text("")
    return place


def environment(place: Path, search: str = "") -> dict[str, str]:
    """The environment of a shell with its home in a directory."""
    path = search or f"{PROGRAM.parent}:{os.environ['PATH']}"
    sources = os.environ.get("PYTHONPATH", "")
    return {"HOME": str(place), "PATH": path, "PYTHONPATH": sources, "TERM": "vt100", "LANG": "C.UTF-8"}


def script(place: Path, shell: str) -> str:
    """What `slurmfab completion` prints."""
    return subprocess.check_output(
        [PROGRAM, "completion", shell], cwd=place, env=environment(place), text=True, timeout=SECONDS
    )


@contextmanager
def shell_on_terminal(command: list[str], place: Path, search: str = "") -> Iterator[Shell]:
    """Start a shell, and wait for its prompt.

    Args:
        command: the shell, which shows `PROMPT`.
        place: its directory and home.
        search: its search path; empty for one with slurmfab.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],
        cwd=place,
        env=environment(place, search),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        shell = Shell(ours, place)
        shell.read_until_prompt()
        yield shell
    finally:
        process.kill()
        process.wait()
        os.close(ours)
