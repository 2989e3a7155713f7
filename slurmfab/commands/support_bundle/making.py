"""`fab support-bundle`: gathers, takes secrets out, writes the archive, and tells what is in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmfab.base.archive import format_size
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, table, write
from slurmfab.cluster.inventory import loading
from slurmfab.commands.support_bundle import archive, contents, free_texts, gathering, known_secrets
from slurmfab.commands.support_bundle.gathering import Gathered
from slurmfab.commands.support_bundle.names import names_of
from slurmfab.commands.support_bundle.pseudonyms import Pseudonyms
from slurmfab.commands.support_bundle.redaction import Filter
from slurmfab.core.engine import session
from slurmfab.core.engine.run import Run, RunOptions


@dataclass(frozen=True)
class Written:
    """A support bundle."""

    version: int  # of this format: 1
    file: str  # the archive
    bytes: int  # its size
    files: tuple[str, ...]  # the files in it
    missing: Mapping[str, str]  # hosts that did not answer, each with the reason


def make(cluster: str, hosts: str, to: str, output: session.Output, *, is_anonymous: bool) -> int:
    """Make a support bundle of hosts (empty for all), and print what it has; 3 if a host did not answer.

    `is_anonymous`: users, hosts and addresses get other names. Raises InputError for other hosts, or an unwritable
    path.
    """
    known = loading.load_named(cluster)
    wanted = session.select_hosts(known.cluster, hosts, known.path)
    run = session.start(known, "", output, RunOptions("support-bundle"))
    title = "cluster" if is_anonymous else known.cluster.name
    folder = f"{title}-support-{run.started:%Y%m%dT%H%M%SZ}"
    path = archive.place(known.path, folder, to)
    try:
        gathered = gathering.gather(run, wanted)
        own = known_secrets.read(known)
        password = run.transport.sudo.known if hasattr(run.transport, "sudo") else ""
    finally:
        run.progress.end()
        run.transport.close()
    found = contents.files(known, gathered, own.unread, is_anonymous=is_anonymous)
    secrets = (*own.values, password.encode())
    files = anonymous(run, found, gathered, secrets) if is_anonymous else plain(found, gathered, secrets)
    size = archive.write(path, folder, files, int(run.started.timestamp()))
    tell(path, size, files, gathered, output)
    return LEFT_OUT if gathered.missing else DONE


def plain(found: Mapping[str, str], gathered: Gathered, own: tuple[bytes, ...]) -> dict[str, str]:
    """Files without secrets."""
    files, opaque = cleaned(found, gathered, own, None)
    return {**files, "missing.txt": contents.with_lines(files["missing.txt"], opaque)}


def anonymous(run: Run, found: Mapping[str, str], gathered: Gathered, own: tuple[bytes, ...]) -> dict[str, str]:
    """Files without secrets and texts of people, in which people, hosts and addresses have other names."""
    known, left = without_texts(found)
    names = Pseudonyms(names_of(run, gathered, known), known.values())
    files, opaque = cleaned(known, gathered, own, names)
    files["missing.txt"] = contents.with_lines(files["missing.txt"], (*left, *opaque))
    return {names.text(name): names.text(text) for name, text in files.items()}


def cleaned(
    files: Mapping[str, str], gathered: Gathered, own: tuple[bytes, ...], names: Pseudonyms | None
) -> tuple[dict[str, str], list[str]]:
    """The files without secrets, and lines for what is left out.

    `gathered`: the answers of the hosts, with their secrets. `own`: the secrets of this machine. `names`: other names,
    with which nothing may stay encoded either; `None` where names stay.
    """
    secrets = (*filter(None, own), *(one for answer in gathered.answers.values() for one in answer.secrets))
    public = [text for answer in gathered.answers.values() for text in answer.public]
    clean = Filter(dict.fromkeys(secrets), public, names.knows if names else None)
    found: dict[str, str] = {}
    left: list[str] = []
    for name, text in files.items():
        found[name], lines = clean.clean(text)
        if lines:
            left.append(f"{name}: {lines} lines are left out, because most of each is no text that can be read")
    return found, left


def without_texts(files: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The files without comments and texts of people, and lines for those that are left out."""
    found: dict[str, str] = {}
    left: list[str] = []
    for name, text in files.items():
        try:
            found[name] = free_texts.cleaned(name, text)
        except ValueError as error:
            left.append(f"{name}: left out, because it may name somebody: {error}")
    return found, left


def tell(path: Path, size: int, files: Mapping[str, str], gathered: Gathered, output: session.Output) -> None:
    """Print what the bundle has, and what not; also as JSON, if that was asked for. `size`: its bytes."""
    parts: dict[str, list[int]] = defaultdict(list)
    for name, text in files.items():
        parts[part_of(name)].append(len(text))
    rows = [("part", "files", "size")]
    rows += [(part, str(len(sizes)), format_size(sum(sizes))) for part, sizes in sorted(parts.items())]
    left = sum(len(answer.left) for answer in gathered.answers.values())
    lines = table(rows, columns(output.stream))
    lines += [f"{host}: left out: {reason}" for host, reason in sorted(gathered.missing.items())]
    lines += [f"{left} files are not there or not whole; missing.txt says why."] if left else []
    lines += [f"{path}: {format_size(size)}, readable by you alone. No secrets are in it as far as {FAB} knows them."]
    write("\n".join(lines), output.stream)
    output.write_json(Written(1, str(path), size, tuple(sorted(files)), gathered.missing))


def part_of(name: str) -> str:
    """The part of the bundle that a file belongs to: `hosts: logs`, `runs`, or its own name."""
    words = name.split("/")
    return f"hosts: {words[2]}" if words[0] == "hosts" else words[0]
