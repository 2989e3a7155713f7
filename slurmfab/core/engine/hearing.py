"""One host's word against a run: it leaves out that host alone, unless the controller or most hosts say so."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from slurmfab.base.errors import HostFailed, SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.base.objections import outweighs

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run

Judged = TypeVar("Judged")


def hear(run: Run, judge: Callable[[], Judged], hosts: Collection[str]) -> Judged:
    """What a judgement returns once the hosts are left out on whose word alone its refusals rest.

    Args:
        run: what they are excluded from; notes them as doubted, also hosts that it is not about, if what they said is
            in the lock.
        judge: judges the hosts that are left; called until it refuses nothing.
        hosts: all hosts whose word was heard.

    Raises:
        SlurmfabError: the refusal, if it rests on the word of the controller, of most hosts, or of none.
    """
    while True:
        try:
            return judge()
        except SlurmfabError as error:
            found = grouped(
                (host, (reason, one.about))
                for one in error.objections
                for host, reason in one.blamed(run.controller, len(hosts)).items()
                if host not in run.doubted
            )
            # Several complaints of one host each may be those of most hosts together.
            if not found or outweighs([host for host in {**run.doubted, **found} if host in hosts], "", len(hosts)):
                raise
            ways = filter(None, (way.removeprefix("Nothing was changed.").strip() for way in error.ways))
            way = "\n".join(ways)
            for host, said in found.items():
                run.doubted[host] = next((about for _, about in said if about), "")
                text = "\n".join((*dict.fromkeys(reason for reason, _ in said), *([way] if way else [])))
                if host in hosts:
                    run.exclude(host, HostFailed(host, text))
                elif host not in run.failed_hosts:
                    run.progress.line(f"{host}: {text}")
