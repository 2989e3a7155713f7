"""The model of MPI (key `mpi`): how srun starts the processes of an MPI program."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.values import Model, short_for

Kind = Literal["pmix", "pmi2", "none"]


class Mpi(Model):
    """How srun starts an MPI program that does not say so itself, and the packages for it."""

    kind: Annotated[Kind, Field(validation_alias="type", description="MpiDefault: pmix, pmi2 or none.")] = "pmix"
    # `None` for none, as where modules have one
    packages: Annotated[Literal["openmpi"] | None, Field(description="MPI from the distribution: openmpi.")] = None

    @model_validator(mode="after")
    def _fits_together(self) -> Mpi:
        if self.packages and self.kind == "pmi2":
            raise ValueError(
                "the distribution's Open MPI is started by pmix: with pmi2, each process of a program is alone; "
                "write type: pmix, or take packages out"
            )
        return self


MpiOrNot = Annotated[
    Mpi | None,
    BeforeValidator(short_for("type"), json_schema_input_type=Kind | Mpi),
    Field(description="How srun starts MPI programs: pmix, pmi2 or none, or a mapping."),
]
"""The key `mpi`."""
