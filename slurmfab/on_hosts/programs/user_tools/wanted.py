"""What a submit script asks for: the values of its options, checked for their form alone."""

from __future__ import annotations

import math
import os
import re
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from slurmfab.on_hosts.agent.client.amounts import UNTYPED, clock, gpus_of, mebibytes_of, number_of, seconds_of
from slurmfab.on_hosts.programs.user_tools import sbatch_options
from slurmfab.on_hosts.programs.user_tools.findings import Finding, error, hint, warning
from slurmfab.on_hosts.programs.user_tools.job_script import quoted
from slurmfab.on_hosts.programs.user_tools.submit_script import MAGIC, Setting

UNLIMITED = frozenset({"-1", "0", "INFINITE", "UNLIMITED"})
NUMBERS = (
    "ntasks", "cpus-per-task", "ntasks-per-node", "tasks-per-node", "cpus-per-gpu", "mincpus", "ntasks-per-core",
    "ntasks-per-socket", "ntasks-per-gpu",
)  # fmt: skip
SIZE = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mincpus")
MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
GPUS = ("gres", "gpus", "gpus-per-node", "gpus-per-task")
MAIL_TYPES = frozenset(
    (
        *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT"),
        *("TIME_LIMIT_50", "TIME_LIMIT_80", "TIME_LIMIT_90", "ARRAY_TASKS"),
    )
)
MAY_HOLD_VARIABLES = frozenset({"comment", "wrap", "export", "extra", "admin-comment"})
"""Options whose values may hold a dollar sign for a good reason."""

SMALL = 64  # amounts of memory without a unit that are probably meant in GiB; without one they are MiB

GIB = 1024
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_TIME = r"(?:(\d+)-)?\d+(?::\d+){0,2}"
_PART = r"(\d+(?:\.\d+)?) ?(d|h|m|s)[a-z]*"
_MEMORY = r"\d+(?:[KMGT]B?)?"
_NODES = r"(\d+)([km]?)(?:-(\d+)([km]?))?"
_GRES = r"[A-Za-z][\w.-]*(?:[:=][\w.+-]+)?(?:[:=]\d+[KMGTP]?)?"
_GPUS = r"(?:[A-Za-z][\w.-]*[:=])?\d+"
_ARRAY = r"\d+(?:-\d+(?::\d+)?)?(?:,\d+(?:-\d+(?::\d+)?)?)*(?:%\d+)?"
_VARIABLE = r"\$(?:\w+|\{\w*\}|\()|`|^~(?=/|$)"


class Wanted(NamedTuple):
    """What one job asks for; memory in MiB."""

    given: Mapping[str, Setting]  # its options by name, without those whose values have no form that Slurm reads
    partitions: Tuple[str, ...]  # names of partitions, any of which will do; none for the default one
    seconds: Optional[int]  # its time limit; `None` if it has none, or names none
    nodes: int
    most_nodes: int  # the most; 0 if any number will do
    tasks: int
    task_cpus: int  # CPUs of each task
    gpus: Mapping[str, int]  # in all, by type; the type of untyped ones is `gpu`
    node_gpus: Mapping[str, int]  # at least one node needs as many, by type
    node_cpus: int
    node_memory: Optional[int]  # likewise; `None` if it says none
    each_gpus: Mapping[str, int]  # every node needs as many, by type
    each_cpus: int
    memory: Optional[int]  # in all

    @property
    def cpus(self) -> int:
        """The fewest CPUs in all."""
        return max(self.tasks * self.task_cpus, self.nodes)

    def line(self, *names: str) -> int:
        """The line of the first of these options that is given; 0 if none is."""
        return next((self.given[name].line for name in names if name in self.given), 0)

    def value(self, name: str) -> str:
        """The value of an option; empty if it is not given."""
        return self.given[name].value or "" if name in self.given else ""


def directive(name: str, value: str) -> str:
    """A directive, to write instead of another one."""
    return "%s --%s=%s" % (MAGIC, name, quoted(value))


def memory_text(mebibytes: int) -> str:
    """An amount of memory as Slurm reads it.

    >>> memory_text(4096), memory_text(23382)
    ('4G', '23382M')
    """
    return "%dG" % (mebibytes // GIB) if mebibytes % GIB == 0 else "%dM" % mebibytes


def read_time(text: str) -> Optional[int]:
    """A time as people write it, or as Slurm does, in seconds; `None` if it is none.

    >>> read_time("2h"), read_time("1d 12h"), read_time("90 min"), read_time("01:00:00"), read_time("soon")
    (7200, 129600, 5400, 3600, None)
    """
    plain = text.strip().lower()
    if re.fullmatch(_TIME, plain, re.ASCII):
        return seconds_of(plain)
    parts = re.findall(_PART, plain, re.ASCII)
    if not parts or re.sub(_PART, "", plain, flags=re.ASCII).strip(" ,"):
        return None
    return int(sum(float(number) * UNITS[unit] for number, unit in parts))


def read(settings: Tuple[Setting, ...]) -> Tuple[Wanted, List[Finding]]:
    """What options ask for, the last of a name counting, and what is wrong with their form."""
    found = list(repeated(settings))
    given: Dict[str, Setting] = {}
    for setting in settings:
        given[canonical(setting.name)] = setting._replace(name=canonical(setting.name))
    for name, setting in list(given.items()):
        wrong = list(in_value(setting))
        found += wrong
        if any(one.severity == "error" for one in wrong):
            del given[name]
    found += together(given)
    return wanted(given), found


def canonical(name: str) -> str:
    """The one name of options that have two."""
    return "ntasks-per-node" if name == "tasks-per-node" else name


def wanted(given: Mapping[str, Setting]) -> Wanted:
    """What options with a form that Slurm reads ask for."""
    nodes, most_nodes = node_range(value(given, "nodes"))
    per_node = number(given, "ntasks-per-node")
    tasks = number(given, "ntasks") or max(per_node, 1) * nodes
    gpus, node_gpus = gpus_wanted(given, nodes, most_nodes, tasks)
    task_cpus = max(number(given, "cpus-per-task"), 1)
    if not number(given, "cpus-per-task") and number(given, "cpus-per-gpu"):
        task_cpus = max(1, math.ceil(number(given, "cpus-per-gpu") * sum(gpus.values()) / tasks))
    node_tasks = math.ceil(tasks / most_nodes) if most_nodes else 1
    node_cpus = max(max(per_node, node_tasks) * task_cpus, number(given, "mincpus"))
    cpus = node_cpus, max(tasks * task_cpus, nodes)
    per_gpu = total(node_gpus), total(gpus)
    node_memory, memory = memory_wanted(given, {"mem": (1, nodes), "mem-per-cpu": cpus, "mem-per-gpu": per_gpu})
    time = value(given, "time")
    return Wanted(
        given=given,
        partitions=tuple(filter(None, value(given, "partition").split(","))),
        seconds=None if time.upper() in UNLIMITED else seconds_of(time),
        nodes=nodes, most_nodes=most_nodes, tasks=tasks, task_cpus=task_cpus, gpus=gpus, node_gpus=node_gpus,
        node_cpus=node_cpus, node_memory=node_memory, memory=memory,
        each_gpus=gpus_of(value(given, "gres")) or gpu_counts(value(given, "gpus-per-node")),
        each_cpus=max(per_node, 1) * task_cpus,
    )  # fmt: skip


def value(given: Mapping[str, Setting], name: str) -> str:
    """The value of an option; empty if it is not given."""
    return given[name].value or "" if name in given else ""


def number(given: Mapping[str, Setting], name: str) -> int:
    """The value of an option that is a number; 0 if it is not given."""
    text = value(given, name)
    return number_of(text) or 0


def node_range(text: str) -> Tuple[int, int]:
    """The fewest and the most nodes of `--nodes`; 1 and 0 if it is not given."""
    match = re.fullmatch(_NODES, text, re.ASCII)
    if not match:
        return 1, 0
    factors = {"": 1, "k": 1024, "m": 1024**2}
    first = int(match[1]) * factors[match[2]]
    return max(first, 1), int(match[3]) * factors[match[4]] if match[3] else first


def gpus_wanted(
    given: Mapping[str, Setting], nodes: int, most_nodes: int, tasks: int
) -> Tuple[Dict[str, int], Dict[str, int]]:
    """The GPUs of a job by type: in all, and of the node with most of them."""
    node = gpus_of(value(given, "gres")) or gpu_counts(value(given, "gpus-per-node"))
    if node:
        return {kind: count * nodes for kind, count in node.items()}, node
    total = gpu_counts(value(given, "gpus"))
    if total:
        return total, {kind: math.ceil(count / most_nodes) if most_nodes else 1 for kind, count in total.items()}
    task = gpu_counts(value(given, "gpus-per-task"))
    node_tasks = math.ceil(tasks / most_nodes) if most_nodes else 1
    return (
        {kind: count * tasks for kind, count in task.items()},
        {kind: count * node_tasks for kind, count in task.items()},
    )


def gpu_counts(text: str) -> Dict[str, int]:
    """The GPUs by type of an option such as `--gpus`, as in `a100:2` or `4`."""
    return gpus_of(",".join("gpu:" + part for part in text.split(","))) if text else {}


def memory_wanted(
    given: Mapping[str, Setting], factors: Mapping[str, Tuple[int, int]]
) -> Tuple[Optional[int], Optional[int]]:
    """The least memory of one node, and of all together; `factors`: how often an option's amount is in each."""
    for name, (in_node, in_all) in factors.items():
        amount = mebibytes_of(value(given, name))
        if amount:
            return amount * in_node, amount * in_all
    return None, None


def repeated(settings: Tuple[Setting, ...]) -> Iterator[Finding]:
    """Yield options that are given twice, with different values."""
    first: Dict[str, Setting] = {}
    for setting in settings:
        earlier = first.setdefault(setting.name, setting)
        if earlier.value != setting.value:
            text = "--%s was %s in line %d already; the last one counts" % (setting.name, earlier.value, earlier.line)
            yield warning(setting.line, "twice", text, "one of the two")
            first[setting.name] = setting


def together(given: Mapping[str, Setting]) -> Iterator[Finding]:
    """Yield options that contradict each other."""
    amounts = [name for name in MEMORY if name in given]
    if len(amounts) > 1:
        line = max(given[name].line for name in amounts)
        yield error(line, "memory", "only one of --%s can be given" % " and --".join(amounts), "one of them")
    if "mail-user" in given and "mail-type" not in given:
        text = "without --mail-type no message is sent"
        yield warning(given["mail-user"].line, "mail", text, directive("mail-type", "END,FAIL"))
    if "array" in given and "output" in given and not re.search(r"%\d*[ajJ]|%\d*A.*%\d*a", value(given, "output")):
        text = "all tasks of the array write to the same file"
        yield warning(given["output"].line, "array-output", text, directive("output", "%x-%A_%a.out"))


def in_value(setting: Setting) -> Iterator[Finding]:
    """Yield what is wrong with the form of one value."""
    text = setting.value or ""
    if re.search(_VARIABLE, text) and setting.name not in MAY_HOLD_VARIABLES:
        yield variable(setting)
    elif setting.name in ("time", "time-min"):
        yield from in_time(setting, text)
    elif setting.name in MEMORY:
        yield from in_memory(setting, text)
    elif setting.name in NUMBERS and not (text.isdecimal() and int(text) > 0):
        digits = re.match(r"0*([1-9]\d*)", text)
        yield error(
            setting.line, "number", '--%s wants a whole number, not "%s"' % (setting.name, text),
            directive(setting.name, digits[1] if digits else "1"),
        )  # fmt: skip
    elif setting.name == "nodes" and not re.fullmatch(_NODES + r"|\d+(?:[,:-]\d+)*", text, re.ASCII):
        yield error(setting.line, "nodes", '--nodes wants a number or a range such as 2-4, not "%s"' % text)
    elif setting.name in GPUS:
        yield from in_gpus(setting, text)
    elif setting.name == "array" and not re.fullmatch(_ARRAY, text, re.ASCII):
        yield error(
            setting.line, "array", '"%s" is no list of array indices' % text, "%s --array=0-9%%2" % MAGIC
        )  # fmt: skip
    elif setting.name == "mail-type":
        yield from in_mail_type(setting, text)


def variable(setting: Setting) -> Finding:
    """A finding for a value with a variable of the shell."""
    text = "sbatch does not expand variables in directives, and takes %s as it is" % setting.value
    return error(setting.line, "variable", text, without_variables(setting))


REPLACED = {
    "SLURM_JOB_ID": "%j", "SLURM_JOBID": "%j", "SLURM_JOB_NAME": "%x", "SLURM_ARRAY_JOB_ID": "%A",
    "SLURM_ARRAY_TASK_ID": "%a", "SLURM_NODEID": "%n", "SLURM_PROCID": "%t", "USER": "%u", "LOGNAME": "%u",
    "HOSTNAME": "%N", "SLURMD_NODENAME": "%N",
}  # fmt: skip
"""By variable, what sbatch replaces in names of files (sbatch(1), filename pattern)."""


def without_variables(setting: Setting) -> str:
    """A directive that means the same without variables; empty if there is none."""
    if setting.name not in ("output", "error", "input"):
        return ""
    text = re.sub(r"^(?:\$HOME|\$\{HOME\}|~)/", os.path.expanduser("~/").replace("\\", ""), setting.value or "")
    text = re.sub(r"\$\{?(\w+)\}?", lambda found: REPLACED.get(found[1], found[0]), text)
    return "" if "$" in text or "`" in text else directive(setting.name, text)


def in_time(setting: Setting, text: str) -> Iterator[Finding]:
    """Yield what is wrong with the form of a time."""
    if text.upper() in UNLIMITED:
        return
    if not re.fullmatch(_TIME, text, re.ASCII):
        meant = read_time(text)
        shown = directive(setting.name, clock(meant) if meant else "DAYS-HOURS:MINUTES:SECONDS")
        yield error(setting.line, "time", '"%s" is no time that Slurm reads' % text, shown)
    elif text.count(":") == 1 and "-" not in text:
        first, _, second = text.partition(":")
        meaning = "%s means %d minutes and %d seconds" % (text, int(first), int(second))
        if int(first) < 24:  # noqa: PLR2004 - hours of a day: few jobs have minutes and seconds
            other = clock(int(first) * 3600 + int(second) * 60)
            yield warning(setting.line, "time", meaning, "%s if hours were meant" % directive(setting.name, other))
        else:
            yield hint(setting.line, "time", meaning)


def in_memory(setting: Setting, text: str) -> Iterator[Finding]:
    """Yield what is wrong with the form of an amount of memory."""
    if not re.fullmatch(_MEMORY, text.upper(), re.ASCII):
        meant = mebibytes_of(text.replace(" ", ""))
        shown = directive(setting.name, memory_text(meant) if meant else "16G")
        yield error(setting.line, "memory", '"%s" is no amount of memory that Slurm reads' % text, shown)
    elif text.isdecimal() and 0 < int(text) <= SMALL:
        shown = "%s if GiB were meant" % directive(setting.name, text + "G")
        yield warning(setting.line, "memory", "%s without a unit means %s MiB" % (text, text), shown)


def in_gpus(setting: Setting, text: str) -> Iterator[Finding]:
    """Yield what is wrong with the form of GPUs and other generic resources."""
    pattern = _GRES if setting.name == "gres" else _GPUS
    for part in text.split(","):
        if setting.name == "gres" and part.lower() == "none":
            continue
        name = part.partition(":")[0].lower()
        with_unit = re.fullmatch(r"scratch:(\d{1,9})([KMGT])B?", part, re.IGNORECASE)
        if setting.name == "gres" and with_unit:
            size = max(1, round(int(with_unit[1]) * {"K": 1e-6, "M": 1e-3, "G": 1, "T": 1000}[with_unit[2].upper()]))
            text = "scratch is counted in GB, and Slurm reads %s as a number of that many bytes" % part
            yield error(setting.line, "gres", text, directive("gres", "scratch:%d" % size))
            continue
        if setting.name == "gres" and (name in ("gpus", "cuda") or part.isdecimal()):
            count = re.search(r"\d+$", part)
            shown = directive("gres", "gpu:%s" % (count[0] if count else "1"))
            yield error(setting.line, "gres", '"%s" is no generic resource: GPUs are called gpu' % part, shown)
        elif not re.fullmatch(pattern, part, re.ASCII):
            form = "gpu:TYPE:COUNT" if setting.name == "gres" else "TYPE:COUNT or COUNT"
            yield error(setting.line, "gres", '--%s wants %s, not "%s"' % (setting.name, form, part))


def in_mail_type(setting: Setting, text: str) -> Iterator[Finding]:
    """Yield events for messages that Slurm does not know."""
    for part in text.split(","):
        if part.upper() not in MAIL_TYPES:
            near = sbatch_options.nearest(part, MAIL_TYPES) or "END,FAIL"
            yield error(setting.line, "mail", '"%s" is no event for --mail-type' % part, directive("mail-type", near))


def total(gpus: Mapping[str, int]) -> int:
    """The number of GPUs of all types."""
    return sum(gpus.values())


def gpu_text(gpus: Mapping[str, int]) -> str:
    """GPUs in words.

    >>> gpu_text({"a100": 2}), gpu_text({"gpu": 1})
    ('2 GPUs of type a100', '1 GPU')
    """
    parts = []
    for kind, count in gpus.items():
        parts.append("%d GPU%s" % (count, "" if count == 1 else "s") + ("" if kind == UNTYPED else " of type " + kind))
    return ", ".join(parts)
