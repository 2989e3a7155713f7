"""Gives a site's own checks, which pytest itself runs, the hosts of the cluster: fixtures, conftest.py and marks work.

`host`, and every other place that a check may have for an argument (`node`, `gpu_node`, `login_host`, ...), is a
fixture with one value for each such host. The mark `on(WORDS)` restricts a check to the hosts that words name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import pytest

from slurmfab.base.errors import HostError, InputError
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost

ON = "on(words): run the check on these hosts alone, such as gpu or n[1-4]"
NOT_HERE = "does not apply here"  # why a check is skipped that says so
OF_PYTEST = ("skipif", "skip", "xfail", "usefixtures", "on")  # marks that pytest, or this module, has to carry out


def needs_pytest(item: pytest.Function, known: Iterable[str]) -> bool:
    """Whether a check asks for more than the arguments that slurmfab knows: fixtures of the site's, or marks."""
    own = {*item.fixturenames} - {*known} - {*getattr(getattr(item, "callspec", None), "params", ())}
    return bool(own) or any(mark.name in OF_PYTEST for mark in item.iter_markers())


class SiteHosts:
    """A plugin of pytest with the hosts of a cluster.

    `places`: the selected hosts by place. `find`: the host of a name, or raises HostError. `chosen`: the hosts that
    words name, or raises InputError. `shared`: other arguments by name, each made when it is asked for.
    """

    def __init__(
        self,
        places: Mapping[str, Sequence[str]],
        find: Callable[[str], CheckedHost],
        chosen: Callable[[str], Iterable[str]],
        shared: Mapping[str, Callable[[], Any]],
    ) -> None:
        self.places = places
        self.find = find
        self.chosen = chosen
        self.fixtures = ModuleType("fixtures of slurmfab")  # what pytest looks through
        for name in places:
            setattr(self.fixtures, name, self.host_fixture(name))
        for name, make in shared.items():
            setattr(self.fixtures, name, pytest.fixture(scope="session", name=name)(make))

    def host_fixture(self, name: str) -> Any:
        """The fixture that is a host of a place."""

        @pytest.fixture(scope="session", name=name)
        def place(request: pytest.FixtureRequest) -> CheckedHost:
            try:
                return self.find(request.param)
            except HostError as error:
                why = str(error)
            pytest.fail(why, pytrace=False)

        return place

    def pytest_configure(self, config: pytest.Config) -> None:
        """Make the fixtures and the mark known."""
        config.addinivalue_line("markers", ON)
        config.pluginmanager.register(self.fixtures, "slurmfab-fixtures")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test per host of a check, in the order of the cluster's hosts."""
        for name, hosts in self.places.items():
            if name in metafunc.fixturenames:
                wanted = hosts
                for mark in metafunc.definition.iter_markers("on"):
                    try:
                        among = frozenset(self.chosen(*mark.args))
                    except InputError as error:
                        raise pytest.UsageError(str(error)) from None
                    wanted = [host for host in wanted if host in among]
                metafunc.parametrize(name, wanted, ids=wanted, indirect=True, scope="session")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Any:
        """Take a check that says that it does not apply for one that is skipped."""
        try:
            return (yield)
        except DoesNotApply:
            pytest.skip(NOT_HERE)
