"""What users of the hub ask for: the form, its answers checked against what the cluster offers, and sbatch's options.

The hub checks answers to say what is wrong with them; root checks them again, because the hub is not trusted.
"""

from __future__ import annotations

import html
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client.amounts import clock, mebibytes_of, number_of, seconds_of
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.programs.jupyter.places import JUPYTER_SETTINGS

FIELDS = ("partition", "time", "cpus", "memory", "gpus", "account")
MOST_LETTERS = 100  # of an answer
USUAL_SECONDS, USUAL_MEMORY = 3600, 4096  # what the form begins with, where the partition allows it


EXAMPLES: Dict[str, Tuple[str, Callable[[int], str]]] = {
    "Time": ("1:30:00", clock),
    "CPUs": ("2", str),
    "Memory": ("4G", "{}M".format),
}
"""An example of each amount, and what makes a text of its number."""


class Partition(NamedTuple):
    """A partition as the form offers it; 0 for what is not limited, or not known."""

    name: str
    seconds: int  # the time limit of jobs
    cpus: int  # the most CPUs of a node, or that its limits allow
    memory: int  # MiB
    gpus: Mapping[str, int]  # the most GPUs by type, the empty type for GPUs without one
    accounts: Sequence[str]  # which may use it; empty for all

    @property
    def about(self) -> str:
        """The partition and its limits in a line."""
        gpus = ["%d GPUs %s" % (count, kind) if kind else "%d GPUs" % count for kind, count in self.gpus.items()]
        parts = [
            *(["%d CPUs" % self.cpus] if self.cpus else []),
            *(["%d GiB" % (self.memory // 1024)] if self.memory else []),
            *gpus,
            *(["for " + clock(self.seconds)] if self.seconds else []),
        ]
        return "%s (at most %s)" % (self.name, ", ".join(parts)) if parts else self.name


class Offer(NamedTuple):
    """What the hub offers: the settings that slurmfab has written."""

    partitions: Tuple[Partition, ...]  # the one that is chosen first is the first
    accounts: Tuple[str, ...]  # empty where jobs need no account
    denied: Tuple[str, ...]  # users who are no persons, such as slurm
    powerful: Tuple[str, ...]  # users who may become root on some host of the cluster
    powerful_groups: Tuple[str, ...]  # groups whose members may
    ports: Tuple[int, int]  # the first and the last port of servers on nodes
    idle: int  # seconds without use after which a server ends
    listen: str  # the address on which servers listen, as in a URL


class JobOptions(NamedTuple):
    """What a user asks for, within what the cluster offers."""

    partition: str
    seconds: int
    cpus: int
    memory: int  # MiB
    gpus: str  # `TYPE:NUMBER` or `NUMBER`; empty for none
    account: str  # empty for the user's default

    def of_sbatch(self) -> Tuple[str, ...]:
        """The options of sbatch(1)."""
        return (
            "--partition=" + self.partition,
            "--time=" + clock(self.seconds),
            "--nodes=1",
            "--ntasks=1",
            "--cpus-per-task=%d" % self.cpus,
            "--mem=%dM" % self.memory,
            *(("--gres=gpu:" + self.gpus,) if self.gpus else ()),
            *(("--account=" + self.account,) if self.account else ()),
        )


def read() -> Offer:
    """What slurmfab has written. Raises ValueError if the file is missing or damaged."""
    found = json_objects.parse(read_bytes(JUPYTER_SETTINGS))
    if not found:
        raise ValueError("%s is missing or damaged; the next deployment writes it" % JUPYTER_SETTINGS)
    return Offer(
        tuple(Partition(**one) for one in found["partitions"]),
        tuple(found["accounts"]),
        tuple(found["denied"]),
        tuple(found["powerful"]),
        tuple(found["powerful_groups"]),
        (found["ports"][0], found["ports"][1]),
        found["idle"],
        found["listen"],
    )


def checked(answers: Mapping[str, Any], offer: Offer) -> JobOptions:
    """The answers of a user as options of a job. `answers`: texts by the names in `FIELDS`.

    Raises ValueError, which says what is wrong, and what the cluster allows.
    """
    texts = {name: str(answers.get(name) or "").strip()[:MOST_LETTERS] for name in FIELDS}
    partition = next((one for one in offer.partitions if one.name == texts["partition"]), None)
    if partition is None:
        names = ", ".join(one.name for one in offer.partitions)
        raise ValueError("There is no partition %s here; choose one of %s." % (ascii(texts["partition"]), names))
    seconds = within("Time", texts["time"], seconds_of(texts["time"]), partition.seconds)
    cpus = within("CPUs", texts["cpus"], number_of(texts["cpus"]), partition.cpus)
    memory = within("Memory", texts["memory"], mebibytes_of(texts["memory"]), partition.memory)
    account = texts["account"]
    if account and account not in allowed_accounts(partition, offer):
        raise ValueError("Jobs in %s cannot have the account %s." % (partition.name, ascii(account)))
    return JobOptions(partition.name, seconds, cpus, memory, checked_gpus(texts["gpus"], partition), account)


def within(name: str, text: str, number: Optional[int], most: int) -> int:
    """An amount that is within its limit.

    Args:
        name: one of `EXAMPLES`.
        text: what the user wrote.
        number: what that means; `None` for no amount.
        most: the limit; 0 for none.

    Raises:
        ValueError: it is none, or too large.
    """
    example, shown = EXAMPLES[name]
    if not number:
        raise ValueError("%s: %s is not an amount such as %s." % (name, ascii(text), example))
    if most and number > most:
        raise ValueError("%s: %s is more than the %s that a job can have there." % (name, shown(number), shown(most)))
    return number


def checked_gpus(text: str, partition: Partition) -> str:
    """The GPUs for `--gres`, one of those that the form offers. Raises ValueError for others."""
    if text in ("", "0"):
        return ""
    if text not in gpu_choices((partition,)):
        most = ", ".join(gpu_choices((partition,))) or "none"
        raise ValueError("GPUs: %s has no %s; a job can have %s." % (partition.name, ascii(text), most))
    return text


def gpu_choices(partitions: Sequence[Partition]) -> List[str]:
    """All numbers of GPUs of one node, by type, as `--gres=gpu:` names them."""
    most: Dict[str, int] = {}
    for one in partitions:
        for kind, count in one.gpus.items():
            most[kind] = max(count, most.get(kind, 0))
    return ["%s:%d" % (kind, n) if kind else str(n) for kind, count in most.items() for n in range(1, count + 1)]


def allowed_accounts(partition: Partition, offer: Offer) -> Tuple[str, ...]:
    """The accounts of jobs in a partition."""
    return tuple(one for one in offer.accounts if not partition.accounts or one in partition.accounts)


def form(offer: Offer) -> str:
    """The form in HTML, which JupyterHub puts into its page."""
    if not offer.partitions:
        return "<p>No partition takes jobs.</p>"
    first = offer.partitions[0]
    seconds, memory = min(USUAL_SECONDS, first.seconds or USUAL_SECONDS), first.memory or USUAL_MEMORY
    begin = {"time": clock(seconds), "cpus": "1", "memory": "%dM" % min(USUAL_MEMORY, memory)}
    titles = {"time": "Time, such as 2:00:00", "cpus": "CPUs", "memory": "Memory, such as 4G"}
    rows = [select("partition", "Partition", [(one.name, one.about) for one in offer.partitions])]
    rows += [row(name, title, '<input class="form-control" %s>' % attributes(name, begin[name]))
             for name, title in titles.items()]  # fmt: skip
    choices = gpu_choices(offer.partitions)
    if choices:
        rows.append(select("gpus", "GPUs", [("", "none"), *((one, one.replace(":", " × ")) for one in choices)]))
    if offer.accounts:
        rows.append(select("account", "Account", [("", "your default"), *((one, one) for one in offer.accounts)]))
    return "\n".join(rows)


def attributes(name: str, value: str) -> str:
    """The attributes of a field."""
    return 'id="%s" name="%s" value="%s"' % (name, name, html.escape(value))


def select(name: str, title: str, choices: Sequence[Tuple[str, str]]) -> str:
    """A list to choose from, the first one chosen. `choices`: value and title of each."""
    return row(name, title, '<select class="form-control" id="%s" name="%s">%s</select>'
               % (name, name, "".join(entries(choices))))  # fmt: skip


def entries(choices: Sequence[Tuple[str, str]]) -> Iterator[str]:
    """Yield the entries of a list."""
    for value, title in choices:
        yield '<option value="%s">%s</option>' % (html.escape(value), html.escape(title))


def row(name: str, title: str, field: str) -> str:
    """A field with its title."""
    return '<div class="form-group mb-3"><label for="%s">%s</label>%s</div>' % (name, html.escape(title), field)
