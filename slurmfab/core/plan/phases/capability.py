"""What phases share: files and programs that hosts have for one capability, and values that all hosts share."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.hosts import payload
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.services.service import Service

More = ParamSpec("More")
Value = TypeVar("Value")

HEAD = f"{MADE_BY_SLURMFAB} from the cluster file; edits here are overwritten.\n"  # the first line of written files

RUN_PROGRAM = """\
import sys

from slurmfab.on_hosts.{main} import main

sys.exit(main(*sys.argv[1:]))
"""
"""The text of `run.py`."""


def once(find: Callable[Concatenate[PlanInput, More], Value]) -> Callable[Concatenate[PlanInput, More], Value]:
    """Decorator that caches the values of a pure function of a plan input in the plan input itself.

    It works like `functools.cached_property`, for functions outside the class. Hosts with equal resources then share
    the same objects. `find`: a pure function; its arguments after the plan input have to be hashable.
    """

    @wraps(find)
    def found(plan_input: PlanInput, /, *more: More.args, **named: More.kwargs) -> Value:
        # cached_property keeps its values there too; a copy made by `replace` starts with an empty cache.
        values = vars(plan_input).setdefault("found once", {})
        question = (find, more, tuple(named.items()))
        if question not in values:
            values[question] = find(plan_input, *more, **named)
        return cast("Value", values[question])

    return found


def owned(plan_input: PlanInput, host: str, of: str, files: Iterable[OwnedFile]) -> tuple[Resource, ...]:
    """The files of a capability, such as `mounts`, on a host; without any, the removal of former ones."""
    wanted = tuple(files)
    return (OwnedFiles(of, wanted),) if wanted or plan_input.owns(host, of) else ()


def removed(plan_input: PlanInput, host: str, of: str, program: str, timer: str = "") -> tuple[Resource, ...]:
    """The removal of a capability's timer, program and files from a host.

    The files' record goes last: an interrupted run finds it. `of`: the capability; its program is in a directory of
    this name. `program`: the program's directory. `timer`: the timer's unit; empty without one.
    """
    if host not in plan_input.facts:
        return ()
    facts = plan_input.facts[host]
    return (
        *((Service(timer, running=False),) if timer in facts.services else ()),
        *((Program(program, ()),) if of in facts.programs else ()),
        *owned(plan_input, host, of, ()),
    )


@functools.cache
def program_files(main: str, *by_name: str) -> tuple[tuple[str, str], ...]:
    """Path and text of the files of one program with `main`, such as `agent.backup.timed_backup`.

    That is the module, all that it imports, and `by_name` those that no line of its text tells.
    """
    names = sorted(payload.closure((main, *by_name), payload.ON_HOSTS))
    texts = {
        f"slurmfab/on_hosts/{name.replace('.', '/')}.py": payload.source_of(name, payload.ON_HOSTS) for name in names
    }
    folders = {folder for path in texts for folder in itertools.accumulate(path.split("/")[:-1], "{}/{}".format)}
    packages = {f"{folder}/__init__.py": "" for folder in folders}
    return (("run.py", RUN_PROGRAM.format(main=main)), *sorted(packages.items()), *texts.items())
