"""The models of modules (key `modules`), the command `module` and its directories; and of MPI (key `mpi`)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slurmfab.cluster.inventory.values import Model, check_directory, check_once, short_for

System = Literal["lmod", "environment-modules"]
Directory = Annotated[str, AfterValidator(check_directory("/sw/modules"))]


def _directories(value: Any) -> Any:
    """A list of directories; text is split at colons, as in MODULEPATH."""
    return tuple(value.split(":")) if isinstance(value, str) else value


def modules_of(value: Any) -> Any:
    """Read `modules: lmod` as `modules: {system: lmod}`."""
    return {"system": value} if isinstance(value, str) else value


class Modules(Model):
    """The command `module` on all hosts on which people or jobs work."""

    system: Annotated[System, Field(description="The package: lmod or environment-modules.")]
    # searched first and in this order
    path: Annotated[
        tuple[Directory, ...],
        BeforeValidator(_directories, json_schema_input_type=str | list[str]),
        AfterValidator(check_once),
        Field(description="Directories of modules, for MODULEPATH."),
    ] = ()


ModulesOrNot = Annotated[
    Modules | None,
    BeforeValidator(modules_of, json_schema_input_type=System | Modules),
    Field(description="The command module: lmod or environment-modules, or a mapping."),
]


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
