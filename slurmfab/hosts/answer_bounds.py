"""How much and how long a host may answer, which is not trusted: bytes, lines, and time for each work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from slurmfab.base.answers import ADVICE
from slurmfab.base.errors import AgentFailed
from slurmfab.on_hosts.agent import kinds
from slurmfab.on_hosts.agent.core.resource import Resource

KIB, MIB = 1 << 10, 1 << 20

START_BYTES = MIB // 16
"""The most bytes before the agent's greeting: what a shell's start files print, and sudo's lecture."""

START_SECONDS = 120.0  # time for the agent's start; a directory service may delay sudo

ANSWER_BYTES = {
    "facts": 8 * MIB,
    "slurm": 256 * MIB,
    "accounts": 256 * MIB,
    "kept": 256 * MIB,
    "logs": 16 * MIB,
    "support": 64 * MIB,
}
"""The most bytes of an answer by operation: a host's /etc/passwd and slurm.conf, a hundred thousand jobs, ..."""

OTHER_BYTES = 64 * MIB
"""The same for other operations. Pieces of large files do not count once they are written to the disk."""

CHATTER_BYTES = MIB
"""The most bytes of signs of life and of lines that are no JSON, such as warnings of the kernel, in one answer."""

LEAST_LINE = 64  # bytes that each such line counts for at least, as it also costs time
PIECES_BYTES = 1 << 40  # the most bytes of all pieces in one answer
SMALL_PART, MOST_SMALL_PARTS = 4 * KIB, 20_000  # a file has a name, and one last piece that may be small
LEAST_RATE = 4 * KIB  # bytes a second of pieces, over all the time since the first

WORK_SECONDS = {
    "facts": 120.0,
    "accounts": 1800.0,
    "save": 3600.0,
    "collect": 7200.0,
    "bundle": 1800.0,
    "updates": 1800.0,
    "upgrade-rows": 7200.0,
    "upgrade-offer": 1800.0,
}
"""The longest time between two lines of an answer by operation; a sign of life is no line."""

OTHER_SECONDS = 600.0  # the same for other operations

VALUES = {
    "apply": frozenset({"outcome", "lock"}),
    "save": frozenset({"piece", "saved"}),
    "collect": frozenset({"file", "piece", "collected"}),
}
"""The names of values in an answer, by operation; other operations answer with one value that has their name."""

PARTS = frozenset({"piece", "file"})  # names of values that may come any number of times

SIGN_OF_LIFE = frozenset({"alive", "at", "seconds", "waiting"})
"""The values of a sign of life: `at` names the resource or operation at work, `seconds` is its age; `waiting`, which
may be missing, says what it waits for."""

QUICK_SECONDS = 2.0  # what is quicker costs no patience
PATIENCE_SECONDS = 1800.0
"""The most seconds beyond that of all ordinary resources which a host is asked about in one connection, in sum: each
alone may take 5 minutes, and a host that takes as long for hundreds would hold up a run for a day."""
LONG_TO_READ = 86400.0  # the deadline of kinds of resources that take long already to compare, as they count files

TEXT_LENGTH = 2000  # the most characters of an agent's text in an error message


@dataclass
class Patience:
    """What a host has used of `PATIENCE_SECONDS`."""

    spent: float = 0.0


class AnswerBounds:
    """The bounds of an answer to a request (empty: the agent's start), and their use, on a monotonic clock.

    `patience`: of all answers in one connection.
    """

    def __init__(
        self,
        host: str,
        request: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
        patience: Patience | None = None,
    ) -> None:
        operation = str(request.get("op", ""))
        self.patience = patience or Patience()
        self.is_comparison = bool(request.get("dry_run"))
        self.host = host
        self.operation = operation
        self.clock = clock
        self.resources = tuple(request.get("resources", ()))
        self.values = VALUES.get(operation, frozenset({operation.replace("-", "_")}))
        self.most_bytes = ANSWER_BYTES.get(operation, OTHER_BYTES) if operation else START_BYTES
        self.seconds = WORK_SECONDS.get(operation, OTHER_SECONDS) if operation else START_SECONDS
        self.title = f"its answer to {operation!r}" if operation else "the start of the agent"
        self.bytes = 0
        self.piece_bytes = self.small_parts = 0
        self.first_part = 0.0
        self.chatter_bytes = 0
        self.lines = 0
        self.sign = ""
        self.since = clock()

    def receive(self, count: int) -> None:
        """Count bytes that have arrived; AgentFailed if they are too many, or the work takes too long."""
        self.bytes += count
        if self.bytes > self.most_bytes:
            raise AgentFailed(
                self.host,
                f"{self.title} exceeds {self.most_bytes // KIB} KiB, so it was not read to its end. Is the host "
                "healthy, and its python3 the distribution's?",
            )
        age, limit = self.clock() - self.since, self.limit()
        if age > limit:
            raise AgentFailed(
                self.host,
                f"{self.work()} has not ended after {age:.0f} s (the limit is {limit:.0f} s), although the agent is "
                f"alive{self.sign}. See what hangs there: ps axfo pid,stat,etime,args.",
            )
        if self.slowness() and self.patience.spent + self.slowness() > PATIENCE_SECONDS:
            raise AgentFailed(
                self.host,
                f"it is too slow: what should take moments took {self.patience.spent + self.slowness():.0f} s in sum "
                f"(the limit is {PATIENCE_SECONDS:.0f} s), the last of it {self.work()}. See what hangs there: ps axfo "
                "pid,stat,etime,args.",
            )

    def slowness(self) -> float:
        """Seconds of the present work that use up patience: not those of kinds of resources that may take long."""
        if self.lines >= len(self.resources):
            return 0.0
        deadline = self.limit()
        is_long = deadline >= LONG_TO_READ if self.is_comparison else deadline > Resource.deadline
        return 0.0 if is_long else max(0.0, self.clock() - self.since - QUICK_SECONDS)

    def limit(self) -> float:
        """Seconds that the present work may take."""
        if self.lines < len(self.resources):
            fields = self.resources[self.lines]
            return float(kinds.class_of(fields["kind"]).deadline) + float(fields.get("seconds", 0))
        return self.seconds

    def work(self) -> str:
        """The resource that the host is at work on, as its outcome is the next one; otherwise the operation."""
        return kinds.build(self.resources[self.lines]).id if self.lines < len(self.resources) else self.title

    def take(self, line: Mapping[str, Any], size: int) -> None:
        """Count a line of an answer; AgentFailed if nobody asked for it. All but signs of life begin new work."""
        is_sign = "alive" in line
        self.refuse_unknown(line, SIGN_OF_LIFE if is_sign else self.values)
        if is_sign:
            self.pass_over(size)
            self.sign = self.work_in(line)
            return
        self.patience.spent += self.slowness()
        self.lines += not line.keys() & PARTS
        if self.lines > len(self.resources) + 1:
            raise AgentFailed(self.host, f"{self.title} has more values than were asked for. {ADVICE}")
        self.since = self.clock()
        if line.keys() & PARTS:
            self.take_part(size)
        if "piece" in line:
            self.bytes -= size
            self.piece_bytes += size
            if self.piece_bytes > PIECES_BYTES:
                raise AgentFailed(self.host, f"{self.title} does not end. {ADVICE}")

    def take_part(self, size: int) -> None:
        """Count a part of files that a host sends; AgentFailed if they come in crumbs, or too slowly to end."""
        self.first_part = self.first_part or self.since
        self.small_parts += size < SMALL_PART
        longest = self.seconds + self.piece_bytes / LEAST_RATE
        if self.small_parts > MOST_SMALL_PARTS or self.since - self.first_part > longest:
            raise AgentFailed(self.host, f"{self.title} comes too slowly, or in too small parts, to end. {ADVICE}")

    def work_in(self, sign: Mapping[str, Any]) -> str:
        """The work in a sign of life, empty if it is the expected one; AgentFailed if it says none."""
        work, seconds, waiting = sign.get("at"), sign.get("seconds"), sign.get("waiting", "")
        if not isinstance(work, str) or not isinstance(waiting, str) or type(seconds) not in {int, float}:
            raise AgentFailed(self.host, f"{self.title} has a sign of life that names no work. {ADVICE}")
        return "" if work in {self.work(), self.operation} else f" and says to be at {text_of(work)!r}"

    def pass_over(self, size: int) -> None:
        """Count a line that is no part of the answer. Raises AgentFailed if there are too many."""
        self.chatter_bytes += max(size, LEAST_LINE)
        if self.chatter_bytes > CHATTER_BYTES:
            raise AgentFailed(self.host, f"{self.title} is lost in other output. {ADVICE}")

    def refuse_unknown(self, line: Mapping[str, Any], known: frozenset[str]) -> None:
        """Raise AgentFailed if a line has other names than these."""
        unknown = sorted(line.keys() - known)
        if unknown or not line:
            what = repr(unknown[0][:TEXT_LENGTH]) if unknown else "an empty line"
            raise AgentFailed(self.host, f"{self.title} contains {what}, which is unknown. {ADVICE}")


def parse(host: str, line: bytes | bytearray) -> Any:
    """The JSON value of a line, or the text of one that is none; AgentFailed if it is nested too deep for Python."""
    try:
        value = json.loads(line)
        return value if b"\\ud" not in line.lower() else whole_characters(value)
    except RecursionError as error:
        raise AgentFailed(host, f"its answer is nested too deeply. {ADVICE}") from error
    except ValueError:
        return line[:TEXT_LENGTH].decode(errors="replace").strip()


def whole_characters(value: Any) -> Any:
    """A JSON value without halves of characters, by which an agent tells of bytes in a file that are not UTF-8."""
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(one) for key, one in value.items()}
    if isinstance(value, list):
        return [whole_characters(one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value


def text_of(value: object) -> str:
    """A text in an agent's line for a message, shortened; other values as Python prints them."""
    return (value if isinstance(value, str) else repr(value))[:TEXT_LENGTH]
