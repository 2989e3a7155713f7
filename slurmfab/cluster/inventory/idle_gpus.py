"""The model of what is done about jobs whose GPUs do nothing (key `idle_gpus`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from slurmfab.cluster.inventory.power import time_value
from slurmfab.cluster.inventory.values import Model

_DAY = 86400
_LEAST = 600  # seconds: nodes repeat what they saw every 4 minutes, and the controller looks every 5

Seconds = Annotated[int, BeforeValidator(time_value, json_schema_input_type=int | str)]


class IdleGpus(Model):
    """Jobs that hold NVIDIA GPUs, and that the driver never saw use them."""

    # seconds
    after: Annotated[
        Seconds, Field(ge=_LEAST, le=30 * _DAY, description="Time without work on any of a job's GPUs: 2h.")
    ] = 7200
    mail: Annotated[Literal["user", "nobody"], Field(description="Who is told by mail.")] = "user"
    then: Annotated[
        Literal["nothing", "requeue", "cancel"], Field(description="What becomes of the job after `grace`.")
    ] = "nothing"
    # seconds
    grace: Annotated[Seconds, Field(ge=_LEAST, le=30 * _DAY, description="Time from the mail to `then`.")] = 1800
    spare: Annotated[tuple[str, ...], Field(description="Users, accounts and QOS whose jobs are left alone.")] = ()
    partitions: Annotated[tuple[str, ...], Field(description="The partitions that this is for; all by default.")] = ()
