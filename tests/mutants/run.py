"""`make mutants`: how many small mistakes in the code that plans and changes clusters the fast tests notice.

Each mistake is put into a function of a copy of this process (fork), which then runs the tests that call the function,
until one fails. mutmut and cosmic-ray do likewise; but the first works in a copy of the tree with other sources, which
some tests read, and the second starts pytest anew for each mistake. Neither takes a sample.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import os
import random
import resource
import select
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from mutations import Mutant, code_of, mutants, place_of

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("core/engine", "core/plan", "core/impact", "commands/import_cluster", "commands/upgrade")
EQUIVALENT = Path(__file__).with_name("equivalent.json")
"""By `Mutant.key`, why a mutant does the same as the code."""

OUT, CALLS, LEFT = ROOT / "build" / "mutants", "calls.json", "alive.txt"
BUDGET_SECONDS = 20.0
"""How long the tests of one mutant may take together, as measured without it."""

LIMIT_SECONDS = 60
"""After so much processor time, or five times as much of other time, a mutant counts as noticed: it does not end."""

MOST_ALIVE = 0.1
KILLED, ALIVE, ENDLESS, UNTRIED = "killed", "ALIVE", "does not end", "not called by any test"
LEFT_ALIVE = (ALIVE, UNTRIED)


def tell(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Calls:
    """Notes which functions each test calls, and how long the test takes."""

    def __init__(self) -> None:
        self.test = ""
        self.found: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.names: dict[int, tuple[str, CodeType]] = {}  # by the code's id, since its hash takes long

    def trace(self, frame: FrameType, event: str, _: Any) -> None:
        """Called for each call of a function."""
        code = frame.f_code
        known = self.names.get(id(code))
        if known is None:
            path = code.co_filename.removeprefix(f"{ROOT}/")
            is_ours = path.startswith(tuple(f"slurmfab/{room}" for room in ROOMS))
            known = (f"{path} {place_of(ROOT, path, code.co_firstlineno)}" if is_ours else "", code)
            self.names[id(code)] = known
        if known[0] and event == "call":
            self.found[known[0]].add(self.test)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid
        self.seconds[nodeid] = -sum(os.times()[:4])

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += sum(os.times()[:4])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


class Failed:
    """Notes whether a test has failed."""

    is_true = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.is_true = self.is_true or report.failed


class Mutants:
    """Plays the mutants in place of the tests that pytest has collected."""

    def __init__(self, sample: Sequence[Mutant], minutes: float, out: Path, *, again: bool) -> None:
        self.sample = sample
        self.out = out
        self.again = again
        self.end = time.monotonic() + minutes * 60
        self.results: list[tuple[Mutant, str]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Find out which tests call which functions, then play the mutants."""
        gc.unfreeze()
        items = {item.nodeid: item for item in session.items}
        told = self.told(session, items)
        tell(f"\n{len(items)} tests in {sum(told['seconds'].values()):.0f} s of processor time")
        for mutant in self.sample:
            if time.monotonic() > self.end:
                tell(f"The time is up: {len(self.results)} of {len(self.sample)} mutants were played.")
                break
            chosen = [items[name] for name in tests_of(mutant, told) if name in items]
            result = UNTRIED
            if chosen:
                result = in_child(functools.partial(play, session, mutant, chosen), 5.0 * LIMIT_SECONDS) or ENDLESS
            self.results.append((mutant, result))
            tell(f"{len(self.results):4} {result:7} {mutant.file}:{mutant.line} {mutant.key.partition(' ')[2]}")
        return True

    def told(self, session: pytest.Session, items: dict[str, pytest.Item]) -> dict[str, Any]:
        """Which tests call which functions; with `--again` as noted before, with what is new."""
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / CALLS
        told: dict[str, Any] = {"found": {}, "seconds": {}, "failed": []}
        if self.again and path.exists():
            told = json.loads(path.read_text())
        new = [item for name, item in items.items() if name not in told["seconds"]]
        if new:
            more = json.loads(in_child(lambda: calls(session, new), 3600.0))
            for name, tests in more["found"].items():
                told["found"].setdefault(name, []).extend(tests)
            told["seconds"] |= more["seconds"]
            told["failed"] += more["failed"]
            path.write_text(json.dumps(told))
        return told


def tests_of(mutant: Mutant, told: dict[str, Any]) -> list[str]:
    """The tests that call a mutant's function, as many as the budget has room for.

    The fastest one of each file comes first, then the second one of each: files look at a function from several sides.
    """
    found = [test for test in told["found"].get(f"{mutant.file} {mutant.function}", ()) if test not in told["failed"]]
    ranks: dict[str, int] = defaultdict(int)
    order: list[tuple[int, float, str]] = []
    for seconds, test in sorted((float(told["seconds"][test]), test) for test in found):
        file = test.partition("::")[0]
        order.append((ranks[file], seconds, test))
        ranks[file] += 1
    spent, chosen = 0.0, []
    for *_, test in sorted(order):
        spent += told["seconds"][test]
        if spent > BUDGET_SECONDS:
            break
        chosen.append(test)
    return chosen


def in_child(work: Any, seconds: float) -> str:
    """What a function returns in a copy of this process; empty if it takes longer, or the copy ends otherwise."""
    sys.stdout.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        os.close(reading)
        quiet = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        with os.fdopen(writing, "w") as file:
            file.write(work())
        os._exit(0)
    os.close(writing)
    end, said = time.monotonic() + seconds, b""
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            break
        said += part
    else:
        said = b""
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said.decode()


def calls(session: pytest.Session, items: Sequence[pytest.Item]) -> str:
    """Run tests, and tell as JSON which functions each has called."""
    noted = Calls()
    session.config.pluginmanager.register(noted)
    threading.settrace(noted.trace)
    sys.settrace(noted.trace)
    run(session, items)
    sys.settrace(None)
    found = {name: sorted(tests) for name, tests in noted.found.items()}
    return json.dumps({"found": found, "seconds": noted.seconds, "failed": sorted(noted.failed)})


def run(session: pytest.Session, items: Sequence[pytest.Item], failed: Failed | None = None) -> None:
    """Run tests, until one fails."""
    for item, following in zip(items, (*items[1:], None), strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failed and failed.is_true:
            session._setupstate.teardown_exact(None)
            break


def play(session: pytest.Session, mutant: Mutant, items: Sequence[pytest.Item]) -> str:
    """Make the mistake, and run tests: whether they have noticed it."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    failed, code = Failed(), code_of(ROOT, mutant)
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and is_of(one, mutant):
            one.__code__ = code
        elif isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()
    session.config.pluginmanager.register(failed)
    run(session, items, failed)
    return KILLED if failed.is_true else ALIVE


def is_of(function: FunctionType, mutant: Mutant) -> bool:
    """Whether a function is that of a mutant."""
    return function.__qualname__ == mutant.function and function.__code__.co_filename == str(ROOT / mutant.file)


def every_mutant(room: str) -> list[Mutant]:
    """All mutants of a folder or file of slurmfab/, without those that are known to do no harm."""
    known = json.loads(EQUIVALENT.read_text())
    place = ROOT / "slurmfab" / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    return [one for path in files for one in mutants(ROOT, path.relative_to(ROOT)) if one.key not in known]


def sample_of(rooms: Iterable[str], size: int, seed: int) -> list[Mutant]:
    """Some of all mutants, of each room as many as its share; the same ones for the same sources and seed."""
    every = {room: every_mutant(room) for room in rooms}
    total = sum(map(len, every.values()))
    tell(f"{total} mutants, {len(json.loads(EQUIVALENT.read_text()))} known to do the same as the code")
    numbers, some = random.Random(seed), min(size, total)
    found = [one for there in every.values() for one in numbers.sample(there, round(some * len(there) / (total or 1)))]
    numbers.shuffle(found)  # so that a run that the time ends has played some of each
    return found


def left_of(rooms: Iterable[str], path: Path) -> list[Mutant]:
    """The mutants that the last run has left alive."""
    keys = set(path.read_text().splitlines())
    return [one for room in rooms for one in every_mutant(room) if one.key in keys]


def interval(count: int, total: int) -> tuple[float, float]:
    """Between which shares the share of all lies with 95 % certainty, by Wilson's score, from those of a sample."""
    share, score = count / total, 1.96**2 / total
    middle = share + score / 2
    way = (score * (share * (1 - share) + score / 4)) ** 0.5
    return max(0.0, (middle - way) / (1 + score)), min(1.0, (middle + way) / (1 + score))


def rates(rooms: Iterable[str], results: Sequence[tuple[Mutant, str]]) -> Iterator[str]:
    """Yield a line for each room and one for all: how many are alive, and between which shares that of all lies."""
    places = {room: [result for one, result in results if is_in(one, room)] for room in rooms}
    for place, found in {**places, "all": [result for _, result in results]}.items():
        if found:
            left = sum(result in LEFT_ALIVE for result in found)
            least, most = interval(left, len(found))
            share = f"{100 * left / len(found):.1f} % ({100 * least:.1f} to {100 * most:.1f} % of all, 95 % sure)"
            yield f"{place}: {left} of {len(found)} are alive, {share}; {found.count(ENDLESS)} do not end"


def is_in(mutant: Mutant, room: str) -> bool:
    """Whether a mutant is of a folder or file of slurmfab/."""
    return f"{mutant.file}/".startswith(f"slurmfab/{room}/")


def main() -> int:
    """Play a sample of mutants; the exit code is 1 if too many are left alive."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants are played")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=40, help="when no further one is begun")
    parser.add_argument("--again", action="store_true", help="take which tests call what from the last run")
    parser.add_argument("--left", action="store_true", help="play those that the last run has left alive")
    parser.add_argument("--out", type=Path, default=OUT, help="where its files are written")
    parser.add_argument("--tests", nargs="*", default=["tests/unit", "tests/golden"])
    parser.add_argument("rooms", nargs="*", default=ROOMS, help="folders or files of slurmfab/")
    asked = parser.parse_args()
    path = asked.out / LEFT
    sample = left_of(asked.rooms, path) if asked.left else sample_of(asked.rooms, asked.sample, asked.seed)
    played = Mutants(sample, asked.minutes, asked.out, again=asked.again)
    words = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not lab and not browser and not shells"]
    # With `--ignore`, no run of all tests is noted (tests/conftest.py).
    pytest.main([*words, "--ignore", "tests/lab", *asked.tests], plugins=[played])
    left = [one for one, result in played.results if result in LEFT_ALIVE]
    path.write_text("".join(f"{one.key}\n" for one in left))
    for line in rates(asked.rooms, played.results):
        tell(line)
    tell(f"Those that are alive: {path}")
    return int(len(left) >= MOST_ALIVE * (len(played.results) or 1))


if __name__ == "__main__":
    sys.exit(main())
