"""Change the version and the source of Slurm's packages (key `slurm`) in a cluster file, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.yaml_text import Edits, Pairs
from slurmfab.cluster.inventory.yaml_nodes import compose

if TYPE_CHECKING:
    from yaml.nodes import MappingNode

    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
    from slurmfab.cluster.inventory.slurm_settings import Place

_WHERE = "the cluster file"
_KEY = "slurm"


def with_slurm(text: str, wanted: SlurmPackages) -> str:
    """The text of a cluster file with this version, and with this suite as the source if it has another one.

    `wanted`: the key as it shall be; a source that is no suite of the hosts' mirrors is the file's own. Raises
    InputError if the file is written in a way that cannot be changed safely.
    """
    old = loading.parse(text, _WHERE)
    if old.slurm == wanted:
        return text
    values = wanted.model_dump(by_alias=True, exclude_defaults=True)
    pairs: dict[str, Any] = {"version": wanted.version or ""}
    if wanted.given and wanted.given.suite and wanted.given != old.slurm.given:
        pairs["source"] = {"suite": wanted.given.suite}
    try:
        new = _changed(text, pairs)
        compose(new, _WHERE)
        found = loading.parse(new, _WHERE)
    except (ClusterFileError, StopIteration) as error:
        raise _unsafe(values) from error
    if found.slurm != wanted or found.model_dump(exclude={_KEY}) != old.model_dump(exclude={_KEY}):
        raise _unsafe(values)
    return new


def with_versions(text: str, wanted: Cluster) -> str:
    """The text with the versions of the keys `slurm` of groups of nodes and of login hosts that a cluster has.

    Raises InputError if the file is written in a way that cannot be changed safely.
    """
    old = loading.parse(text, _WHERE)
    root = compose(text, _WHERE)
    edits = Edits(text)
    for place, before, after in _others(old, wanted):
        if before != after and after is not None:
            value: Any = root
            for key in (*place, "version"):
                value = value.value[key] if isinstance(key, int) else _value_of(value, key)
            edits.replace_scalar(value, after.version or "", in_flow=True)
    new = edits.applied()
    if loading.parse(new, _WHERE).slurms != wanted.slurms:
        raise _unsafe({str(place[-1]): after for place, _, after in _others(old, wanted)})
    return new


def _others(old: Cluster, wanted: Cluster) -> Iterator[tuple[Place, SlurmPackages | None, SlurmPackages | None]]:
    """Yield the place of each key beside the cluster's, with its value in both."""
    yield ("login_slurm",), old.login_slurm, wanted.login_slurm
    for number, (before, after) in enumerate(zip(old.nodes, wanted.nodes, strict=True)):
        yield ("nodes", number, "slurm"), before.slurm, after.slurm


def _value_of(mapping: Any, name: str) -> Any:
    """The value of a key that exists."""
    return next(value for key, value in mapping.value if key.value == name)


def _changed(text: str, pairs: Pairs) -> str:
    """The text with these pairs in the key, one after the other."""
    root = compose(text, _WHERE)
    if _section(root) is None:
        edits = Edits(text)
        edits.insert_section(root, root.value[-1][0].value, _KEY, pairs)
        return edits.applied()
    for name, value in pairs.items():
        text = _with_pair(text, name, value)
    return text


def _with_pair(text: str, name: str, value: Any) -> str:
    """The text with one pair of the key: where it was, or at the end if it is new or spans lines."""
    root = compose(text, _WHERE)
    edits = Edits(text)
    section: Any = _section(root)
    names = [key.value for key, _ in section[1].value] if hasattr(section[1], "flow_style") else []
    if name not in names:
        edits.append_pairs(section, {name: value}, bool(root.flow_style))
        return edits.applied()
    number = names.index(name)
    if edits.replace_value(section[1].value[number][1], value, bool(section[1].flow_style)):
        return edits.applied()
    edits.remove_pair(section[1], number)
    return _with_pair(edits.applied(), name, value)


def _section(root: MappingNode) -> Any:
    """The key and its value; `None` if the file does not have it."""
    return next(((key, value) for key, value in root.value if key.value == _KEY), None)


def _unsafe(values: Any) -> InputError:
    """The error for a file that is written in an unusual way."""
    return InputError(
        f"{_WHERE} is written in a way that cannot be changed safely. Write this into it yourself: "
        f"{_KEY}: {values}. Then run the same command again without --to and --suite. Nothing was changed."
    )
