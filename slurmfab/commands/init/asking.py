"""The questions of `fab init` on a terminal, and the files that their answers make."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE, INTERRUPTED
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import can_ask, write
from slurmfab.cluster.inventory import fabfile, loading, schema_file, shared_files
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.init.answers import NO, NONE, QUESTIONS, YES, Answers, Question
from slurmfab.commands.init.text import complaint, text

BEGINNING = "A few questions for a cluster file; Enter takes what is in brackets."
NOTHING = "Nothing was written."


def init(cluster: str, given: Mapping[str, str | bool], *, yes: bool) -> int:
    """Ask for what a first cluster file needs, and write it.

    `given`: the answers that flags gave, by field of `Answers`. Raises InputError if the file exists, a flag has a
    mistake, or a needed answer is missing and nobody can be asked. Raises SlurmfabError if the user does not want the
    file.
    """
    path = loading.named_path(cluster)
    refuse_existing(path)
    answers = checked(given)
    if not yes and can_ask():
        try:
            answers = ask_all(answers, given)
            if not is_agreed(f"Write {path}? [Y/n] "):
                raise SlurmfabError(NOTHING)
        except KeyboardInterrupt:
            write(f"\n{NOTHING}", sys.stderr)
            return INTERRUPTED
    refuse_missing(answers)
    for line in write_files(path, answers):
        write(line, sys.stdout)
    return DONE


def refuse_existing(path: Path) -> None:
    """Refuse to begin where a cluster file or a lock is. Raises InputError if one is there."""
    there = shared_files.existing(path)
    if there:
        raise InputError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already, and {FAB} init writes new "
            f"files only. Change the file, or name another one: {FAB} init --cluster configs/NAME.yaml. {NOTHING}"
        )


def checked(given: Mapping[str, str | bool]) -> Answers:
    """The answers that flags gave. Raises InputError if one of them has a mistake."""
    answers = Answers()
    for question in QUESTIONS:
        if question.field in given:
            answers = answers.with_answer(question.field, given[question.field])
            if wrong := complaint(answers):
                raise InputError(f"{question.flag} {given[question.field]}: {wrong}. {NOTHING}")
    return answers


def ask_all(answers: Answers, given: Mapping[str, str | bool]) -> Answers:
    """Ask the questions that no flag has answered. Raises SlurmfabError if the input ends."""
    write(BEGINNING, sys.stderr)
    for question in QUESTIONS:
        if question.field not in given:
            answers = ask(question, answers)
    return answers


def ask(question: Question, answers: Answers) -> Answers:
    """Ask until the answer is right; the answers with this one, SlurmfabError if the input ends."""
    while True:
        line = typed(f"{question.text}{f' [{question.default}]' if question.default else ''}: ")
        if line == question.default == NONE:
            line = ""
        value: str | bool = line or getattr(answers, question.field)
        if question.field == "accounting":
            value = line.lower() in YES
            if not value and line.lower() not in NO:
                write("  y or n", sys.stderr)
                continue
        if question.is_required and not value:
            write("  this answer is needed", sys.stderr)
            continue
        found = answers.with_answer(question.field, value)
        wrong = complaint(found)
        if not wrong:
            return found
        write(f"  {wrong}", sys.stderr)


def typed(prompt: str) -> str:
    """A line that the user types, without the spaces around it. Raises SlurmfabError if the input ends."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise SlurmfabError(f"\n{NOTHING}")
    return line.strip()


def is_agreed(question: str) -> bool:
    """Whether the user answers yes, which Enter is as well."""
    return typed(question).lower() in ("", *YES)


def refuse_missing(answers: Answers) -> None:
    """Refuse to go on without the answers that a file needs. Raises InputError if one is missing."""
    missing = [question.flag for question in QUESTIONS if question.is_required and not getattr(answers, question.field)]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed, as nobody is asked here: "
            f"{FAB} init --name lab --controller ctl --nodes 'n[1-4]' --yes. {NOTHING}"
        )


def write_files(path: Path, answers: Answers) -> list[str]:
    """Write cluster file, schema and fabfile; what was written and comes next, InputError if it cannot be."""
    with shared_files.exclusively(path):
        refuse_existing(path)
        schema_file.provide(path, Lock())
        writing.write(path, schema_file.modeline(path) + text(answers))
    nodes = fold(expand(answers.nodes))
    lines = [f"Wrote {path}: {answers.controller} is the controller, {nodes} compute.", fabfile.provide(path)]
    named = "" if path == loading.default_path() else f" --cluster {path}"
    return [
        *filter(None, lines),
        f"Next: read {path}. {FAB} plan{named} shows what a deployment would do, {FAB} deploy{named} does it, with "
        "--accept-new-host-keys for hosts whose SSH keys are not in known_hosts.",
    ]
