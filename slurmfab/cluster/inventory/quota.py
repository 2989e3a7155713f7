"""The model of limits to what users may store on a file system (key `quota`)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.mounts import Path
from slurmfab.cluster.inventory.values import Model, written_as

_SIZE = re.compile(r"(\d{1,9})([KMGT])")
_KIB = {"K": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}


@written_as(_SIZE)
def _check_size(size: str) -> str:
    if not _SIZE.fullmatch(size) or not kib(size):
        raise ValueError(f'"{size}" is not an amount such as 50G')
    return size


def kib(size: str | None) -> int:
    """An amount in KiB; 0 for none, which is no limit (setquota(8)).

    >>> kib("50G"), kib(None)
    (52428800, 0)
    """
    found = _SIZE.fullmatch(size or "")
    return int(found[1]) * _KIB[found[2]] if found else 0


Size = Annotated[str, AfterValidator(_check_size)]


class UserQuota(Model):
    """What a user may store."""

    soft: Annotated[Size | None, Field(description="What users may exceed for a time of grace, such as 50G.")] = None
    hard: Annotated[Size | None, Field(description="What users cannot exceed, such as 60G.")] = None

    @model_validator(mode="after")
    def _limits_fit(self) -> UserQuota:
        if self.soft is None and self.hard is None:
            raise ValueError("a quota has soft, hard, or both")
        if self.soft and self.hard and kib(self.soft) > kib(self.hard):
            raise ValueError(f"soft ({self.soft}) is more than hard ({self.hard})")
        return self


class Quota(UserQuota):
    """What each user may store on a file system."""

    path: Annotated[Path, Field(description="A directory of the file system, as users see it, such as /home.")]


def _user_quota(value: Any) -> Any:
    """Refuse what is neither a mapping nor `false`, in words that name both."""
    if value is not False and not isinstance(value, dict | UserQuota):
        raise ValueError("it must be a mapping with soft and hard, or false")
    return value


UserQuotaOrNot = Annotated[
    UserQuota | Literal[False] | None,
    BeforeValidator(_user_quota, json_schema_input_type=UserQuota | Literal[False]),
    Field(description="What this user may store, instead of quota; false for any amount."),
]
"""The key `users[].quota`."""
