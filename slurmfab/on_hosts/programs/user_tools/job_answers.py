"""Answers about a job as people give them, read within the limits of a cluster."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Set, Tuple

from slurmfab.on_hosts.agent.client.amounts import UNTYPED, clock, mebibytes_of
from slurmfab.on_hosts.programs.user_tools import sbatch_options
from slurmfab.on_hosts.programs.user_tools.cluster import Cluster, most_gpus
from slurmfab.on_hosts.programs.user_tools.job_script import CALLS
from slurmfab.on_hosts.programs.user_tools.wanted import GIB, memory_text, read_time, total

LONGEST = 4096  # the most characters of an answer

USUAL_SECONDS = 3600
_ARRAY = re.compile(r"\d{1,9}(?:-\d{1,9}(?::\d{1,9})?)?(?:,\d{1,9}(?:-\d{1,9}(?::\d{1,9})?)?)*(?:%\d{1,9})?")
_MAIL = re.compile(r"[^\s@,;'\"\\]+@[^\s@,;'\"\\]+")
_MODULE = re.compile(r"[A-Za-z0-9][\w.+/-]*")


class Limits(NamedTuple):
    """What a user may ask for; 0 where there is no limit, or where it is not known."""

    cluster: Optional[Cluster] = None  # what Slurm says; `None` if it does not answer
    ways: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    default: str = ""  # the default partition; empty for none
    partition: str = ""  # the one that the numbers are about; empty for none
    cpus: int = 0
    memory: int = 0  # likewise, in MiB
    nodes: int = 0
    seconds: int = 0
    default_seconds: int = 0  # of jobs that ask for none
    most_gpus: int = 0  # of the node with most of them
    gpu_types: Tuple[str, ...] = ()  # that have a name
    most_scratch: int = 0  # GB of the node with most scratch space

    @property
    def memory_text(self) -> str:
        """The largest amount of memory."""
        return memory_text(self.memory) if self.memory else ""

    @property
    def time_text(self) -> str:
        """The longest time."""
        return clock(self.seconds) if self.seconds else ""

    @property
    def default_time(self) -> str:
        """The time that is proposed."""
        return clock(min(self.default_seconds or USUAL_SECONDS, self.seconds or USUAL_SECONDS))

    def default_memory(self, cpus: int) -> str:
        """The memory that is proposed: the share of so many CPUs in the largest node; empty if that is not known."""
        share = self.memory * min(cpus, self.cpus) // max(self.cpus, 1) // GIB
        return "%dG" % share if share else ""

    @staticmethod
    def at_most(limit: object) -> str:
        """A limit for a question."""
        return " (at most %s)" % limit if limit else ""

    def lines(self) -> List[str]:
        """The partitions, each with what it gives."""
        found = []
        for name in self.names:
            one = self.in_partition(name)
            parts = ["%d nodes" % one.nodes, "%d CPUs and %s each" % (one.cpus, one.memory_text)]
            parts += ["%d GPUs (%s)" % (one.most_gpus, ", ".join(one.gpu_types))] if one.most_gpus else []
            parts += ["up to " + one.time_text] if one.seconds else []
            found.append("  %s: %s" % (name, ", ".join(parts)))
        return found

    def in_partition(self, name: str) -> Limits:
        """The limits in a partition; the same if it is not known."""
        partition = self.cluster.partition(name) if self.cluster else None
        if self.cluster is None or partition is None:
            return self
        nodes = self.cluster.nodes_of(partition)
        largest = max((node.cpus for node in nodes), default=0)
        return self._replace(
            partition=name,
            cpus=min(largest, partition.max_cpus_per_node or largest),
            memory=max((node.memory for node in nodes), default=0),
            nodes=min(len(nodes), len(nodes) if partition.max_nodes is None else partition.max_nodes),
            seconds=partition.max_seconds or 0,
            default_seconds=partition.default_seconds or 0,
            most_gpus=max((total(node.gpus) for node in nodes), default=0),
            gpu_types=tuple(sorted(most_gpus(nodes))),
            most_scratch=max((node.scratch for node in nodes), default=0),
        )

    def default_for(self, has_gpus: bool, kind: str) -> str:
        """The partition of a job that names none: the default, or the first with GPUs of the wanted kind."""
        there = [self.in_partition(name) for name in (self.default, *self.names) if name and has_gpus]
        fitting = [one for one in there if kind in one.gpu_types] or [one for one in there if one.most_gpus]
        return fitting[0].partition if fitting else self.default


def limits_of(cluster: Optional[Cluster], ways: Tuple[str, ...]) -> Limits:
    """The limits of a cluster."""
    ways = tuple(one for one in ways if one in CALLS)
    if cluster is None:
        return Limits(ways=ways)
    names = tuple(cluster.usable())
    default = next((one.name for one in cluster.partitions if one.is_default and one.name in names), "")
    return Limits(cluster, ways, names, default)


def one_line(text: str, what: str) -> str:
    """A text without control characters. Raises ValueError if it has some, or is too long."""
    if not all(letter.isprintable() for letter in text) or len(text) >= LONGEST:
        raise ValueError("%s has to be one line of printable characters" % what)
    return text


def command(text: str, limits: Limits) -> str:  # noqa: ARG001
    """The command, which has to be there."""
    if not text.strip():
        raise ValueError("a job needs a command")
    return one_line(text.strip(), "the command")


def name(text: str, limits: Limits) -> str:  # noqa: ARG001
    """The job's name."""
    return one_line(text, "the name")


def name_of(command: str) -> str:
    """A name for a job from its command.

    >>> name_of("python train.py --lr 0.1"), name_of("./run.sh")
    ('train', 'run')
    """
    words = [word for word in command.split() if re.fullmatch(r"[\w./+-]+", word, re.ASCII) and word[0] != "-"]
    word = next((word for word in words if "." in word.strip("./")), words[0] if words else "job")
    return word.rpartition("/")[2].partition(".")[0] or "job"


def partition(text: str, limits: Limits) -> str:
    """A partition that the user may use."""
    return one_of(text, limits.names, "partition")


def account(text: str, limits: Limits) -> str:
    """An account of the user."""
    names = sorted({one.account for one in limits.cluster.associations}) if limits.cluster else []
    return one_of(text, tuple(names), "account")


def qos(text: str, limits: Limits) -> str:
    """A QOS."""
    names = {name for one in limits.cluster.associations for name in one.qos} if limits.cluster else set()
    return one_of(text, tuple(sorted(names)), "QOS")


def one_of(text: str, names: Tuple[str, ...], what: str) -> str:
    """A name of one of these; any name if none are known. Raises ValueError if it is none of them."""
    if names and text and text not in names:
        near = sbatch_options.nearest(text, set(names))
        meant = "; did you mean %s?" % near if near else "; there is %s" % ", ".join(names)
        raise ValueError('there is no %s "%s" for you%s' % (what, text, meant))
    return one_line(text, "the " + what)


def whole(text: str, least: int, most: int, what: str) -> int:
    """A whole number. Raises ValueError if it is none, or there are not so many."""
    number = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else -1
    if number < least:
        raise ValueError('"%s" is no number of %s' % (text, what))
    if most and number > most:
        raise ValueError("there are at most %d %s" % (most, what))
    return number


def nodes(text: str, limits: Limits) -> int:
    """Number of nodes."""
    return whole(text, 1, limits.nodes, "nodes")


def tasks(text: str, limits: Limits) -> int:  # noqa: ARG001
    """Number of tasks."""
    return whole(text, 1, 0, "tasks")


def cpus(text: str, limits: Limits) -> int:
    """CPUs of a task."""
    return whole(text, 1, limits.cpus, "CPUs on a node")


def gpus(text: str, limits: Limits) -> int:
    """GPUs of a node."""
    if limits.partition and not limits.most_gpus and text != "0":
        raise ValueError("partition %s has no GPUs" % limits.partition)
    return whole(text, 0, limits.most_gpus, "GPUs on a node")


def gpu_type(text: str, limits: Limits) -> str:
    """A type of GPU of the partition; empty for any."""
    return one_of(text, tuple(one for one in limits.gpu_types if one != UNTYPED), "type of GPU")


def scratch(text: str, limits: Limits) -> int:
    """GB of scratch space on a node."""
    if limits.partition and not limits.most_scratch and text != "0":
        raise ValueError("nodes of partition %s have no scratch space to reserve" % limits.partition)
    return whole(text, 0, limits.most_scratch, "GB of scratch space on a node")


def memory(text: str, limits: Limits) -> str:
    """Memory of a node, as Slurm reads it; empty for Slurm's default."""
    amount = mebibytes_of(text.replace(" ", "") + "G" * text.isdecimal())
    if not text:
        return ""
    if not amount:
        raise ValueError('"%s" is no amount of memory, such as 16G' % text)
    if limits.memory and amount > limits.memory:
        raise ValueError("nodes have at most %s" % limits.memory_text)
    return memory_text(amount)


def time(text: str, limits: Limits) -> str:
    """A time limit, as Slurm writes it; empty for Slurm's default."""
    if not text:
        return ""
    seconds = read_time(text)
    if not seconds:
        raise ValueError('"%s" is no time, such as 2h, 90m, 1d or 1-12:00:00' % text)
    if limits.seconds and seconds > limits.seconds:
        raise ValueError("at most %s in this partition" % limits.time_text)
    return clock(seconds)


def array(text: str, limits: Limits) -> str:
    """Indices of an array; empty for none."""
    if text.lower() in ("", "no", "none"):
        return ""
    if not _ARRAY.fullmatch(text):
        raise ValueError('"%s" is no list of indices, such as 0-9 or 0-99%%5' % text)
    most = limits.cluster.most_indices if limits.cluster else 0
    highest = max(int(one) for one in re.findall(r"\d+", text.partition("%")[0]))
    if most and highest >= most:
        raise ValueError("the highest index is %d" % (most - 1))
    return text


def mail(text: str, limits: Limits) -> str:  # noqa: ARG001
    """An address; empty for none."""
    if text.lower() in ("", "no", "none"):
        return ""
    if not _MAIL.fullmatch(text):
        raise ValueError('"%s" is no e-mail address' % text)
    return one_line(text, "the address")


def modules(text: str, limits: Limits) -> Tuple[str, ...]:  # noqa: ARG001
    """Names of modules; none for an empty text."""
    names = text.replace(",", " ").split()
    wrong: Set[str] = {one for one in names if not _MODULE.fullmatch(one)}
    if wrong:
        raise ValueError('"%s" is no name of a module' % min(wrong))
    return tuple(names)


def way(text: str, limits: Limits) -> str:
    """A way of running containers."""
    return one_of(text, limits.ways or tuple(CALLS), "way of running containers")


def image(text: str, limits: Limits) -> str:  # noqa: ARG001
    """An image; empty for none."""
    return "" if text.lower() in ("no", "none") else one_line(text, "the image")
