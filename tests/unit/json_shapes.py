"""Whether a JSON output is what its schema says, without any key more."""

from __future__ import annotations

import json
from functools import cache

import pytest
from jsonschema import Draft202012Validator

from reference.json_outputs import ALL, schema_of
from slurmfab.base.json_output import as_json


@cache
def validator(name: str) -> Draft202012Validator:
    """What checks outputs of this name."""
    (output,) = (one for one in ALL if one.name == name)
    return Draft202012Validator(schema_of(output, is_closed=True))


def mistakes(name: str, values: object) -> list[str]:
    """What is wrong with an output, by its schema."""
    plain = json.loads(json.dumps(as_json(values)))
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(plain)]


def assert_fits(name: str, values: object) -> None:
    """Fail if an output is not what its schema says."""
    found = mistakes(name, values)
    assert not found, found


def assert_fits_one(values: object) -> None:
    """Fail if an output is not what the schema of its type says, or any schema where no output has its type."""
    of_type = tuple(one for one in ALL if type(values) is one.kind)
    found = {}
    for one in of_type or ALL:
        found[one.name] = mistakes(one.name, values)
        if not found[one.name]:
            return
    pytest.fail(str(min(found.items(), key=lambda one: len(one[1]))))
