"""The key that names bundles: one file, or one for each release and architecture."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator


def _bundles(value: Any) -> tuple[str, ...]:
    """The files of a name, or of a list of names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("it must be the name of a file that fab bundle has made, or a list of such")
    twice = next((name for number, name in enumerate(names) if name in names[:number]), "")
    if twice:
        raise ValueError(f'"{twice}" is there twice')
    return tuple(names)


Bundles = Annotated[tuple[str, ...], BeforeValidator(_bundles, json_schema_input_type=str | list[str])]
"""Files that `fab bundle` has made. Whether they are there is asked when a host lacks packages: a copy of the cluster
file without these large files is good for everything else."""
