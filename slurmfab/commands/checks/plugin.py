"""Passes hosts to the checks, which pytest collects, runs each on all its hosts at once, and judges the results.

A check with one of the arguments in `slurmfab.commands.checks.places_of_checks`, such as `host` and `gpu_node`, a
`CheckedHost`, runs once for each such host that the user selected. Without one it runs once, if the user selected the
primary controller, or, for `nodes`, two compute nodes. Further arguments:

    account             the name of a system user, `slurm` and `munge`: the check runs once for each
    controller          the primary controller (`CheckedHost`), even if the user did not select it
    slurm               Slurm's commands and test jobs (`slurmfab.commands.checks.slurm.Slurm`)
    others              all hosts that are reachable (`CheckedHost`), by name
    nodes               the selected compute nodes by name, each with the `foundation` check that failed there, or empty
    cluster, lock       the cluster file and its lock

Checks run in threads, on many hosts at the same time, so they must not change anything except local variables. Those
of the groups in `APART` run one after another on each host, which does not wait for others; each of the others begins
when the one before it has run everywhere.

A site's own checks (`slurmfab.commands.checks.own`) have the same arguments.

A check with the mark `foundation` tests a service that every job needs: no job is sent to a host where it failed.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.errors import HostError, Unreachable
from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import node_state, own
from slurmfab.commands.checks.applies import DoesNotApply, Unasked, is_foundation, kind_of, sign_of
from slurmfab.commands.checks.hosts import CheckedHost, Shells
from slurmfab.commands.checks.places_of_checks import places_of
from slurmfab.commands.checks.release import OtherRelease, Remark
from slurmfab.commands.checks.results import FAILED, NOT_RUN, PASSED, Result, cause_and_repair
from slurmfab.commands.checks.shell import TooSlow
from slurmfab.commands.checks.site_hosts import NOT_HERE, SiteHosts, needs_pytest
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.wanted import with_logs
from slurmfab.hosts.fan_out import FAN_OUT
from slurmfab.on_hosts.agent.nodes.states import flags

ALWAYS = ("reachable.host_is_reachable", "daemons.controller_answers")
"""Checks that run even if `--only` does not name them: an unreachable host or slurmctld must be reported."""

ACCOUNTS = ("slurm", "munge")  # values of the argument `account`
JOBS = ("jobs", "accounting", "limits", "gpus", "mail")  # the groups of checks that run jobs, besides the site's own
LAST = "afterwards"  # the group of checks that come after the site's own, too

APART = (
    *("reachable", "release", "system", "daemons", "identity", "people", "storage", "munge", "clock", "ssh", "network"),
    *("configuration", "site", "nodes", "health", "power", "cgroups", "database", "directory", "modules", "registry"),
)
"""The groups of checks that run no jobs and need nothing that was found on other hosts."""

OF_SLURM = ("daemons", "network", "configuration", "nodes", "health", "cgroups", *JOBS)
"""The groups of checks that fail on a host with another release of Slurm, whatever else is wrong there."""


class Checks:
    """A plugin of pytest that runs the checks which it collects; afterwards, `results` has the results.

    `only`: names of groups, or parts of checks' names; empty for all. `heard`: gets the results of each check.
    `waits`: is told, every second, which check is waited for on which hosts.
    """

    def __init__(
        self,
        inventory: Inventory,
        hosts: Sequence[str],
        shells: Shells,
        only: Sequence[str] = (),
        heard: Callable[[tuple[Result, ...]], None] = lambda _: None,
        *,
        waits: Callable[[str], None] = lambda _: None,
    ) -> None:
        cluster, lock = inventory.cluster, inventory.lock
        self.hosts = tuple(hosts)
        self.only = tuple(only)
        self.heard = heard
        self.waits = waits
        self.results: dict[str, Result] = {}  # by file and test, such as `test_munge.py::test_key_is_safe[n1]`
        self.own = own.directory(inventory.path)
        self.unsound: dict[str, str] = {}
        self.other_release: set[str] = set()
        self.together: dict[str, list[pytest.Function]] = {}
        self.by_pytest: dict[str, list[pytest.Function]] = {}  # the site's own, where pytest itself has to run them
        self.lost = {host: shell for host, shell in shells.items() if isinstance(shell, HostError)}
        self.known = {
            host: CheckedHost(host, shell) for host, shell in shells.items() if not isinstance(shell, HostError)
        }
        self.controller = cluster.controller
        self.places = places_of(inventory, self.hosts)
        controller = self.known.get(cluster.controller)
        self.slurm = Slurm(controller, cluster) if controller else None
        if self.slurm:
            self.slurm.sound_nodes = self.sound_nodes
        self.shared: dict[str, Any] = {
            "controller": controller,
            "slurm": self.slurm,
            "nodes": {},
            "others": {},
            "cluster": cluster,
            "lock": lock,
            "inventory": inventory,
        }

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test per host of a check, in the order of the cluster's hosts."""
        for name, hosts in {**self.places, "account": ACCOUNTS}.items():
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, hosts, ids=hosts)
        for name in self.shared:
            if name in metafunc.fixturenames:
                metafunc.parametrize(name, [None], ids=[pytest.HIDDEN_PARAM])

    def pytest_collection_modifyitems(self, items: list[pytest.Function]) -> None:
        """Take the selected tests, grouped by check."""
        names = {*self.places, *self.shared, "account"}
        theirs = [item for item in items if self.is_own(item)]
        has_more = (self.own / own.CONFTEST).exists() or any(needs_pytest(item, names) for item in theirs)
        for item in items:
            if self.is_wanted(item):
                group = self.by_pytest if has_more and self.is_own(item) else self.together
                group.setdefault(self.check_of(item), []).append(item)

    def pytest_exception_interact(self, node: pytest.Collector, call: pytest.CallInfo[Any]) -> None:
        """Take a file of the site's that cannot be loaded for a check that has failed."""
        if call.excinfo:
            self.file_fails(node.path, own.why_broken(call.excinfo.value))

    def file_fails(self, path: Path, why: str) -> None:
        """Note that a file of the site's own is not used."""
        group = own.group_of(path)
        if self.is_chosen(group, own.LOADS) and self.controller in self.hosts:
            told = Result(group, own.LOADS, own.TITLE, self.controller, FAILED, cause=f"{path}: {why}", own=True)
            self.results[f"{own.ALL}/{path.name}::{own.LOADS}"] = told
            self.heard((told,))

    def is_wanted(self, item: pytest.Function) -> bool:
        """Whether the user selected a test's host and its check."""
        arguments = {*arguments_of(item), *params_of(item)}  # a fixture of the site's may have asked for the place
        place = next((name for name in self.places if name in arguments), None)
        if place:
            is_about_us = params_of(item).get(place) in self.places[place]
        else:
            is_about_us = len(self.places["node"]) > 1 if "nodes" in arguments else self.controller in self.hosts
        group, _, name = self.check_of(item).partition(".")
        return is_about_us and (self.is_chosen(group, name) or f"{group}.{name}" in ALWAYS)

    def is_chosen(self, group: str, name: str) -> bool:
        """Whether the user selected a check."""
        return not self.only or any(matches(word, group, name) for word in self.only)

    def unknown_words(self) -> tuple[str, ...]:
        """The words of `only` that match no check."""
        told = [(one.group, one.check) for one in self.results.values()]
        checks = (*self.together, *self.by_pytest)
        known = [*told, *((group, name) for group, _, name in (check.partition(".") for check in checks))]
        return tuple(word for word in self.only if not any(matches(word, *check) for check in known))

    def run_all(self) -> None:
        """Run all checks in order: those in `APART` each host at its own pace, the others one after another."""
        checks = [items for _, items in sorted(self.together.items(), key=lambda one: one[0].startswith(f"{LAST}."))]
        for is_apart, some in groupby(checks, key=lambda items: self.group_of(items[0]) in APART):
            for part in [[*some]] if is_apart else ([items] for items in some):
                self.run(part)

    def run(self, checks: Sequence[Sequence[pytest.Function]]) -> None:
        """Run checks on their hosts, one after another on each host, and tell each when it has run on all of them."""
        found: dict[pytest.Function, Future[Result | None]] = {item: Future() for items in checks for item in items}
        left: dict[str, deque[pytest.Function]] = {}
        for item in found:
            left.setdefault(self.host_of(item), deque()).append(item)
        pool = ThreadPoolExecutor(max_workers=min(FAN_OUT, max(1, len(left))), thread_name_prefix="check")

        def go_on(items: deque[pytest.Function]) -> None:
            item = items.popleft()
            try:
                found[item].set_result(self.run_one(item))
            except BaseException as error:
                found[item].set_exception(error)
                raise
            if items:
                pool.submit(go_on, items)

        try:
            for waiting in left.values():
                pool.submit(go_on, waiting)
            for items in checks:
                while pending := [item for item in items if not found[item].done()]:
                    where = fold(dict.fromkeys(map(self.host_of, pending)))
                    self.waits(f"waiting for {where}: {self.group_of(pending[0])}: {title_of(pending[0])}")
                    wait([found[item] for item in pending], timeout=1)
                self.note(items, [found[item].result() for item in items])
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def note(self, items: Sequence[pytest.Function], results: Sequence[Result | None]) -> None:
        """Keep the results of a check, and tell them; `None` where it does not apply."""
        names = (f"{own.ALL}/{item.path.name}" if self.is_own(item) else item.path.name for item in items)
        ids = (f"{name}::{item.name}" for name, item in zip(names, items, strict=True))
        found = {test: result for test, result in zip(ids, results, strict=True) if result}
        self.results.update(found)
        if found:
            self.heard(tuple(found.values()))

    def run_one(self, item: pytest.Function) -> Result | None:
        """Run a check on one host; `None` if it does not apply there."""
        begin = time.monotonic()
        error: BaseException | None = None
        try:
            item.obj(**self.arguments(item))
        except DoesNotApply:
            return None
        except Remark as remark:
            return replace(self.result(item, None, time.monotonic() - begin), cause=str(remark))
        except (Exception, pytest.skip.Exception) as caught:  # a bug in a check is reported as its result
            error = caught
        if isinstance(error, pytest.skip.Exception) and not self.is_about(item):
            return None
        return self.result(item, error, time.monotonic() - begin)

    def is_about(self, item: pytest.Function) -> bool:
        """Whether the sentence of a check that is not run says something of its host, as far as is known unasked."""
        if self.is_own(item):
            return True
        names, params = arguments_of(item), params_of(item)
        unasked = {name: Unasked(params[name]) for name in names if name in self.places}
        shared = {**self.shared_by(item), "controller": Unasked(self.controller), "slurm": Unasked(self.controller)}
        shared["others"] = {name: Unasked(name) for name in self.known}
        try:
            item.obj(**{name: unasked.get(name, shared.get(name)) for name in names})
        except DoesNotApply:
            return False
        except (Exception, pytest.skip.Exception):
            return True
        return True

    def arguments(self, item: pytest.Function) -> dict[str, Any]:
        """The arguments of a check; skips if what it needs does not work, HostError if it reports unreachability."""
        arguments, params = arguments_of(item), params_of(item)
        hosts = {name: params[name] for name in arguments if name in self.places}
        needed = [*hosts.values(), *([self.controller] if {"controller", "slurm"} & set(arguments) else [])]
        concerned = {*hosts.values(), *(self.places["node"] if "nodes" in arguments else ())}
        if self.group_of(item) in OF_SLURM and (strangers := self.other_release & concerned):
            pytest.skip(f"{fold(strangers)} has a Slurm that does not work with the controller's.")
        for host in needed:
            self.need(item, host)
        if "slurm" in arguments and self.slurm and not self.slurm.answers:
            pytest.skip(f"slurmctld does not answer on {self.controller}.")
        return {**{name: self.known[host] for name, host in hosts.items()}, **self.shared_by(item)}

    def shared_by(self, item: pytest.Function) -> dict[str, Any]:
        """The arguments of a check that are no places, by name."""
        params = params_of(item)
        others = {
            name: self.shared.get(name, params.get(name)) for name in arguments_of(item) if name not in self.places
        }
        if "nodes" in others:
            others["nodes"] = {node: self.unsound.get(node, "") for node in self.places["node"]}
        if "others" in others:
            others["others"] = {name: host for name, host in self.known.items() if name not in self.lost}
        return others

    def sound_nodes(self) -> tuple[str, ...]:
        """The selected compute nodes that have failed nothing so far that every job needs."""
        out = {*self.unsound, *self.lost, *self.other_release}
        return tuple(node for node in self.places["node"] if node not in out)

    def need(self, item: pytest.Function, host: str) -> None:
        """Skip a check that needs an unreachable host, or would run jobs on a host that failed a `foundation` check.

        An unreachable host fails only one check, `test_host_is_reachable`. Raises pytest.skip.Exception if the check
        must be skipped. Raises HostError if the host is unreachable, and this is the check that reports it.
        """
        if host in self.lost:
            if self.is_asleep(host):
                pytest.skip(f"{host} is asleep: Slurm has switched it off, and wakes it for the next job.")
            if self.check_of(item) == ALWAYS[0]:
                raise self.lost[host]
            is_slow = isinstance(self.lost[host], TooSlow)
            pytest.skip(f"{host} is not asked any more: it has been slow." if is_slow else f"{host} is unreachable.")
        runs_jobs = self.is_own(item) or self.group_of(item) in JOBS
        if host in self.unsound and runs_jobs and "slurm" in arguments_of(item):
            pytest.skip(f"this has failed on {host}: {self.unsound[host]}.")

    def is_asleep(self, host: str) -> bool:
        """Whether a silent host is a node that the cluster file lets sleep, and that Slurm has switched off."""
        power = self.shared["cluster"].power
        if power is None or host not in power.nodes or not self.slurm or not self.slurm.answers:
            return False
        states = flags(self.slurm.nodes_as_found.get(host, {}).get("State", ""))
        return bool(states & node_state.ASLEEP) and "DOWN" not in states

    def result(self, item: pytest.Function, error: BaseException | None, seconds: float) -> Result:
        """The result of a check on one host. `error`: what the check raised; `None` if it passed."""
        host = self.host_of(item)
        group, _, check = self.check_of(item).partition(".")
        found = Result(group, check, title_of(item), host, PASSED, seconds=seconds, own=self.is_own(item))
        if error is None:
            return found
        if isinstance(error, pytest.skip.Exception):
            return replace(found, outcome=NOT_RUN, cause=str(error.msg))
        if isinstance(error, Unreachable):
            self.lost.setdefault(error.host, error)
        if isinstance(error, OtherRelease):
            self.other_release.add(host)
        if is_foundation(item.obj):
            self.unsound.setdefault(host, title_of(item))
        known = self.shared["cluster"], self.shared["lock"]
        texts = own.explained(error, item.path) if self.is_own(item) else explained(error, host)
        cause, repair = (with_logs(text, *known, host) for text in texts)
        is_unreachable, drift = isinstance(error, Unreachable), kind_of(error)
        told = replace(found, outcome=FAILED, cause=cause, repair=repair, is_unreachable=is_unreachable, drift=drift)
        return replace(told, sign=sign_of(error))

    def host_of(self, item: pytest.Function) -> str:
        """The host that a test is about."""
        params = params_of(item)
        return next((params[name] for name in self.places if name in params), self.controller)

    def is_own(self, item: pytest.Function) -> bool:
        """Whether a check is the site's own."""
        return item.path.parent == self.own

    def group_of(self, item: pytest.Function) -> str:
        """The group of a check, by the name of its file: `munge` for test_munge.py, `own-motd` for the site's own."""
        return own.group_of(item.path) if self.is_own(item) else item.path.stem.removeprefix("test_")

    def check_of(self, item: pytest.Function) -> str:
        """The name of a check on all its hosts: `munge.key_is_the_controllers`, with `.VALUE` for other parameters."""
        params, name = params_of(item), item.originalname.removeprefix("test_")
        values = [str(value) for key, value in params.items() if key not in {*self.places, *self.shared}]
        return ".".join((f"{self.group_of(item)}.{name}", *values))


def as_made(value: Any) -> Callable[[], Any]:
    """A function that returns a value."""
    return lambda: value


class OwnRun(SiteHosts):
    """A plugin of pytest, which runs a site's own checks itself, over the open shells; `Checks` gets the results.

    One check runs on one host after the other, as fixtures of the site's may last for several.
    """

    def __init__(self, checks: Checks, chosen: Callable[[str], Iterable[str]]) -> None:
        self.checks = checks
        shared: dict[str, Callable[[], Any]] = {name: as_made(value) for name, value in checks.shared.items()}
        shared["others"] = lambda: {name: host for name, host in checks.known.items() if name not in checks.lost}
        shared["nodes"] = lambda: {node: checks.unsound.get(node, "") for node in checks.places["node"]}
        super().__init__(checks.places, self.reachable, chosen, shared)

    def reachable(self, name: str) -> CheckedHost:
        """A host whose shell is open; a check of another one is skipped."""
        if name in self.checks.lost:
            pytest.skip(f"{name} is unreachable.")
        return self.checks.known[name]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the selected tests."""
        items[:] = [item for item in items if isinstance(item, pytest.Function) and self.checks.is_wanted(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Function, call: pytest.CallInfo[None]) -> Any:
        """Take the result of a check, from the first of its steps that did not pass, or from the check itself."""
        report: pytest.TestReport = yield
        if report.passed and report.when != "call":
            return report
        error = call.excinfo.value if call.excinfo else None
        if report.skipped and hasattr(report, "wasxfail"):
            error = pytest.skip.Exception(f"it is expected to fail: {report.wasxfail or 'no reason given'}.")
        elif isinstance(error, pytest.FixtureLookupError):
            error = LookupError(error.msg or f"fixture {error.argname!r} not found")
        elif isinstance(error, pytest.fail.Exception) or (error is None and report.failed):
            error = AssertionError(str(getattr(error, "msg", None) or report.longrepr))
        if not (isinstance(error, pytest.skip.Exception) and error.msg == NOT_HERE):
            self.checks.note([item], [self.checks.result(item, error, report.duration)])
        return report


def explained(error: BaseException, host: str) -> tuple[str, str]:
    """Cause and repair of a check that failed on a host; the repair is empty if unknown."""
    if isinstance(error, HostError):
        return (error.reason if error.host == host else str(error)), ""
    if isinstance(error, AssertionError):
        return cause_and_repair(str(error))
    return f"the check itself is broken ({type(error).__name__}: {error}); please report this.", ""


def arguments_of(item: pytest.Function) -> tuple[str, ...]:
    """The names of a check's arguments."""
    return _parameters(item.obj)


@cache
def _parameters(check: Callable[..., object]) -> tuple[str, ...]:
    return tuple(inspect.signature(check).parameters)


def params_of(item: pytest.Function) -> dict[str, str]:
    """The parameters of a test: names of hosts and accounts, by argument."""
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    return params


def matches(word: str, group: str, name: str) -> bool:
    """Whether a word of the user's selects a check."""
    return group.startswith(own.PREFIX) if word == own.ALL else word == group or word in name


def title_of(item: pytest.Function) -> str:
    """The title of a check: the first line of its docstring, with `{account}` replaced by the account's name."""
    name = item.originalname.removeprefix("test_").replace("_", " ")
    line = (inspect.getdoc(item.obj) or name).splitlines()[0].rstrip(".")
    return line.replace("{account}", params_of(item).get("account", ""))
