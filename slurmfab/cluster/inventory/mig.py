"""The model of how NVIDIA GPUs are divided (key `mig` of a group of nodes)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import one_or_more, written_as

OFF = "off"
SLICES = 7
"""Parts of a GPU's processors, of which each instance has as many as the number at its front (MIG User Guide)."""

_PROFILE = re.compile(r"[1-7]g\.[0-9]{1,3}gb(?:[+-][a-z]+(?:\.[a-z]+)?)?")

Layout = tuple[str, ...]
"""The profiles of a GPU's instances; empty for a whole GPU."""


@written_as(_PROFILE)
def _check_profile(profile: str) -> str:
    if not _PROFILE.fullmatch(profile):
        raise ValueError(f'"{profile}" is not a profile such as 1g.5gb; nvidia-smi mig -lgip lists those of a GPU')
    return profile


def _layout(value: Any) -> Any:
    """Read `off` as no instances."""
    if value == []:
        raise ValueError("it names no instance; write off for whole GPUs")
    return () if value == OFF else one_or_more(value)


def _check_layout(layout: Layout | None) -> Layout | None:
    """Refuse what fits on no GPU."""
    count = sum(int(profile[0]) for profile in layout or ())
    if count > SLICES:
        raise ValueError(f"these instances need {count} slices of a GPU, and it has {SLICES}")
    return layout


Mig = Annotated[
    tuple[Annotated[str, AfterValidator(_check_profile)], ...] | None,
    BeforeValidator(_layout, json_schema_input_type=Literal["off"] | str | list[str]),
    AfterValidator(_check_layout),
    Field(description="MIG instances of each NVIDIA GPU of these nodes, such as [3g.20gb, 2g.10gb, 2g.10gb], or off."),
]
