"""Configuration of all tests: skips lab tests, distributes files over processes, reports the slowest tests."""

from __future__ import annotations

import atexit
import gc
import os
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from suites import SHARES, SUITES

from slurmfab import lab

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # Tests also run without pytest-xdist, in one process.
    LoadScopeScheduling = object

if TYPE_CHECKING:
    from stock import Stock

# Without cached bytecode each start of slurmfab compiles hundreds of modules, and tests start it very often.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A user of Ubuntu and Debian whose group is the user's own has 0002, so that directories look as if others could write.
os.umask(0o022)

# Archives that tests make are signed with a key of their own, and nobody's own key is trusted.
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="slurmfab-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CONFIG_HOME"], ignore_errors=True)

LABS = ("tests/lab/", "tests/breakages/")
TURN = "TURN"
"""Environment variable: which rows of tests/breakages and which files of tests/lab are played, and on which suite the
files of `stock.in_turn` are.

`all` for all of them, or a number that selects a share.
"""
EVERY_TIME = (
    "add_node",
    "bad_hosts",
    "check_cluster",
    "configless",
    "cut_off",
    "database",
    "deploy",
    "first_contact",
    "front_door",
    "hand_made_files",
    "import",
    "kill",
    "lab",
    "promises",
    "saved_plan",
    "upgrade",
    "wheel",
)
"""The files of tests/lab that are always played, without `test_`: what everything else stands on, and what could lose
jobs. Of the others each run of all tests plays a share, so that it ends within half an hour on two processors."""
GARBAGE_THRESHOLD = 50_000
"""How many new objects Python collects before it looks for garbage; thousands of tests live to the end anyway."""
DAY = 86400
"""Seconds; the day's number selects the share if nobody does."""
SLOWEST = 10
WORTH_TELLING = 0.5
"""Seconds; faster tests are not listed."""

LONGEST = {
    f"test_{name}.py": place
    for place, name in enumerate(
        (
            "week_of_a_user",
            "blackouts",
            "clean_machines",
            "like_ubuntu",
            "tutorial",
            "breakages",
            "import",
            "accounting_proof",
            "check_cluster",
            "gres",
            "accounts",
            "bad_hosts",
            "database",
            "guides",
            "come_and_go",
            "cut_off",
            "upgrade",
            "front_door",
            "bundle",
            "people",
            "backup",
            "second_controller",
            "around_slurm",
            "power",
            "kill",
            "monitoring",
            "oci",
            "site_containers",
            "support_bundle",
            "usage",
            "scale",
        )
    )
}
"""Position in the queue of the slowest tests, by file; all other files come after them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the lab files that rest, unless files were named; skip what needs a lab, or root."""
    if not any(".py" in word for word in config.args):
        resting = {item for item in items if is_resting(item.path.stem, item.nodeid, os.environ[TURN])}
        items[:] = [item for item in items if item not in resting]
        config.hook.pytest_deselected(items=[*resting])
    skip_without_lab(items)
    for item in items:
        if os.geteuid() != 0 and (needed := item.get_closest_marker("needs_root")):
            item.add_marker(pytest.mark.skip(reason=needed.args[0]))


def is_resting(file: str, nodeid: str, turn: str) -> bool:
    """Whether a test is of a lab file that another run plays.

    Args:
        file: name of the test's file, without its ending.
        nodeid: the test's name, with its path.
        turn: the value of `TURN`.
    """
    name = file.removeprefix("test_")
    if turn == "all" or not nodeid.startswith("tests/lab/") or name in EVERY_TIME:
        return False
    # Two turns have the same share, since whether a turn is odd or even selects the suite.
    return (int(turn) // len(SUITES) + zlib.crc32(name.encode())) % SHARES != 0


def skip_without_lab(items: list[pytest.Item]) -> None:
    """Skip lab tests, with the reason, on machines that cannot run a lab; in CI they are not skipped and fail."""
    why_not = lab.obstacle()
    if not why_not or os.environ.get("CI"):
        return
    for item in items:
        if item.get_closest_marker("lab"):  # and not for a folder of that name
            item.add_marker(pytest.mark.skip(reason=why_not))


def pytest_collection_finish() -> None:
    """Take the tests, which live to the end, out of what the collector of garbage looks through."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    gc.collect()
    gc.freeze()


def suite_of(nodeid: str) -> str:
    """The suite in a test's parameters; empty if there is none."""
    return next((suite for suite in SUITES if re.search(rf"\[(.*-)?{suite}[\]-]", nodeid)), "")


TOGETHER = (
    ("tests/agent/dnf/",),
    ("tests/unit/test_source.py", "tests/unit/test_layers.py", "tests/unit/test_program_name.py",
     "tests/unit/test_file_modes.py"),
)  # fmt: skip
"""Files that one process plays, since they share what is dear to make: packages of rpm's, the trees of all sources."""


class ByFileAndSuite(LoadScopeScheduling):
    """Assigns one test file with one Debian suite at a time to a process, and prefers files of the same suite.

    So the labs of a file are made once, and a process seldom needs the disks of both suites. Files with labs are first,
    because a slow one that started last would delay the end.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = next((files[0] for files in TOGETHER if nodeid.startswith(files)), nodeid.partition("::")[0])
        return f"{file} {suite_of(nodeid)}".strip()

    def _assign_work_unit(self, node: Any) -> None:
        """Sort the queue by urgency for this process; the first unit is then assigned to it."""
        number = int(re.sub(r"\D", "", node.gateway.id) or 0)
        kind = SUITES[number % len(SUITES)]
        self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda unit: urgency(unit[0], kind)))
        super()._assign_work_unit(node)


def urgency(unit: str, kind: str) -> tuple[int, int]:
    """Sort key of a unit of work for a process that prefers one suite.

    Order: files with the preferred suite, lab tests without a suite, files with the other suite, other tests. Slow
    files are first within each group.

    Args:
        unit: path of the test file, and after a space the suite if there is one.
        kind: the preferred suite.
    """
    file, _, suite = unit.partition(" ")
    place = LONGEST.get(file.rpartition("/")[2], len(LONGEST))
    if not suite and not file.startswith(LABS):
        return 3, place
    return (0 if suite == kind else 2 if suite else 1), place


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests with `ByFileAndSuite`, whatever --dist says: two processes cannot share a lab."""
    return ByFileAndSuite(config, log)


def pytest_configure(config: pytest.Config) -> None:
    # Set before the other processes start, so that all collect the same tests.
    os.environ.setdefault(TURN, str(int(time.time()) // DAY))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(), "times")
        config.pluginmanager.register(Breakages(), "breakages")
        config.pluginmanager.register(Deployed(), "deployed")
        if not any(".py" in word or "::" in word for word in config.args):
            config.pluginmanager.register(Tried(), "tried")


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """Labs that start from copies of deployed disks, shared by all tests of a process."""
    from stock import Stock

    made = Stock(tmp_path_factory)
    made.clear()
    try:
        yield made
    finally:
        made.clear()


class Breakages:
    """Counts how many breakages were found, named, and mended or told, in a run that plays some of them."""

    def __init__(self) -> None:
        self.results: list[dict[str, bool]] = []

    def pytest_report_header(self) -> str:
        return f"breakages and lab files: share by {TURN}={os.environ[TURN]}; all of them: make test-all"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and "tests/breakages/" in report.nodeid:
            import counts

            came = [dict(value) for name, value in report.user_properties if name == "breakage"]
            counts.note(report.nodeid, report.passed, came[0] if came else {})
            self.results += came

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.results:
            count = Counter(word for result in self.results for word, holds in result.items() if holds)
            terminalreporter.section(f"breakages (share by {TURN}={os.environ[TURN]})")
            terminalreporter.write_line(
                f"{len(self.results)} played: {count['found']} found, {count['named']} named,"
                f" {count['mended']} mended, {count['told']} told with a repair that was tried"
            )


class Deployed:
    """Compares what this run deployed to with the record from which the tables of docs/supported.md are made.

    In CI a combination that the record lacks is a failure; elsewhere it is told, since a machine of another
    architecture or with another suite is no mistake.
    """

    def __init__(self) -> None:
        self.begun = time.time()

    def lacking(self) -> tuple[str, ...]:
        """The combinations that the record lacks, as text."""
        import deployed

        return tuple(" ".join(one.key) for one in deployed.missing(deployed.seen(self.begun)))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK and self.lacking():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for one in self.lacking():
            terminalreporter.write_line(
                f"deployed to: {one}; tests/lab/deployed.json lacks this. Put it there: make supported", red=True
            )


class Tried:
    """Notes whether a run of all tests has passed on this machine, lab tests included (see tests/lab/tried.py)."""

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        import tried

        if not session.config.option.ignore and not session.config.option.collectonly and not lab.obstacle():
            tried.note("test", passed=session.exitstatus == pytest.ExitCode.OK)


class Times:
    """Times of all tests, including their fixtures; lists the slowest tests at the end."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for group, tests in sorted(self.groups().items()):
            total = sum(tests.values())
            terminalreporter.section(f"{group}: {len(tests)} tests, {total:.0f} s; the slowest")
            for line in slowest(tests):
                terminalreporter.write_line(line)

    def groups(self) -> dict[str, Counter[str]]:
        """Times of the tests in each folder below tests/; lab tests are grouped by suite."""
        found: dict[str, Counter[str]] = {}
        for nodeid, seconds in self.seconds.items():
            folder = nodeid.split("/")[1] if nodeid.count("/") > 1 else "tests"
            group = f"{folder} {suite_of(nodeid)}".strip() if nodeid.startswith(LABS) else folder
            found.setdefault(group, Counter())[nodeid] = seconds
        return found


def slowest(tests: Counter[str]) -> Iterator[str]:
    """Lines with the slowest tests and their times; tests below the limit are left out."""
    for nodeid, seconds in tests.most_common(SLOWEST):
        if seconds >= WORTH_TELLING:
            yield f"{seconds:6.1f} s  {nodeid.removeprefix('tests/')}"
