"""Validate a document with the models: return a cluster, or report all mistakes at once with line, key and advice."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from slurmfab.base.errors import ClusterFileError
from slurmfab.base.terminal import without_middle
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.reading import MOST_COMPLAINTS, Complaint, Document, Place, is_slurms
from slurmfab.cluster.inventory.rules.cluster import broken
from slurmfab.cluster.inventory.slurm_settings import NODE_KEYS_OF_SLURMFAB, mistakes
from slurmfab.cluster.slurm import keys

KEY_LENGTH = 60  # the most characters of a key in a message

# Enough to find mistakes that others hide; each pass removes the mistakes that it finds from the document.
_PASSES = 4
_REASONS: Mapping[str, str] = {
    "missing": "this key is missing",
    "string_type": "it must be text",
    "int_type": "it must be a whole number",
    "int_parsing": "it must be a whole number",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "dict_type": "it must be a mapping, with a `key: value` on each line",
    "model_type": "it must be a mapping, with a `key: value` on each line",
    "tuple_type": "it must be a list, with a `- ` before each entry",
}
# Sections whose entries have names; rules compare the names of the other entries.
_NAMED = ("qos", "accounts", "users")
_ADVICE: Mapping[str, str] = {
    "controller": "did you mean controllers?",
    "hosts": "compute nodes go under nodes, as in `- hosts: cn[01-16]`",
}


def cluster_from(document: Document, where: str) -> Cluster:
    """The cluster that a document describes; ClusterFileError with its mistakes, or the first of very many."""
    complaints = list(document.complaints)
    shape = copy.deepcopy(document.shape)
    removed: set[Place] = set()
    for _ in range(_PASSES):
        try:
            cluster = Cluster.model_validate(shape)
            mistakes("Cluster", broken(cluster))
        except ValidationError as error:
            found = error.errors(include_url=False)[:MOST_COMPLAINTS]
            own = [detail for detail in found if not _is_ours(detail, removed)]
            complaints += [_complaint(detail, document) for detail in own]
            removed |= {detail["loc"] for detail in found}
            if not own or not _take_out(shape, [detail["loc"] for detail in found]):
                break
        else:
            if not complaints:
                return cluster
            break
    raise ClusterFileError(tuple(_lines(complaints, where)))


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
        return _unknown_key(place)
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return f"it must be {context['expected']}"
    if kind in ("less_than_equal", "greater_than_equal"):
        return f"it must be at most {context['le']}" if "le" in context else f"it must be at least {context['ge']}"
    reason = _REASONS.get(kind)
    if reason and kind != "missing" and detail["input"] is not None and not isinstance(detail["input"], list | dict):
        shown = str(detail["input"]).lower() if isinstance(detail["input"], bool) else detail["input"]
        return f'{reason}, not "{shown}"'
    return reason or detail["msg"]


def _unknown_key(place: Place) -> str:
    """The complaint about an unknown key, with the most similar known key."""
    key = str(place[-1])
    if len(place) == 1 and key in _ADVICE:
        return f"unknown key; {_ADVICE[key]}"
    if len(place) == 1 and is_slurms(key):
        return "unknown key; keys of slurm.conf go under slurm_conf"
    ours, slurms = _known_keys(place)
    known = {name.casefold(): name for name in (*ours, *slurms)}
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
    model: type[BaseModel] = Cluster
    for part in place[:-1]:
        fields = {str(field.validation_alias or name): field for name, field in model.model_fields.items()}
        if part in fields:
            model = next(_models_in(fields[str(part)].annotation), model)
    own = [str(field.validation_alias or name) for name, field in model.model_fields.items()]
    return [name for name in own if name != "settings"], slurms.get(place[0], ()) if len(place) > 1 else ()


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in the type of a field, such as `tuple[User, ...]` or `Backups | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _names(keys: Mapping[str, keys.Key]) -> tuple[str, ...]:
    return tuple(key.name for key in keys.values() if key.name not in NODE_KEYS_OF_SLURMFAB)


def _take_out(shape: dict[str, Any], places: Iterable[Place]) -> bool:
    """Remove mistakes from the shape; whether another pass would find others that are not about missing hosts."""
    for place in places:
        about_hosts = place[0] in ("controllers", "login") or place in (("database",), ("database", "host"))
        about_hosts |= place[0] == "nodes" and place[2:3] in ((), ("hosts",))
        if about_hosts:
            return False
        if place == ("cluster",):
            shape["cluster"] = "unnamed"
        elif place[0] == "partitions" and len(place) > 1 and place[2:3] in ((), ("PartitionName",), ("Nodes",)):
            number = int(place[1])
            shape["partitions"][number] = {"PartitionName": f"mistaken-{number}", "Nodes": "ALL"}
        elif place[0] in _NAMED and len(place) > 1 and place[2:] in ((), ("name",)):
            shape[str(place[0])][int(place[1])] = {"name": f"mistaken-{place[1]}"}
        else:
            _drop(shape, place)
    return True


def _drop(shape: Any, place: Place) -> None:
    """Remove one value from nested mappings."""
    for part in place[:-1]:
        try:
            shape = shape[part]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(shape, dict):
        shape.pop(place[-1], None)
