"""The base class of all models of a cluster file, and the kinds of values that several of its keys take."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from slurmfab.base import hostlist
from slurmfab.base.errors import HostlistError
from slurmfab.base.ip_addresses import family
from slurmfab.base.program_name import FAB

_DIRECTORY = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9_.+-]+)+")
_AMOUNT = re.compile(r"\d{1,2}(\.\d+)?%|\d+[KMGT]")
_DNS_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*")
_LICENSE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_MOST_LICENSES = 2**31 - 1
_CLOCK = re.compile(r"((?P<day>Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<time>([01]\d|2[0-3]):[0-5]\d)")
_HOUR, _DAY = 3600, 24 * 3600
_EVERY = {"hourly": _HOUR, "daily": _DAY, "weekly": 7 * _DAY}


TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""The words for true and false."""

PATTERNS: dict[Callable[..., Any], str] = {}
"""By validator, how a text is written that it takes; editors get these regular expressions with the JSON schema."""

_Validator = TypeVar("_Validator", bound=Callable[..., Any])
_Names = TypeVar("_Names", bound=tuple[str, ...])


def written_as(pattern: re.Pattern[str]) -> Callable[[_Validator], _Validator]:
    """Make a decorator of a validator that tells editors the pattern of its texts, or a somewhat wider one."""

    def remember(validator: _Validator) -> _Validator:
        PATTERNS[validator] = pattern.pattern
        return validator

    return remember


class Model(BaseModel):
    """The base class of all models: immutable, and a key that the model does not have is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _read_truths(cls, data: Any) -> Any:
        """Treat a key without a value as missing, and for a mapping that may be so, read `true` as {}, `false` as none.

        True is enough for a mapping that needs no key. The words for true and false are those of keys that take nothing
        else: yes and no, on and off.
        """
        if not isinstance(data, dict):
            return data
        fields = {str(field.validation_alias or name): field for name, field in cls.model_fields.items()}
        kept: dict[str, Any] = {}
        for key, value in data.items():
            field = fields.get(key)
            model = may_be_left_out(field.annotation) if field else None
            truth = value if isinstance(value, bool) else TRUTHS.get(value.lower()) if isinstance(value, str) else None
            if model is None or truth is None:
                if value is not None or field is None:
                    kept[key] = value
            elif not truth and field and field.default is not None:
                kept[key] = None
            elif truth:
                needs = any(one.is_required() for one in model.model_fields.values())
                kept[key] = True if needs else {}
        return kept


def may_be_left_out(annotation: Any) -> type[BaseModel] | None:
    """The model of a key that takes a mapping or none; `None` for other keys."""
    parts = get_args(annotation)
    if type(None) not in parts or Literal[False] in parts:
        return None
    plain = [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]
    return next((one for one in plain if isinstance(one, type) and issubclass(one, BaseModel)), None)


def host_names(value: Any) -> tuple[str, ...]:
    """Expand a hostlist, `cn[01-16]`, or a list of them, in order; a validator, ValueError for something else."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError("it must be a hostlist such as cn[01-16], or a list of hostlists")
    try:
        return hostlist.expand(",".join(parts)) if parts else ()
    except HostlistError as error:
        raise ValueError(str(error)) from None


HostNames = Annotated[tuple[str, ...], BeforeValidator(host_names, json_schema_input_type=str | list[str])]
"""The names of a hostlist, or of a list of hostlists."""


def short_for(key: str) -> Callable[[Any], Any]:
    """Make a validator that reads a text as a mapping with this key alone, such as `mpi: pmix` as `{type: pmix}`."""
    return lambda value: {key: value} if isinstance(value, str) else value


def one_or_more(value: Any) -> Any:
    """Read a text as a list of one."""
    return (value,) if isinstance(value, str) else value


def number_as_text(value: Any) -> Any:
    """A number without quotes, as YAML reads `0644` and `8`, as the text that was meant."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def check_directory(example: str) -> Callable[[str], str]:
    """Make a validator for absolute paths of letters, digits and `_.+-`, which need no quotes in any file."""

    @written_as(_DIRECTORY)
    def checked(path: str) -> str:
        if not _DIRECTORY.fullmatch(path):
            raise ValueError(f'"{path}" is not an absolute path of letters, digits and _ . + -, such as {example}')
        return path

    return checked


def check_amount(example: str) -> Callable[[str], str]:
    """Make a validator for percentages and amounts in K, M, G or T, with an example in its message."""

    @written_as(_AMOUNT)
    def checked(text: str) -> str:
        if not _AMOUNT.fullmatch(text):
            found = re.fullmatch(r"(\d+) *([KMGT]?)(i?B)?", text, re.IGNORECASE)
            advice = f"; write {found[1]}{found[2].upper() or 'M'}" if found else ""
            raise ValueError(f'"{text}" is neither a percentage such as 3% nor an amount such as {example}{advice}')
        return text

    return checked


def is_address(text: str) -> bool:
    """Whether a text is an IP address or a DNS name.

    >>> is_address("10.0.0.1"), is_address("db.example.org"), is_address("10.0.0.300")
    (True, True, False)
    """
    if family(text):
        return True
    # 10.0.0.300 and 10.0.1 have the characters of DNS names, but are not DNS names.
    return bool(_DNS_NAME.fullmatch(text)) and not text.replace(".", "").isdecimal()


@written_as(re.compile("|".join([*_EVERY, _CLOCK.pattern])))
def check_schedule(when: str) -> str:
    """Return a schedule: `hourly`, `daily`, `weekly`, or a time with a day of the week or none; else ValueError."""
    if when not in _EVERY and not _CLOCK.fullmatch(when):
        found = re.fullmatch(r"(\d{1,2})(?::(\d\d))? *(am|pm)?", when, re.IGNORECASE)
        hour = (int(found[1]) % 12 + 12 * (found[3].lower() == "pm") if found[3] else int(found[1])) if found else 24
        advice = f'; write "{hour:02}:{found[2] or "00"}"' if found and hour < 24 else ""  # noqa: PLR2004
        known = f'neither one of {", ".join(_EVERY)} nor a time such as "03:30" or "Sun 03:30"'
        raise ValueError(f'"{when}" is {known}{advice}')
    return when


Schedule = Annotated[str, AfterValidator(check_schedule)]
"""How often something is done: `hourly`, `daily`, `weekly`, `03:30` (every day) or `Sun 03:30` (every week)."""


def systemd_calendar(when: str) -> str:
    """A schedule as a calendar event of systemd (systemd.time(7)).

    >>> systemd_calendar("Sun 03:30")
    'Sun *-*-* 03:30:00'
    """
    clock = _CLOCK.fullmatch(when)
    return f"{clock['day'] + ' ' if clock['day'] else ''}*-*-* {clock['time']}:00" if clock else when


def period(when: str) -> int:
    """Seconds from one time of a schedule to the next.

    >>> period("03:30")
    86400
    """
    clock = _CLOCK.fullmatch(when)
    return (_EVERY["weekly"] if clock["day"] else _DAY) if clock else _EVERY[when]


@written_as(_LICENSE)
def _check_license_name(name: str) -> str:
    """Check a licence's name; `@` is for licences that slurmdbd shares between clusters (slurm.conf(5), Licenses)."""
    if not _LICENSE.fullmatch(name):
        raise ValueError(f'"{name}" is not a valid licence name: use letters, digits, _, - and .')
    return name


Licenses = dict[Annotated[str, AfterValidator(_check_license_name)], Annotated[int, Field(ge=1, le=_MOST_LICENSES)]]
"""By the name of some software, how many jobs may use it at a time; Slurm counts them for the whole cluster."""


def check_once(names: _Names) -> _Names:
    """Validator that refuses a name that is listed twice."""
    if len(names) > len({*names}):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise ValueError(f'"{twice}" is listed twice')
    return names


def _bundles(value: Any) -> tuple[str, ...]:
    """The files of one name, or of a list of names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"it must be the name of a file made by {FAB} bundle, or a list of such names")
    return check_once(tuple(names))


Bundles = Annotated[tuple[str, ...], BeforeValidator(_bundles, json_schema_input_type=str | list[str])]
"""Files made by `fab bundle`, one for each release and architecture. Whether they exist is checked only when a host
lacks packages: a copy of the cluster file without these large files can be used for everything else."""
