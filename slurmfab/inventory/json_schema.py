"""The JSON schema of a cluster file, made from the models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slurmfab.inventory.cluster import Cluster
from slurmfab.inventory.slurm_settings import NODE_KEYS_OF_SLURMFAB
from slurmfab.slurm import keys
from slurmfab.slurm.gres import KEYS_OF_GRES_CONF

_SETTING = {"type": ["string", "number", "boolean"]}
_SLURMS_KEYS = "^[A-Z][A-Za-z0-9_]*$"


def schema() -> dict[str, Any]:
    """The schema, for `# yaml-language-server: $schema=…` in the first line of a cluster file."""
    made = Cluster.model_json_schema(by_alias=True, mode="validation")
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "slurmfab cluster file"
    node_keys = [key.name for key in keys.NODE.values() if key.name not in NODE_KEYS_OF_SLURMFAB]
    _flatten(made["$defs"]["NodeGroup"], [*node_keys, *KEYS_OF_GRES_CONF])
    _flatten(made["$defs"]["Partition"], [key.name for key in keys.PARTITION.values()])
    for model in ("Qos", "Account", "User"):
        _flatten(made["$defs"][model], ())
    return made


def _flatten(model: dict[str, Any], keys: Iterable[str]) -> None:
    """Move Slurm's keys from `settings`, where the model has them, to the other keys, as in the file."""
    del model["properties"]["settings"]
    model["properties"].update({key: _SETTING for key in keys if key not in model["properties"]})
    model["patternProperties"] = {_SLURMS_KEYS: _SETTING}
