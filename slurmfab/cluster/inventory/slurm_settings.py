"""Slurm's own keys in a cluster file, passed through, conversion of values, and keys that slurmfab writes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from slurmfab.cluster.inventory.reading import MOST_COMPLAINTS
from slurmfab.cluster.slurm import keys, kinds
from slurmfab.cluster.slurm.keys import Key
from slurmfab.cluster.slurm.meaning import too_many_cpus

Place = tuple[str | int, ...]

MOST_ADVICE = 120  # characters of a value that a message proposes

Complaints = Iterator[tuple[Place, str]]
"""What a rule yields of a cluster that breaks it: the place, with keys as in the file, and what is wrong there."""

NODE_KEYS_OF_SLURMFAB: Mapping[str, str] = {
    "NodeName": "it comes from the key hosts",
    "NodeAddr": "it comes from the key addresses at the top",
    "NodeHostname": "it is always the hostname of the host",
    "State": "it is always UNKNOWN; use scontrol to drain or resume a node",
}

_CONTROLLERS = "it comes from the keys controllers and addresses at the top"
SLURM_CONF_KEYS_OF_SLURMFAB: Mapping[str, str] = {
    "ClusterName": "it comes from the key cluster at the top",
    "SlurmctldHost": _CONTROLLERS,
    "ControlMachine": _CONTROLLERS,
    "ControlAddr": _CONTROLLERS,
    "BackupController": _CONTROLLERS,
    "BackupAddr": _CONTROLLERS,
    "StateSaveLocation": "it comes from the key state_directory at the top",
    "NodeName": "it comes from the key nodes at the top",
    "NodeSet": "list the nodes themselves in partitions",
    "PartitionName": "it comes from the key partitions at the top",
    "DownNodes": "use scontrol to set a node down",
    "Include": "slurm.conf is one file, the same on every host; write its keys here",
    "SlurmUser": "it comes from the key slurm_user at the top, and the UID of slurm from ids",
    "SlurmdUser": "it is always root",
    "AuthType": "it is always auth/munge",
    "CryptoType": "it is always cred/munge",
    "CredType": "it is always cred/munge",
}

_STORAGE = "it comes from the key database at the top"
SLURMDBD_CONF_KEYS_OF_SLURMFAB: Mapping[str, str] = {
    **dict.fromkeys(("DbdHost", "StorageHost", "StorageLoc", "StoragePort", "StorageUser"), _STORAGE),
    "DbdBackupHost": "slurmfab knows one slurmdbd",
    "StorageBackupHost": "slurmfab knows one database server",
    "StorageType": "it is always accounting_storage/mysql",
    "StoragePass": "a password does not belong in the cluster file; see database.password_file",
    "StoragePassScript": "the password is in slurmdbd.conf; see database.password_file",
    "SlurmUser": SLURM_CONF_KEYS_OF_SLURMFAB["SlurmUser"],
    "AuthType": SLURM_CONF_KEYS_OF_SLURMFAB["AuthType"],
    "Include": "slurmdbd.conf is one file; write its keys here",
}


def setting(settings: Mapping[str, str | None], key: str) -> str:
    """The value of a key, whose case does not matter in Slurm; empty if it is not set."""
    return next((value or "" for name, value in settings.items() if name.lower() == key.lower()), "")


def slurm_text(value: Any) -> str:
    """Convert a value to text for Slurm's files, without quotes; the writer of the file adds them if needed.

    >>> slurm_text(True), slurm_text(300), slurm_text("7-00:00:00")
    ('YES', '300', '7-00:00:00')

    Raises:
        ValueError: it is not a single value, or Slurm's files cannot contain it.
    """
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, int | float):
        return str(value)
    if value is None:
        raise ValueError("it has no value")
    if isinstance(value, str):
        return _one_value(value.strip())
    parts = [f"{key}={one}" for key, one in value.items()] if isinstance(value, dict) else value
    advice = ",".join(kinds.tres_part(str(part)) if isinstance(value, dict) else str(part) for part in parts)
    raise ValueError(f'it must be one value, as in slurm.conf, not a list or mapping; write "{advice[:MOST_ADVICE]}"')


def _one_value(text: str) -> str:
    """Remove quotes around a text, and check that it is one value for Slurm."""
    inner = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if not inner:
        raise ValueError("it has no value")
    if not inner.isprintable():
        raise ValueError("it contains a line break or another control character")
    if '"' in inner:
        raise ValueError("Slurm does not allow a double quote inside a value")
    return inner


LIKE = 0.85  # from this likeness on, a key that no Slurm has is another one, misspelt


def mistakes(title: str, found: Iterator[tuple[Place, str]]) -> None:
    """Raise all mistakes (place below the value, and reason) of `title`, or the first of many, as pydantic does."""
    errors = [
        InitErrorDetails(type=PydanticCustomError("mistake", "{reason}", {"reason": reason}), loc=place, input=None)
        for place, reason in islice(found, MOST_COMPLAINTS)
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def _key_mistakes(
    settings: Mapping[str, Any], owned: Mapping[str, str], known: Mapping[str, Key]
) -> Iterator[tuple[Place, str]]:
    """Yield misspelled keys, repeated keys, keys that slurmfab writes itself, and values that Slurm does not take."""
    values = kinds.complaints(known, settings)
    reasons = {key.casefold(): f"slurmfab writes {key} itself: {reason}" for key, reason in owned.items()}
    seen: dict[str, str] = {}
    for key in settings:
        folded = key.casefold()
        if not (key[:1].isupper() and key.isascii() and key.replace("_", "").isalnum()):
            spelled = f": {known[folded].name}" if folded in known else ", beginning with a capital letter"
            yield (key,), f"a Slurm key is spelled as in slurm.conf(5){spelled}"
        elif folded in reasons:
            yield (key,), reasons[folded]
        elif folded in seen:
            yield (key,), f"it is the same key as {seen[folded]}; Slurm ignores case"
        elif key in values:
            yield (key,), values[key]
        # What is like no other key may be one of a newer Slurm, which the installed one decides.
        elif folded not in known:
            import difflib  # files without mistakes need it nowhere

            for near in difflib.get_close_matches(folded, known, n=1, cutoff=LIKE):
                yield (key,), f"no Slurm has this key; write {known[near].name}"
        seen.setdefault(folded, key)


def _checked(
    title: str, known: Mapping[str, Key], owned: Mapping[str, str] = MappingProxyType({})
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Make a validator of the keys of one of Slurm's files, or of a kind of line, and of their values."""

    def checked(settings: dict[str, Any]) -> dict[str, Any]:
        mistakes(title, _key_mistakes(settings, owned, known))
        if known is keys.NODE and (reason := too_many_cpus(settings)):
            raise ValueError(reason)
        return settings

    return checked


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

PartitionSettings = Annotated[dict[str, Setting], AfterValidator(_checked("settings", keys.PARTITION))]
NodeSettings = Annotated[dict[str, Setting], AfterValidator(_checked("settings", keys.NODE, NODE_KEYS_OF_SLURMFAB))]
SlurmConf = Annotated[
    dict[str, SettingOrNone], AfterValidator(_checked("slurm_conf", keys.SLURM_CONF, SLURM_CONF_KEYS_OF_SLURMFAB))
]
CgroupConf = Annotated[dict[str, SettingOrNone], AfterValidator(_checked("cgroup_conf", keys.CGROUP_CONF))]
SlurmdbdConf = Annotated[
    dict[str, SettingOrNone],
    AfterValidator(_checked("slurmdbd_conf", keys.SLURMDBD_CONF, SLURMDBD_CONF_KEYS_OF_SLURMFAB)),
]


def slurmd_parameters(slurm_conf: Mapping[str, str | None]) -> tuple[str, ...]:
    """The words of SlurmdParameters, in lower case; some change how slurmd counts a node's processors."""
    told = [value or "" for key, value in slurm_conf.items() if key.lower() == "slurmdparameters"]
    return tuple(" ".join(told).lower().replace(",", " ").split())
