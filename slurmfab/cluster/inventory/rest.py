"""The model of Slurm's REST API (key `rest`)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from slurmfab.cluster.inventory.power import Seconds
from slurmfab.cluster.inventory.values import Model, short_for

LIFETIME = 86400
"""How long a token counts at most, in seconds, where the cluster file says nothing."""

_MINUTE, _YEAR = 60, 366 * 86400


class Rest(Model):
    """slurmrestd on a host of the cluster, and the tokens by which it knows users."""

    host: Annotated[str, Field(min_length=1, description="Controller or login host with slurmrestd.")]
    token_lifetime: Annotated[
        Seconds,
        Field(ge=_MINUTE, le=_YEAR, description="How long users' tokens count at most: seconds, or as 12h."),
    ] = LIFETIME


RestOrNot = Annotated[
    Annotated[Rest, BeforeValidator(short_for("host"), json_schema_input_type=str | Rest)] | None,
    Field(description="Controller or login host with slurmrestd, Slurm's REST API, or a mapping."),
]
