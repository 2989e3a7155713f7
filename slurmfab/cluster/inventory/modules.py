"""The model of environment modules (key `modules`): the command `module`, and where the modules are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from slurmfab.cluster.inventory.values import Model, check_directory

System = Literal["lmod", "environment-modules"]
Directory = Annotated[str, AfterValidator(check_directory("/sw/modules"))]


def _directories(value: Any) -> Any:
    """A list of directories; text is split at colons, as in MODULEPATH."""
    return tuple(value.split(":")) if isinstance(value, str) else value


def _check_directories(value: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({one for one in value if value.count(one) > 1})
    if twice:
        raise ValueError(f'"{twice[0]}" is listed twice')
    return value


def modules_of(value: Any) -> Any:
    """Read `modules: lmod` as `modules: {system: lmod}`, and `false` as a missing key."""
    if value is False:
        return None
    return {"system": value} if isinstance(value, str) else value


class Modules(Model):
    """The command `module` on all hosts on which people or jobs work."""

    system: Annotated[System, Field(description="The package: lmod or environment-modules.")]
    # searched first and in this order
    path: Annotated[
        tuple[Directory, ...],
        BeforeValidator(_directories, json_schema_input_type=str | list[str]),
        AfterValidator(_check_directories),
        Field(description="Directories of modules, for MODULEPATH."),
    ] = ()


ModulesOrNot = Annotated[
    Modules | None,
    BeforeValidator(modules_of, json_schema_input_type=System | Modules | bool),
    Field(description="The command module: lmod or environment-modules, or a mapping."),
]
"""The key `modules`."""
