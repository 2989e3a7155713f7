"""The quickcheck of jobs' directories: what a user's job prints, and whether the directory is gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest
from ruled_shells import RuledShell
from support import THREE_HOSTS, cluster

from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.quickcheck.basics import chosen, scratch
from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.commands.quickcheck.running import QuickcheckOptions, checks_for

SCRATCH = "scratch: {size: 4G, groups: [{hosts: n1, size: 0G}]}\n"


class Jobs:
    """Jobs that print something, on nodes where a directory stays or goes."""

    def __init__(self, printed: str = "", more: str = SCRATCH, *, stays: bool = False) -> None:
        self.cluster = cluster(THREE_HOSTS + more)
        self.known = None
        self.printed = printed
        self.options: tuple[str, ...] = ()
        self.shell = RuledShell({"test -e": CommandResult(int(stays))})

    def run(self, *_: Any, **said: Any) -> str:
        self.options = said["options"]
        return self.printed

    def free(self, nodes: Sequence[str]) -> tuple[str, ...]:
        return tuple(nodes)

    @contextmanager
    def opener(self, _: Any, hosts: Sequence[str]) -> Iterator[dict[str, RuledShell]]:
        yield dict.fromkeys(hosts, self.shell)

    @property
    def bench(self) -> Bench:
        return cast("Bench", self)


def test_directory_that_is_there_and_then_gone_passes() -> None:
    jobs = Jobs("directory=/scratch/7 mode=700\n")
    assert scratch(jobs.bench, "n2") == "a job wrote into /scratch/7, which is gone after it"
    assert jobs.options == ("--gres=scratch:1",)


@pytest.mark.parametrize(
    ("printed", "stays", "why"),
    [
        ("", False, r"could not write into \$SCRATCH"),
        ("directory=/lustre/ann mode=700", False, "not below /scratch"),
        ("directory=/scratch/7 mode=755", False, "other users can enter it"),
        ("directory=/scratch/7 mode=700", True, "/scratch/7 is still there after its job"),
    ],
)
def test_directory_that_is_not_right_fails(printed: str, stays: bool, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        scratch(Jobs(printed, stays=stays).bench, "n2")


def test_only_nodes_with_a_size_are_chosen() -> None:
    assert chosen(Jobs().bench, ("n1", "n2")) == "n2"
    for nodes, more in ((("n1",), SCRATCH), (("n2",), "")):
        with pytest.raises(pytest.skip.Exception, match="has no scratch"):
            chosen(Jobs(more=more).bench, nodes)


def test_without_the_key_the_check_runs_only_if_named() -> None:
    assert "scratch" not in checks_for(cluster(THREE_HOSTS), QuickcheckOptions())
    assert "scratch" in checks_for(cluster(THREE_HOSTS + SCRATCH), QuickcheckOptions())
