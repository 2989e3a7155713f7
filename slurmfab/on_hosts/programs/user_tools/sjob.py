"""The command `sjob`: asks what a job needs, and writes a submit script for it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

from slurmfab.on_hosts.programs.user_tools import job_answers, settings, slint
from slurmfab.on_hosts.programs.user_tools.findings import ERROR, clean
from slurmfab.on_hosts.programs.user_tools.job_answers import Limits
from slurmfab.on_hosts.programs.user_tools.job_script import CALLS, JobOptions, script

STDOUT = "-"
DEFAULT_FILE = "job.sh"
USAGE_ERROR = 2
DESCRIPTION = """\
Write a submit script. Without --command, sjob asks on the terminal, with the cluster's defaults and limits; flags
answer questions in advance. The script is checked as slint does before it is written.
"""
EPILOG = """\
Exit codes: 0 written, 1 not written (the cluster cannot give that, or the file exists), 2 wrong usage.

  sjob
  sjob --gpus 1 --time 2h --command 'python train.py' -o job.sh
  sjob --cpus 8 --memory 16G --time 1d --command ./simulate -o - | sbatch
"""


class Field(NamedTuple):
    """An answer about a job."""

    name: str
    help: str
    read: Callable[[str, Limits], Any]  # makes a value of a text; raises ValueError with what is wrong


FIELDS = (
    Field("command", "what the job runs, as one line of the shell", job_answers.command),
    Field("name", "name of the job", job_answers.name),
    Field("partition", "where it runs", job_answers.partition),
    Field("account", "account that it is charged to", job_answers.account),
    Field("qos", "its quality of service", job_answers.qos),
    Field("nodes", "number of nodes", job_answers.nodes),
    Field("tasks", "number of processes on all nodes together", job_answers.tasks),
    Field("cpus", "CPUs of each process", job_answers.cpus),
    Field("memory", "memory of each node, as in 16G", job_answers.memory),
    Field("gpus", "GPUs of each node", job_answers.gpus),
    Field("gpu-type", "type of the GPUs", job_answers.gpu_type),
    Field("scratch", "GB of scratch space on each node", job_answers.scratch),
    Field("time", "time limit, as in 2h, 90m, 1d or 1-12:00:00", job_answers.time),
    Field("array", "indices of an array, as in 0-9%%2", job_answers.array),
    Field("mail", "address for a message at the end", job_answers.mail),
    Field("modules", "modules to load, separated by spaces", job_answers.modules),
    Field("way", "how the container runs: " + ", ".join(CALLS), job_answers.way),
    Field("image", "image of the container", job_answers.image),
)
BY_NAME = {field.name: field for field in FIELDS}


def main(words: Sequence[str]) -> int:
    """Write a script. Returns the exit code, as told by --help."""
    try:
        asked = parser().parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    is_terminal = sys.stdin.isatty()
    if asked.command is None and not is_terminal:
        return complain("--command is needed where there is no terminal to ask on", USAGE_ERROR)
    around = slint.surroundings()
    limits = job_answers.limits_of(around.cluster, tuple(settings.read().get("containers", ())))
    given = {name: getattr(asked, name.replace("-", "_")) for name in BY_NAME}
    path = asked.output
    try:
        answers, limits = from_flags({name: text for name, text in given.items() if text is not None}, limits)
    except ValueError as problem:
        return complain(str(problem), USAGE_ERROR)
    if asked.command is None:
        try:
            Interview(answers, limits, ask, tell).all()
            path = path or ask("File to write", DEFAULT_FILE)
        except EOFError:
            return complain("nothing was written", 1)
    answers.setdefault("name", job_answers.name_of(answers["command"]))
    return finish(script(options(answers)), path or DEFAULT_FILE, asked.force, around)


def parser() -> argparse.ArgumentParser:
    """The parser of the arguments."""
    made = argparse.ArgumentParser(
        "sjob", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for field in FIELDS:
        made.add_argument("--" + field.name, metavar=field.name.upper().replace("-", "_"), help=field.help)
    made.add_argument("-o", "--output", metavar="FILE", help="file to write (job.sh); - for standard output")
    made.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    return made


def from_flags(given: Dict[str, str], limits: Limits) -> Tuple[Dict[str, Any], Limits]:
    """The answers that flags give, and the limits of their partition; ValueError if a value cannot be."""
    found: Dict[str, Any] = {}
    if "partition" not in given:
        limits = limits.in_partition(
            limits.default_for(given.get("gpus", "0") not in ("", "0"), given.get("gpu-type", ""))
        )
        if limits.partition and limits.partition != limits.default:
            found["partition"] = limits.partition
    for name in sorted(given, key=lambda one: one != "partition"):
        try:
            found[name] = BY_NAME[name].read(given[name], limits)
        except ValueError as problem:
            raise ValueError("--%s: %s" % (name, problem)) from problem
        if name == "partition":
            limits = limits.in_partition(found[name])
    if found.get("image") and not found.get("way"):
        found["way"] = (limits.ways or ("podman",))[0]
    return found, limits


class Interview:
    """Questions about a job, in their order.

    Args:
        answers: what flags have said; the answers are added.
        limits: of the cluster, and then of the partition that the user chose.
        ask: asks a question that has a default, and returns the answer; raises EOFError when the input has ended.
    """

    def __init__(
        self, answers: Dict[str, Any], limits: Limits, ask: Callable[[str, str], str], tell: Callable[[str], None]
    ) -> None:
        self.answers, self.limits, self.ask, self.tell = answers, limits, ask, tell

    def about(self, name: str, question: str, default: str = "") -> Any:
        """Ask until there is an answer that can be, unless there is one already, and return it."""
        while name not in self.answers:
            try:
                self.answers[name] = BY_NAME[name].read(self.ask(question, default), self.limits)
            except ValueError as problem:
                self.tell("  %s" % problem)
        return self.answers[name]

    def all(self) -> None:
        """Ask for what flags have not said."""
        self.tell("What does the job need? Return takes what is in brackets; Ctrl-C ends without a file.")
        command = self.about("command", "Command that it runs")
        self.resources()
        self.about("name", "Name of the job", job_answers.name_of(command))
        self.about("array", "Indices of an array, as in 0-9 (Return for none)")
        self.about("mail", "Address for a message at the end (Return for none)")
        self.about("modules", "Modules to load (Return for none)")
        ways = self.limits.ways
        if ways and self.about("image", "Image of a container (Return for none)"):
            self.about("way", "How it runs (%s)" % ", ".join(ways), ways[0])

    def resources(self) -> None:
        """Ask where the job runs, and what it gets there."""
        for line in self.limits.lines():
            self.tell(line)
        if self.limits.names:
            self.limits = self.limits.in_partition(self.about("partition", "Partition", self.limits.default))
        limits = self.limits
        if limits.gpu_types:
            count = self.about("gpus", "GPUs on each node (at most %d)" % limits.most_gpus, "0")
            if count and len(limits.gpu_types) > 1:
                self.about("gpu-type", "Type of GPU (%s; Return for any)" % ", ".join(limits.gpu_types))
        cpus = self.about("cpus", "CPUs%s" % limits.at_most(limits.cpus), "1")
        self.about("memory", "Memory, as in 16G%s" % limits.at_most(limits.memory_text), limits.default_memory(cpus))
        if limits.most_scratch:
            self.about("scratch", "GB of scratch space on each node (at most %d)" % limits.most_scratch, "0")
        self.about("time", "Time limit, as in 2h%s" % limits.at_most(limits.time_text), limits.default_time)


def options(answers: Dict[str, Any]) -> JobOptions:
    """The options of a script from answers."""
    return JobOptions(**{name.replace("-", "_"): value for name, value in answers.items()})


def finish(text: str, path: str, force: bool, around: slint.Surroundings) -> int:
    """Check a script and write it to a path (`-`: output), over a file if forced; the exit code."""
    checked = slint.check(path, text.encode(), around)
    wrong = [one for one in checked.findings if one.severity == ERROR and one.rule != "slurm"]
    refused = checked.verdict is not None and not checked.verdict.accepted
    if wrong or refused:
        for line in slint.lines(checked, colours=False):
            sys.stderr.write(line + "\n")
        sys.stderr.write("The script would have been:\n\n%s\n" % "\n".join(clean(line) for line in text.split("\n")))
        return complain("nothing was written", 1)
    if path == STDOUT:
        sys.stdout.write(text)
        return 0
    try:
        if not write(text, path, force):
            return complain("%s exists; --force overwrites it" % clean(path), 1)
    except OSError as problem:
        return complain("%s: %s" % (clean(path), problem.strerror), 1)
    for line in slint.lines(checked, colours=False):
        sys.stdout.write(line + "\n")
    sys.stdout.write("Written. To submit it: sbatch %s\n" % clean(path))
    return 0


def write(text: str, path: str, force: bool) -> bool:
    """Write the file; `False` if it exists and must not be overwritten. Raises OSError if it cannot be written."""
    if not force and os.path.lexists(path) and not (sys.stdin.isatty() and agreed(path)):
        return False
    with open(path, "w" if force or os.path.lexists(path) else "x", encoding="utf-8") as file:
        file.write(text)
    return True


def agreed(path: str) -> bool:
    """Whether the user wants a file overwritten."""
    return ask("%s exists. Overwrite it" % clean(path), "no").lower() in ("y", "yes")


def ask(question: str, default: str = "") -> str:
    """Ask on the terminal by standard error, since standard output can be the script; EOFError at the end."""
    sys.stderr.write("%s%s: " % (question, " [%s]" % default if default else ""))
    sys.stderr.flush()
    line = sys.stdin.readline(job_answers.LONGEST)
    if not line:
        raise EOFError
    return line.strip() or default


def tell(line: str) -> None:
    """Show a line between questions."""
    sys.stderr.write(line + "\n")


def complain(text: str, code: int) -> int:
    """Tell why nothing was written, and return an exit code."""
    sys.stderr.write("sjob: %s\n" % text)
    return code
