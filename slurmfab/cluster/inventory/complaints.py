"""Validate a document with the models: return a cluster, or report all mistakes at once with line, key and advice."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from slurmfab.base.errors import ClusterFileError
from slurmfab.base.terminal import without_middle
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.reading import MOST_COMPLAINTS, Complaint, Document, Place, is_slurms
from slurmfab.cluster.inventory.rules.cluster import NotKnown, broken
from slurmfab.cluster.inventory.slurm_settings import NODE_KEYS_OF_SLURMFAB, mistakes
from slurmfab.cluster.slurm import keys
from slurmfab.cluster.slurm.kinds import memory_in_words

KEY_LENGTH = 60  # the most characters of a key in a message

# Enough to find mistakes that others hide; each pass removes the mistakes that it finds from the document.
_PASSES = 4
_MAPPING = "it must be a mapping, with a `key: value` on each line"
_REASONS: Mapping[str, str] = {
    "missing": "this key is missing",
    "string_type": "it must be text",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "tuple_type": "it must be a list, with a `- ` before each entry",
}
_ENTRIES: Mapping[Any, str] = {
    **dict.fromkeys(("nodes", "future_nodes"), "- hosts: {}"),
    **dict.fromkeys(("qos", "accounts", "users"), "- name: {}"),
    "partitions": "- {{PartitionName: {}, Nodes: ALL}}",
    "topology": "- SwitchName: {}",
    "mounts": "- path: {}",
    "exports": "- path: {}",
}
"""By section that is a list, how an entry begins that has a name."""

# Sections whose entries have names; rules compare the names of the other entries.
_NAMED = ("qos", "accounts", "users")
_WRITE: Mapping[tuple[str, str], str] = {
    ("", "controller"): "did you mean controllers?",
    ("", "hosts"): "compute nodes go under nodes, as in `- hosts: cn[01-16]`",
    ("", "name"): "did you mean cluster?",
    **{
        (section, key): f"write {words}"
        for section in ("nodes", "future_nodes")
        for key, words in {
            "gpus": "Gres: gpu:{}", "gpu": "Gres: gpu:{}", "memory": "RealMemory: {}", "mem": "RealMemory: {}",
            "ram": "RealMemory: {}", "cores": "CPUs: {}", "cpu": "CPUs: {}", "NodeName": "hosts: {}",
            "name": "hosts: {}",
        }.items()
    },
    ("partitions", "hosts"): "write Nodes: {}",
    ("users", "id"): "write uid: {}",
    ("users", "user"): "write name: {}",
    ("users", "ssh_key"): "write keys, with a list of public keys",
    ("users", "password"): "users log in by their public keys; write keys, with a list of them",
}  # fmt: skip
"""By section and key, what people mean who write it; `{}` is the value."""


def cluster_from(document: Document, where: str) -> Cluster:
    """The cluster that a document describes; ClusterFileError with its mistakes, or the first of very many."""
    complaints = list(document.complaints)
    shape = copy.deepcopy(document.shape)
    told = {complaint.place for complaint in complaints}
    removed: set[Place] = set()
    for _ in range(_PASSES):
        try:
            cluster = Cluster.model_validate(shape, by_alias=True, by_name=False)
            known = cast(Cluster, _Known(cluster)) if any(map(_is_about_hosts, removed)) else cluster
            mistakes("Cluster", broken(known))
        except ValidationError as error:
            found = error.errors(include_url=False)[:MOST_COMPLAINTS]
            own = [detail for detail in found if not _is_ours(detail, removed)]
            complaints += [
                _complaint(detail, document)
                for detail in own
                if not any(detail["loc"][: len(place)] == place for place in told) and not _is_renamed(detail, found)
            ]
            removed |= {detail["loc"] for detail in found}
            if not own:
                break
            _take_out(shape, [detail["loc"] for detail in found])
        else:
            if not complaints:
                return cluster
            break
    raise ClusterFileError(tuple(_lines(complaints, where)))


_OF_HOSTS = ("controllers", "login", "nodes", "database")


def _is_about_hosts(place: Place) -> bool:
    is_group = place[0] == "nodes" and place[2:3] in ((), ("hosts",))
    return is_group or place[0] in ("controllers", "login") or place in (("database",), ("database", "host"))


class _Known:
    """A cluster some of whose hosts are not known for a mistake: a rule that asks for them tells nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        if name in _OF_HOSTS or name not in Cluster.model_fields:
            raise NotKnown(name)
        return getattr(self._cluster, name)


def _is_renamed(detail: ErrorDetails, found: Iterable[ErrorDetails]) -> bool:
    """Whether a key is missing because it has another name in the file, which is told there."""
    place = detail["loc"]
    if detail["type"] != "missing":
        return False
    unknown = [
        other["loc"] for other in found if other["type"] == "extra_forbidden" and other["loc"][:-1] == place[:-1]
    ]
    return any(str(place[-1]) in _unknown_key(one, None) for one in unknown)


def _is_ours(detail: ErrorDetails, removed: Collection[Place]) -> bool:
    """Whether a key is missing, or a mapping lacks one, only since an earlier pass took the mistake out."""
    place = detail["loc"]
    if detail["type"] == "missing":
        return place in removed
    return detail["type"] == "value_error" and any(one[:-1] == place for one in removed)


def place_in_words(place: Place) -> str:
    """A place in the document as the user writes it.

    >>> place_in_words(("nodes", 0, "settings", "Gres"))
    'nodes[0].Gres'
    """
    text = ""
    for number, whole in enumerate(place):
        part = without_middle(whole, KEY_LENGTH) if isinstance(whole, str) else whole
        is_ours = part == "settings" and 2 == number < len(place) - 1  # noqa: PLR2004
        if isinstance(part, int):
            text += f"[{part}]"
        elif not is_ours:
            text += f".{part}" if text else part
    return text


def _lines(complaints: Iterable[Complaint], where: str) -> Iterator[str]:
    """Yield a line for each complaint, up to `MOST_COMPLAINTS`, and one more if there may be more of them."""
    ordered = sorted(dict.fromkeys(complaints), key=lambda complaint: complaint.line)
    yield from (_in_words(complaint, where) for complaint in ordered[:MOST_COMPLAINTS])
    if len(ordered) >= MOST_COMPLAINTS:
        yield f"{where}: there may be more mistakes; these are {MOST_COMPLAINTS} of them."


def _in_words(complaint: Complaint, where: str) -> str:
    place = place_in_words(complaint.place)
    return f"{where}:{complaint.line}: {f'{place}: ' if place else ''}{complaint.reason}"


def _complaint(detail: ErrorDetails, document: Document) -> Complaint:
    """A mistake that pydantic found, with its line and a reason in plain words."""
    place = tuple(part for part in detail["loc"] if part != "[key]")
    return Complaint(document.line(place), place, _reason(detail, place))


def _reason(detail: ErrorDetails, place: Place) -> str:
    """The reason of a mistake, and what to try."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return _unknown_key(place, detail["input"])
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"it must be {context['expected']}"
    if kind in ("less_than_equal", "greater_than_equal"):
        return f"it must be at most {context['le']}" if "le" in context else f"it must be at least {context['ge']}"
    reason = _REASONS.get(kind)
    given = detail["input"]
    if advice := _advice(kind, place, given) if kind in ("tuple_type", "dict_type", "model_type") else "":
        return f"{reason}; {advice}"
    if reason and kind != "missing" and given is not None and not isinstance(given, list | dict):
        shown = str(given).lower() if isinstance(given, bool) else given
        return f'{reason}, not "{shown}"'
    return reason or detail["msg"]


def _advice(kind: str, place: Place, given: Any) -> str:
    """What to write instead of a text, a list or a mapping where another one of them belongs; empty for others."""
    entry = _ENTRIES.get(place[0], "")
    if kind == "tuple_type" and entry and len(place) == 1:
        name = next(iter(given), "") if isinstance(given, dict) else given
        if isinstance(given, dict) and f"{name}:" in entry:
            return f"write the first key as `- {name}: …`, and the others below it"
        return f"write `{entry.format(name)}`" if isinstance(name, str) else ""
    if kind == "model_type" and entry and len(place) == 2 and isinstance(given, str):  # noqa: PLR2004
        return f"write `{entry.format(given)}`"
    first = next(iter(given), "") if isinstance(given, list) else given
    if not isinstance(first, str):
        keys_here = _known_keys((*place, ""))[0] if kind == "model_type" and given is True else []
        return f"true is not enough; its keys are {', '.join(keys_here)}" if keys_here else ""
    if place == ("addresses",):
        return f"write `n1: {first}`, with the name of each host"
    if place == ("ssh",):
        return f"write `ssh: {{user: {first}}}`"
    pair = re.match(r"([A-Za-z_][\w.-]*)[:=] *(\S+)", first)
    return f"write `{pair[1]}: {pair[2]}`" if pair and kind == "dict_type" else ""


def _unknown_key(place: Place, given: Any) -> str:
    """The complaint about an unknown key, with the key that is meant by it or the most similar one."""
    key, section = str(place[-1]), str(place[0]) if len(place) > 1 else ""
    if words := _WRITE.get((section, key), ""):
        value = given if isinstance(given, str) else "…"
        memory = memory_in_words(value) if "RealMemory" in words else ""
        return f"unknown key; {words.format(memory or value)}"
    ours, slurms = _known_keys(place)
    known = {name.casefold(): name for name in (*ours, *slurms)}
    if alias := _aliases(place).get(key):
        return f"unknown key; did you mean {alias}?"
    if len(place) == 1 and is_slurms(key) and key.casefold() not in known:
        return "unknown key; keys of slurm.conf go under slurm_conf"
    near = difflib.get_close_matches(key.casefold(), known, n=1)
    if near:
        return f"unknown key; did you mean {known[near[0]]}?"
    more = " and Slurm's own, in CamelCase" if slurms else ""
    return f"unknown key; known: {', '.join(name for name in known.values() if name not in slurms)}{more}"


def _known_keys(place: Place) -> tuple[list[str], tuple[str, ...]]:
    """The keys that are allowed at a place: slurmfab's, and Slurm's."""
    of_nodes = _names(keys.NODE)
    slurms: Mapping[Any, tuple[str, ...]] = {
        "nodes": of_nodes,
        "future_nodes": of_nodes,
        "partitions": _names(keys.PARTITION),
    }
    own = [str(field.validation_alias or name) for name, field in _model_at(place).model_fields.items()]
    return [name for name in own if name != "settings"], slurms.get(place[0], ()) if len(place) > 1 else ()


def _aliases(place: Place) -> dict[str, str]:
    """The names that fields have in the code alone, with those of the file."""
    fields = _model_at(place).model_fields.items()
    return {name: str(field.validation_alias) for name, field in fields if field.validation_alias}


def _model_at(place: Place) -> type[BaseModel]:
    """The model that has the key at a place."""
    model: type[BaseModel] = Cluster
    for part in place[:-1]:
        fields = {str(field.validation_alias or name): field for name, field in model.model_fields.items()}
        if part in fields:
            model = next(_models_in(fields[str(part)].annotation), model)
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in the type of a field, such as `tuple[User, ...]` or `Backups | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _names(keys: Mapping[str, keys.Key]) -> tuple[str, ...]:
    return tuple(key.name for key in keys.values() if key.name not in NODE_KEYS_OF_SLURMFAB)


def _take_out(shape: dict[str, Any], places: Iterable[Place]) -> None:
    """Replace mistakes in the shape, so that another pass finds those that they hide."""
    for place in sorted(places, key=len, reverse=True):  # what is inside a mistake goes before it
        section, number = place[0], int(place[1]) if place[1:2] and isinstance(place[1], int) else None
        entry: Any = shape.get(str(section))
        if number is not None and isinstance(entry, list):
            entry = entry[number] if isinstance(entry[number], dict) else {}
            shape[str(section)][number] = entry
        if place == ("cluster",):
            shape["cluster"] = "unnamed"
        elif section == "controllers":
            shape["controllers"] = "mistaken-controller"
        elif place == ("nodes",):
            shape["nodes"] = [{"hosts": "mistaken-node"}]
        elif section == "nodes" and number is not None and place[2:] in ((), ("hosts",)):
            entry["hosts"] = f"mistaken-node-{number}"
        elif section == "partitions" and number is not None and place[2:] in ((), ("PartitionName",), ("Nodes",)):
            mistaken = {"PartitionName": f"mistaken-{number}", "Nodes": "ALL"}
            entry.update({key: mistaken[key] for key in mistaken if place[2:] in ((), (key,))})
        elif section in _NAMED and number is not None and place[2:] in ((), ("name",)):
            entry["name"] = f"mistaken-{number}"
        elif section == "database":
            shape.pop("database", None)
        else:
            _drop(shape, place)


def _drop(shape: Any, place: Place) -> None:
    """Remove one value from nested mappings."""
    for part in place[:-1]:
        try:
            shape = shape[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(shape, dict):
        shape.pop(place[-1], None)
