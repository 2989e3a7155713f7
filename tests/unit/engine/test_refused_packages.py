"""Packages in the cluster file that none of their hosts can get are refused before anything is changed."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import InputError
from slurmfab.core.engine.refused_files import refuse_unknown
from slurmfab.core.engine.report import Step
from slurmfab.on_hosts.agent.core.resource import FAILED, WOULD_CHANGE, Outcome
from slurmfab.on_hosts.agent.packages.packages import NO_SOURCE_HAS

IDS = {"c1": "packages:munge,tree", "n1": "packages:ghost,munge,tree", "n2": "packages:ghost,munge,tree"}


def compared(**lacking: str) -> list[Step]:
    """A comparison of three hosts, some of whose sources lack packages."""
    return [
        Step(
            "packages",
            host,
            (
                Outcome(name, FAILED, message=NO_SOURCE_HAS + lacking[host])
                if host in lacking
                else Outcome(name, WOULD_CHANGE),
            ),
        )
        for host, name in IDS.items()
    ]


def test_packages_that_none_of_their_hosts_can_get_are_refused_with_each_in_a_line() -> None:
    with pytest.raises(InputError) as refusal:
        refuse_unknown(compared(c1="tree=9", n1="ghost, tree=9", n2="ghost, tree=9"))
    first, second, advice = str(refusal.value).splitlines()
    assert first == "n[1-2]: the package sources there do not have ghost."
    assert second == "c1,n[1-2]: the package sources there do not have tree=9."
    assert advice.endswith("Nothing was changed on any host.")


@pytest.mark.parametrize("lacking", [{}, {"n1": "ghost"}, {"n1": "tree=9", "n2": "tree=9"}])
def test_a_host_whose_sources_lack_what_those_of_others_have_stops_nobody_else(lacking: dict[str, str]) -> None:
    refuse_unknown(compared(**lacking))
