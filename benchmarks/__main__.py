"""The suite's command line."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from benchmarks import machine, report
from benchmarks.clusters import Labs, labs
from benchmarks.measuring import Measured, measure
from benchmarks.peers import Tools, installed
from benchmarks.peers.tools import default_place
from benchmarks.programs import ProgramFailed
from benchmarks.results import Result, save
from benchmarks.scenarios import SCENARIOS, Scenario, Setting
from slurmfab import lab
from slurmfab.base.errors import SlurmfabError

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DOCUMENT = HERE.parent / "docs" / "performance.md"
INTERRUPTED, TERMINATED = 130, 143
"""Exit codes after Ctrl-C and SIGTERM, as shells have them."""

SUITE = "trixie"
"""Whose hosts are measured unless somebody says otherwise; results of others have its name in theirs."""

LONGEST_PREFIX = 5
"""A lab's name has eight characters; three are the suite's."""


@dataclass(frozen=True)
class Options:
    """What was asked for.

    Args:
        scenarios: their names.
        rounds: how many; 0 for each scenario's own number.
        results: directory for the results.
        suite: Debian suite of the lab hosts.
        prefix: how the names of the labs begin.
        with_peers: whether other tools are measured too.
    """

    scenarios: tuple[str, ...]
    rounds: int
    results: Path
    suite: str
    prefix: str
    with_peers: bool


def say(line: str) -> None:
    """Tell a line to whoever watches."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure slurmfab; see docs/performance.md."
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help="what to measure (default: everything)")
    parser.add_argument("--list", action="store_true", help="name the scenarios, and do nothing else")
    parser.add_argument("--report", action="store_true", help="write docs/performance.md from the results, no more")
    parser.add_argument("--rounds", type=int, default=0, help="rounds (default: each scenario's own number)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory for the results as JSON")
    parser.add_argument("--no-report", action="store_true", help="leave docs/performance.md as it is")
    parser.add_argument("--no-peers", action="store_true", help="leave Ansible and pyinfra out")
    parser.add_argument("--suite", default=SUITE, choices=("bookworm", "trixie"), help="Debian suite of the hosts")
    parser.add_argument("--lab", default="bench", help="how the names of the labs begin (default: bench)")
    found = parser.parse_args(words)
    strangers = [name for name in found.scenarios if name not in SCENARIOS]
    if strangers:
        parser.error(f"no such scenario: {', '.join(strangers)} (known: {', '.join(SCENARIOS)})")
    if not (found.lab.isalnum() and found.lab.islower() and len(found.lab) <= LONGEST_PREFIX):
        parser.error(f"--lab {found.lab}: one to {LONGEST_PREFIX} of a-z and 0-9.")
    return found


def main(words: Sequence[str]) -> int:
    """Measure what was asked for, keep the results, and write the report; 1 if a scenario failed, 130 after Ctrl-C."""
    asked = arguments(words)
    if asked.list:
        sys.stdout.write("".join(f"{name:18} {one.title}\n" for name, one in SCENARIOS.items()))
        return 0
    failed = 0
    if not asked.report:
        names = tuple(asked.scenarios) or tuple(SCENARIOS)
        options = Options(names, asked.rounds, asked.results, asked.suite, asked.lab, not asked.no_peers)
        begun = time.monotonic()
        try:
            failed = run(options)
        except KeyboardInterrupt:
            say("Ended by Ctrl-C; what was measured until then is kept, and no lab is left.")
            return INTERRUPTED
        say(f"All in {(time.monotonic() - begun) / 60:.0f} minutes.")
    if not asked.no_report:
        report.write(asked.results, DOCUMENT, tuple(SCENARIOS))
    return failed


def run(options: Options) -> int:
    """Measure the scenarios one after another; one that fails does not stop the others."""
    tools, failed = None, 0
    with (
        tempfile.TemporaryDirectory(prefix="bench") as name,
        labs(options.prefix, options.suite, Path(name), say) as shared,
    ):
        for number, scenario in enumerate((SCENARIOS[one] for one in options.scenarios), 1):
            say(f"{number} of {len(options.scenarios)}: {scenario.name}: {scenario.title}")
            obstacle = lab.obstacle() if scenario.needs_hosts else ""
            if obstacle:
                say(f"{scenario.name}: not measured. {obstacle}")
                failed = 1
                continue
            if scenario.needs_hosts and tools is None:
                tools = installed(default_place()) if options.with_peers else Tools()
            try:
                result = perform(scenario, options, shared, tools or Tools(), Path(name))
            except (ProgramFailed, SlurmfabError, OSError) as error:
                say(f"{scenario.name}: failed: {error}")
                failed = 1
                continue
            say(f"{scenario.name}: {save(result, options.results)}")
            say(report.in_words(result))
    return failed


def perform(scenario: Scenario, options: Options, shared: Labs, tools: Tools, directory: Path) -> Result:
    """Measure one scenario.

    Raises:
        ProgramFailed, SlurmfabError, OSError: it cannot be measured; its hosts are taken down.
    """
    begun, found = time.monotonic(), machine.described()
    rounds = options.rounds or scenario.rounds
    place = directory / scenario.name
    place.mkdir(exist_ok=True)
    setting = Setting(shared, tuple(tools.peers), place, say, 2 * rounds + scenario.warm_ups)
    try:
        ways = tuple(scenario.ways(setting))
        measured = measure(
            ways, rounds, say,
            limit=scenario.minutes * 60, warm_ups=scenario.warm_ups, peer_rounds=scenario.peer_rounds,
        )  # fmt: skip
    finally:
        scenario.tidy(setting)
    say(f"{scenario.name}: {time.monotonic() - begun:.0f} s in all")
    return result_of(scenario, measured, found, tools, setting, options)


def result_of(  # noqa: PLR0917 - all that a result consists of
    scenario: Scenario, measured: Measured, found: dict[str, str], tools: Tools, setting: Setting, options: Options
) -> Result:
    """What a scenario has measured, with all that a reader has to know; on another suite it has a name of its own."""
    has_peers = any(target.of in {*tools.missing, *(peer.name for peer in tools.peers)} for target in scenario.targets)
    skipped = {**(tools.missing if has_peers else {}), **setting.skipped, **measured.dropped}
    versions = {peer.name: peer.version for peer in tools.peers if peer.name in measured.samples}
    other = "" if options.suite == SUITE else options.suite
    return Result(
        f"{scenario.name}-{other}" if other else scenario.name,
        f"{scenario.title}, {other}" if other else scenario.title,
        {way: tuple(samples) for way, samples in measured.samples.items()},
        scenario.targets,
        {**found, **versions, "suite": options.suite},
        datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M"),
        skipped,
        (*scenario.notes, *([f"{scenario.name}: {measured.disturbance}."] if measured.disturbance else [])),
    )


if __name__ == "__main__":
    # So that all is taken down then as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    sys.exit(main(sys.argv[1:]))
