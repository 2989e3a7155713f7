"""Packages that slurmfab installed itself: noted, removed when nothing asks for them, and nobody else's touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core.host_paths import ADDED_PACKAGES
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.packages import added_packages, former_packages
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages

STATUS = "Package: {}\nStatus: install ok installed\n\n"
PLANS = {"lmod": "Remv lmod [8.6]\n", "msmtp": "Remv msmtp [1.8]\nRemv mutt [2.2]\n"}
"""What apt-get would remove with each package."""


class Apt:
    """apt-get that tells `PLANS`, and notes what it removes."""

    def __init__(self, code: int = 0) -> None:
        self.code = code
        self.removed: list[str] = []

    def __call__(self, _: Context, arguments: list[str]) -> tuple[int, str]:
        if "--simulate" in arguments:
            return 0, PLANS[arguments[-1]]
        self.removed += arguments[arguments.index("--") + 1 :]
        return self.code, "E: Unmet dependencies"


@pytest.fixture
def context(root: Path) -> Context:
    (root / "var/lib/dpkg").mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text("".join(map(STATUS.format, ("lmod", "msmtp", "mutt"))))
    return Context(str(root))


def test_names_when_noted_and_forgotten_are_in_the_record_and_an_empty_record_is_no_file(context: Context) -> None:
    added_packages.note(context, ("msmtp", "lmod"))
    added_packages.note(context, ("lmod",))
    assert Path(context.path(ADDED_PACKAGES)).read_text() == "lmod\nmsmtp\n"
    added_packages.forget(context, ("lmod", "msmtp", "ghost"))
    assert not Path(context.path(ADDED_PACKAGES)).exists()
    assert added_packages.read(context) == frozenset()


def test_packages_when_nothing_else_needs_them_are_removed_and_forgotten(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt = Apt()
    monkeypatch.setattr(former_packages, "apt_get", apt)
    added_packages.note(context, ("lmod", "msmtp", "ghost"))
    outcome = apply(FormerPackages(("ghost", "lmod", "msmtp")), context)
    assert (outcome.status, apt.removed) == ("changed", ["lmod"])
    assert outcome.message == "msmtp stays, because other packages need it"
    assert apply(FormerPackages(("ghost", "lmod", "msmtp")), context).status == "ok"


def test_packages_that_somebody_else_installed_stay(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    apt = Apt()
    monkeypatch.setattr(former_packages, "apt_get", apt)
    assert apply(FormerPackages(("lmod",)), context).status == "ok"
    assert apt.removed == []


def test_packages_when_apt_fails_stay_in_the_record(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(former_packages, "apt_get", Apt(code=100))
    added_packages.note(context, ("lmod",))
    assert apply(FormerPackages(("lmod",)), context).status == "failed"
    assert added_packages.read(context) == {"lmod"}
