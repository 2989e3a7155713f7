"""The model of acceptance jobs (key `acceptance`): what `fab accept` runs, and which figures it expects."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.scratch import Variables
from slurmfab.cluster.inventory.shipped_jobs import SHIPPED, ShippedJob
from slurmfab.cluster.inventory.values import HostNames, Model, written_as

LONGEST_PATTERN = 200  # characters of a pattern
MOST_JOBS, MOST_FIGURES = 64, 32  # the most jobs of a cluster file, and figures of a job
TOLERANCE = 5.0  # default tolerance in percent
BROUGHT = ("pattern", "unit", "better")  # what a shipped job says of its figures, unless the file does

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_PERCENT = re.compile(r"(\d{1,2}(?:\.\d{1,2})?)%")
_DIGITS = re.compile(r"[0-9]{1,9}")
_UNIT = re.compile(r"[A-Za-z0-9%µ²³/·*^. -]{1,16}")
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\\@+-]*")
_A_WEEK = 7 * 24 * 60

Better = Literal["higher", "lower"]


@written_as(_NAME)
def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f'"{name[:60]}" is not a valid name: use at most 40 letters, digits, -, _ and .')
    return name


def _check_pattern(pattern: str) -> str:
    """Check a regular expression, which is applied to each line by itself."""
    if not 0 < len(pattern) <= LONGEST_PATTERN or "\n" in pattern:
        raise ValueError(f"a pattern has at most {LONGEST_PATTERN} characters, on one line")
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError(f"it has {groups} groups; it needs one, around the figure, as in 'speed: ([0-9.]+)'")
    return pattern


@written_as(_PERCENT)
def _percent(value: Any) -> Any:
    """A percentage as a number."""
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("it must be a percentage such as 5% or 2.5%")
    return float(found[1])


def _check_target(target: float) -> float:
    if not 0 <= target < math.inf:
        raise ValueError(f"{target:g} is not a figure; write a number, at least 0")
    return target


@written_as(_UNIT)
def _check_unit(unit: str) -> str:
    if not _UNIT.fullmatch(unit):
        raise ValueError(f'"{unit[:30]}" is not a unit of at most 16 characters, such as GB/s')
    return unit


@written_as(_LOGIN)
def _check_user(user: str) -> str:
    if not _LOGIN.fullmatch(user):
        raise ValueError(f'"{user[:60]}" is not a login name')
    return user


def _number_or(words: tuple[str, ...], least: int, most: int) -> Callable[[Any], Any]:
    """Make a validator for one of some words, or a whole number from `least` to `most`."""

    def checked(value: Any) -> Any:
        number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
        is_number = isinstance(number, int) and not isinstance(number, bool)
        if number not in words and not (is_number and least <= number <= most):
            raise ValueError(f"it must be {', '.join(words)} or a whole number from {least} to {most}")
        return number

    return checked


def _jobs(value: Any) -> Any:
    """The jobs by name; one without any keys is a shipped job that only records its figures."""
    return {name: {} if job is None else job for name, job in value.items()} if isinstance(value, dict) else value


def _check_jobs(jobs: dict[str, AcceptanceJob]) -> dict[str, AcceptanceJob]:
    if len(jobs) > MOST_JOBS:
        raise ValueError(f"there are {len(jobs)} jobs; at most {MOST_JOBS} are allowed")
    return jobs


def _check_figures(figures: dict[str, Figure]) -> dict[str, Figure]:
    if len(figures) > MOST_FIGURES:
        raise ValueError(f"there are {len(figures)} figures; at most {MOST_FIGURES} are allowed")
    return figures


Name = Annotated[str, AfterValidator(_check_name)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
Tolerance = Annotated[float, BeforeValidator(_percent, json_schema_input_type=str)]


class Figure(Model):
    """A figure of a job, and what is expected of it."""

    # the last line that matches counts
    pattern: Annotated[
        Pattern | None, Field(description="Regular expression for a line, with one group around the figure.")
    ] = None
    unit: Annotated[Annotated[str, AfterValidator(_check_unit)] | None, Field(description="Unit, such as GB/s.")] = None
    target: Annotated[
        Annotated[float, AfterValidator(_check_target)] | None, Field(description="The expected figure.")
    ] = None
    # percent, also against earlier runs
    tolerance: Annotated[Tolerance | None, Field(description="How much worse it may be, such as 5%.")] = None
    better: Annotated[Better | None, Field(description="Whether higher or lower is better.")] = None


class AcceptanceJob(Figure):
    """A job that measures something. Its own pattern, unit, target and direction are those of its only figure."""

    # `None` for the shipped job with the name of this one
    script: Annotated[
        str | None, Field(min_length=1, description="File beside the cluster file, or the name of a shipped job.")
    ] = None
    # `None` for what a shipped job has, else `each`
    nodes: Annotated[
        Literal["each", "all"] | int | None,
        BeforeValidator(_number_or(("each", "all"), 1, 65536)),
        Field(description="each: one job on each node; all, or a number: one job."),
    ] = None
    hosts: Annotated[HostNames, Field(description="Hostlist of compute nodes; all by default.")] = ()
    # `None` for one that has the nodes
    partition: Annotated[str | None, Field(description="Partition of the job.")] = None
    tasks: Annotated[
        Literal["cores"] | int | None,
        BeforeValidator(_number_or(("cores",), 1, 4096)),
        Field(description="Tasks on each node; cores for one on each core."),
    ] = None
    gpus: Annotated[
        Literal["all"] | int | None,
        BeforeValidator(_number_or(("all",), 0, 64)),
        Field(description="GPUs on each node; all for all of them."),
    ] = None
    minutes: Annotated[int | None, Field(ge=1, le=_A_WEEK, description="Time limit in minutes.")] = None
    whole_nodes: Annotated[bool, Field(description="Whether no other job may use its nodes meanwhile.")] = True
    at_once: Annotated[int | None, Field(ge=1, le=64, description="How many of these jobs run at once.")] = None
    # `None` for the user of the command line
    user: Annotated[
        Annotated[str, AfterValidator(_check_user)] | None, Field(description="Login name of who runs it.")
    ] = None
    variables: Annotated[Variables, Field(description="Variables of the job's environment.")] = {}
    figures: Annotated[
        dict[Name, Figure], AfterValidator(_check_figures), Field(description="Several figures, by name.")
    ] = {}

    def shipped(self, name: str) -> ShippedJob | None:
        """The shipped job that it is; `None` for a script of the site's own. `name`: of this job."""
        return SHIPPED.get(self.script or name)

    def figures_of(self, name: str) -> dict[str, Figure]:
        """Its figures by name, with what a shipped job brings along; the only one may have an empty name."""
        shipped = self.shipped(name)
        own = Figure().model_copy(update={field: getattr(self, field) for field in Figure.model_fields})
        if shipped is None:
            return {key: self._completed(one) for key, one in self.figures.items()} or {"": own}
        found: dict[str, Figure] = {}
        for key, brought in shipped.figures.items():
            said = self.figures.get(key) or (own if len(shipped.figures) == 1 else Figure())
            missing = {one: getattr(brought, one) for one in BROUGHT if getattr(said, one) is None}
            found[key] = self._completed(said.model_copy(update=missing))
        more = {key: self._completed(one) for key, one in self.figures.items() if key not in found}
        return {**found, **more}

    def _completed(self, figure: Figure) -> Figure:
        """A figure with the job's own tolerance if it has none."""
        if figure.tolerance is not None or self.tolerance is None:
            return figure
        return figure.model_copy(update={"tolerance": self.tolerance})


Acceptance = Annotated[
    dict[Name, AcceptanceJob],
    BeforeValidator(_jobs, json_schema_input_type=dict[str, AcceptanceJob | None]),
    AfterValidator(_check_jobs),
    Field(description="Jobs that measure the cluster, by name, with the figures that are expected."),
]
