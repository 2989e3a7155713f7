"""Record what slurmfab prints on a lab, in pictures for the documentation: `make pictures`, as root.

A lab of five hosts is started, the commands below run in a terminal of their own, and what that shows becomes an SVG
file beside this one; the page of `fab report` becomes a PNG. Nothing in the pictures is written by hand.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

HERE = Path(__file__).parent
LAB = "titanic"
CLUSTER = "configs/cluster.yaml"
COLUMNS, ROWS = 96, 60
LETTER, LINE, MARGIN, BAR = 7.83, 18, 16, 30
"""The width of a letter of 13 px in usual fonts, the height of a line, the frame, and the bar above."""

CONTROL = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
CLASSES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow"}
"""The colours that slurmfab uses (slurmfab/base/terminal.py), as classes of the picture."""

STYLE = """\
text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d4d8de; white-space: pre }
.window { fill: #14171c; stroke: #3a414b } .bar { fill: #232830 } .title { fill: #9aa4b1; text-anchor: middle }
.bold { font-weight: 700; fill: #fff } .dim { fill: #9aa4b1 } .red { fill: #ff7b72 } .green { fill: #56d364 }
.yellow { fill: #e3b341 } .prompt { fill: #79c0ff }"""

USERS = "users: [{name: ann}, {name: bob}]\n"
"""What the cluster file gets after the first deployment."""

PARTITIONS = """\
partitions:
  - {PartitionName: batch, Nodes: "n[1-2]", Default: YES, MaxTime: 1-00:00:00}
  - {PartitionName: gpu, Nodes: "n[3-4]", MaxTime: 8:00:00}
slurm_conf: {SlurmdTimeout: 600}
"""
"""What it gets in place of its partition, in the picture of a plan."""

JOBS = (
    ("ann", "-p gpu --gres=gpu:3 -J train"),
    ("ann", "-p gpu --gres=gpu:4 -J sweep"),
    ("ann", "-p gpu --gres=gpu:2 -J infer"),
    ("bob", "-w n1 -J solve"),
)


@dataclass
class Screen:
    """The lines of a terminal, each a list of letters with their classes."""

    lines: list[list[tuple[str, str]]] = field(default_factory=lambda: [[]])
    column: int = 0
    classes: str = ""

    def feed(self, text: str) -> None:
        """Show a text: letters, line ends, carriage returns, and the sequences that slurmfab uses."""
        end = 0
        for control in CONTROL.finditer(text):
            self.write(text[end : control.start()])
            end = control.end()
            if control[2] == "m":
                self.classes = " ".join(CLASSES[code] for code in control[1].split(";") if code in CLASSES)
            elif control[2] == "K":
                del self.lines[-1][self.column :]
        self.write(text[end:])

    def write(self, text: str) -> None:
        """Show letters and line ends."""
        for letter in text:
            if letter == "\n":
                self.lines.append([])
                self.column = 0
            elif letter == "\r":
                self.column = 0
            else:
                self.lines[-1][self.column : self.column + 1] = [(letter, self.classes)]
                self.column += 1


def in_terminal(command: str, directory: Path) -> str:
    """What a command prints in a terminal of its own."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = environment_of() | {"TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["sh", "-c", command], cwd=directory, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    found = bytearray()
    try:
        while part := os.read(ours, 65536):
            found += part
    except OSError:  # Linux says so when the last program has left the terminal.
        pass
    process.wait()
    os.close(ours)
    return found.decode()


def environment_of() -> dict[str, str]:
    """The environment of recorded commands: `fab` is the one beside this Python."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLURMFAB", "COLUMNS", "NO_COLOR"))
    }
    return kept | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def drawn(command: str, screen: Screen) -> str:
    """A terminal's window as the text of an SVG file."""
    prompt = [("$ ", "prompt"), (command, "bold")]
    lines = [prompt, *screen.lines]
    while not "".join(letter for letter, _ in lines[-1]).strip():
        lines.pop()
    width, height = round(COLUMNS * LETTER + 2 * MARGIN), len(lines) * LINE + BAR + 2 * MARGIN - 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{escape(command)}, as a terminal shows it</title>",
        f"<style>\n{STYLE}\n</style>",
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" class="window"/>',
        f'<path d="M1 {BAR}V8a7 7 0 0 1 7-7H{width - 8}a7 7 0 0 1 7 7V{BAR}z" class="bar"/>',
        f'<text x="{width / 2:.0f}" y="20" class="title">{escape(command)}</text>',
    ]
    for number, line in enumerate(lines):
        y = BAR + MARGIN + 8 + number * LINE
        spans = "".join(
            span("".join(letter for letter, _ in some), kind) for kind, some in groupby(line, lambda one: one[1])
        )
        parts.append(f'<text x="{MARGIN}" y="{y}">{spans}</text>')
    return "\n".join([*parts, "</svg>", ""])


def span(text: str, kind: str) -> str:
    """Letters of one class."""
    return f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text)


def record(name: str, command: str, directory: Path, words: Mapping[str, str]) -> None:
    """Run a command and draw what it shows, some words replaced."""
    screen = Screen()
    screen.feed(replaced(in_terminal(command, directory), words))
    (HERE / f"{name}.svg").write_text(drawn(command, screen))
    print(f"{name}.svg: {command}")  # noqa: T201


def replaced(text: str, words: Mapping[str, str]) -> str:
    """A text with other words for this machine's."""
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def quietly(command: str, directory: Path) -> None:
    """Run a command that no picture shows."""
    subprocess.run(["sh", "-c", command], cwd=directory, env=environment_of(), check=True, stdout=subprocess.DEVNULL)


def photograph(page: Path, to: Path) -> None:
    """Open a page in a browser and write what it shows first."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for option in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1100,900"):
        options.add_argument(option)
    browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    browser.get(page.as_uri())
    browser.save_screenshot(str(to))
    browser.quit()


def steps(directory: Path) -> Iterator[tuple[str, str]]:
    """The commands of the pictures with their names, each after what it needs was done."""
    cluster = directory / CLUSTER
    text = cluster.read_text()
    cluster.write_text(text.partition("\n")[2])  # Without the line that has lab-down remove the file.
    yield "deploy", "fab deploy"
    with cluster.open("a") as file:
        file.write(USERS)
    quietly("fab deploy", directory)
    before, _, after = cluster.read_text().partition("partitions:\n")
    cluster.write_text(before + PARTITIONS + after.partition("\n")[2])
    yield "plan", "fab plan"
    quietly("fab deploy", directory)
    quietly('fab drain n2 --reason "new disks"', directory)
    yield "check-cluster", "fab check-cluster --only nodes,jobs,gpus"
    for user, options in JOBS:
        job = f"sbatch --chdir=/tmp --output=/dev/null -c1 --mem=100 {options} --wrap 'sleep 900'"
        quietly(f'fab ssh ctl -- "runuser -u {user} -- {job}"', directory)
    yield "status", "fab status --user ann"
    yield "history", "fab history"


def main() -> None:
    """Start the lab, record, and remove the lab."""
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        shutil.copy(HERE.parents[1] / "fabfile.py", directory)
        quietly(f"fab lab-down --name {LAB} || true", directory)
        quietly(f"fab lab-up --name {LAB} --nodes 4 --gpus 'n[3-4]:4:A100-SXM4-40GB' --output {CLUSTER}", directory)
        try:
            words = {place: "/home/ann/cluster", f"@{os.uname().nodename}": "@laptop"}
            for name, command in steps(directory):
                record(name, command, directory, words)
            quietly("fab report --output report.html", directory)
            page = directory / "report.html"
            page.write_text(replaced(page.read_text(), words))
            photograph(page, HERE / "report.png")
        finally:
            quietly(f"fab lab-down --name {LAB}", directory)


if __name__ == "__main__":
    main()
