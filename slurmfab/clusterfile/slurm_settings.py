"""Slurm's own keys in a cluster file: their values as Slurm's text, and those that slurmfab writes itself.

Case says whose a key is: `CamelCase` is Slurm's and goes through as it is, so that no release of Slurm outdates this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

Place = tuple[str | int, ...]

NODE_KEYS_OF_SLURMFAB: Mapping[str, str] = {
    "NodeName": "the key hosts names the nodes",
    "NodeAddr": "the key addresses at the top holds all addresses",
    "NodeHostname": "a node is called what its host calls itself",
    "State": "it is always UNKNOWN; use scontrol to drain or resume a node",
}

_CONTROLLERS = "the keys controllers and addresses at the top say this"
SLURM_CONF_KEYS_OF_SLURMFAB: Mapping[str, str] = {
    "ClusterName": "the key cluster at the top names the cluster",
    "SlurmctldHost": _CONTROLLERS,
    "ControlMachine": _CONTROLLERS,
    "ControlAddr": _CONTROLLERS,
    "BackupController": _CONTROLLERS,
    "BackupAddr": _CONTROLLERS,
    "StateSaveLocation": "the key state_directory at the top says where",
    "NodeName": "the key nodes at the top lists the nodes",
    "NodeSet": "name the nodes themselves in partitions",
    "PartitionName": "the key partitions at the top lists the partitions",
    "DownNodes": "use scontrol to set a node down",
    "Include": "slurm.conf is one file, the same on every host; write its keys here",
    "SlurmUser": "it is always slurm; the key ids at the top sets its UID",
    "SlurmdUser": "it is always root",
    "AuthType": "it is always auth/munge",
    "CryptoType": "it is always cred/munge",
    "CredType": "it is always cred/munge",
}


def slurm_text(value: Any) -> str:
    """A value in Slurm's words; whoever writes a file of Slurm's puts it in quotes where need be.

    >>> slurm_text(True), slurm_text(300), slurm_text("7-00:00:00")
    ('YES', '300', '7-00:00:00')

    Raises:
        ValueError: it is more than one value, or none that Slurm's files can carry.
    """
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        raise ValueError("it has no value")
    if not isinstance(value, str):
        raise ValueError("it must be one value, as in slurm.conf, and no list or mapping")
    return _one_value(value.strip())


def _one_value(text: str) -> str:
    """The text without quotes of Slurm's around it, once it is known to be one value for Slurm."""
    inner = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if not inner:
        raise ValueError("it has no value")
    if not inner.isprintable():
        raise ValueError("it has a line break or another control character in it")
    if '"' in inner:
        raise ValueError("Slurm knows no double quote inside a value")
    return inner


def mistakes(title: str, found: Iterator[tuple[Place, str]]) -> None:
    """Raise all mistakes at once, each at its place below the value that is being validated.

    Raises:
        pydantic.ValidationError: there are any.
    """
    errors = [
        InitErrorDetails(type=PydanticCustomError("mistake", "{reason}", {"reason": reason}), loc=place, input=None)
        for place, reason in found
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def _key_mistakes(settings: Mapping[str, Any], owned: Mapping[str, str]) -> Iterator[tuple[Place, str]]:
    """Keys that Slurm does not spell so, that are there twice, or that slurmfab writes itself."""
    reasons = {key.casefold(): f"slurmfab writes {key} itself: {reason}" for key, reason in owned.items()}
    seen: dict[str, str] = {}
    for key in settings:
        folded = key.casefold()
        if not (key[:1].isupper() and key.isascii() and key.replace("_", "").isalnum()):
            yield (key,), "a key of Slurm's is spelled as in slurm.conf(5), with a capital letter first"
        elif folded in reasons:
            yield (key,), reasons[folded]
        elif folded in seen:
            yield (key,), f"it says the same as {seen[folded]}; Slurm takes no notice of case"
        seen.setdefault(folded, key)


def _check_nothing_owned(settings: dict[str, Any]) -> dict[str, Any]:
    mistakes("settings", _key_mistakes(settings, {}))
    return settings


def _check_node_keys(settings: dict[str, Any]) -> dict[str, Any]:
    mistakes("settings", _key_mistakes(settings, NODE_KEYS_OF_SLURMFAB))
    return settings


def _check_slurm_conf_keys(settings: dict[str, Any]) -> dict[str, Any]:
    mistakes("slurm_conf", _key_mistakes(settings, SLURM_CONF_KEYS_OF_SLURMFAB))
    return settings


def _text_or_none(value: Any) -> str | None:
    return None if value is None else slurm_text(value)


Setting = Annotated[
    str,
    BeforeValidator(slurm_text, json_schema_input_type=str | bool | int | float),
    Field(description="One value, as in slurm.conf."),
]
SettingOrNone = Annotated[
    str | None, BeforeValidator(_text_or_none, json_schema_input_type=str | bool | int | float | None)
]

PartitionSettings = Annotated[dict[str, Setting], AfterValidator(_check_nothing_owned)]
NodeSettings = Annotated[dict[str, Setting], AfterValidator(_check_node_keys)]
SlurmConf = Annotated[dict[str, SettingOrNone], AfterValidator(_check_slurm_conf_keys)]
CgroupConf = Annotated[dict[str, SettingOrNone], AfterValidator(_check_nothing_owned)]
