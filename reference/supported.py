"""What is supported: which systems the tests deployed to, and for which they only compare rendered files.

The tables come from tests/lab/deployed.json, which `make supported` writes while tests deploy, from
tests/lab/tried.json, which `make tried` writes, from the golden files of tests/golden, and from the tables of releases
in the code.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from reference.markdown import table, text_of
from slurmfab.cluster.slurm.versions import DISTRIBUTION, NEWEST, OLDEST
from slurmfab.lab.ubuntu_like import LIKES

REPOSITORY = Path(__file__).parents[1]
RECORD = REPOSITORY / "tests" / "lab" / "deployed.json"
TRIED = RECORD.with_name("tried.json")
FOLLOWED = RECORD.with_name("followed.json")
GOLDEN = REPOSITORY / "tests" / "golden"
README = REPOSITORY / "README.md"

RELEASES: Mapping[str, str] = {
    "focal": "Ubuntu 20.04",
    "bullseye": "Debian 11",
    "jammy": "Ubuntu 22.04",
    "bookworm": "Debian 12",
    "noble": "Ubuntu 24.04",
    "plucky": "Ubuntu 25.04",
    "trixie": "Debian 13",
    "questing": "Ubuntu 25.10",
    "resolute": "Ubuntu 26.04",
    "forky": "Debian testing",
    "sid": "Debian unstable",
}
"""What people call a release, by its codename."""

LIKE: Mapping[str, str] = {
    name: f"look-alike of {name.replace('ubuntu-', 'Ubuntu ')} ({RELEASES[like.suite]})" for name, like in LIKES.items()
}
"""The same of the lab's look-alikes of Ubuntu, by their names."""

PACKAGES: Mapping[str, str] = {
    "debian": "the release's own",
    "debian-smd": "SchedMD's names (a stand-in)",
}
"""Kinds of packages. The lab packs the distribution's programs anew under SchedMD's names: no proof of theirs."""

EL = (
    "[RHEL, Rocky Linux, AlmaLinux and their like](enterprise-linux.md), 9 and 10, with packages of Slurm like "
    "SchedMD's, EPEL's and OpenHPC's: **never deployed to a real one; tried on a stand-in with real rpm and dnf** "
    "([test_el.py](../tests/lab/test_el.py)): a deployment, its checks and jobs, a node that joins, a dnf that was "
    "killed, an upgrade with jobs at work, and a cluster that was made by hand and imported; and compute nodes of it "
    "under a controller of Debian ([test_mixed.py](../tests/lab/test_mixed.py)). Much is refused there."
)
RENDERED = "rendered and compared"
REFUSED = "refused"


@dataclass(frozen=True)
class Row:
    """What the tests did with a release.

    Args:
        codename: of the release, or the name of a look-alike.
        slurm: series of its Slurm.
        tests: what the tests did, as text.
        packages: kind of packages; empty where nothing was deployed.
        architecture: Debian's name for it; empty where nothing was deployed.
        python: its series; empty where nothing was deployed.
    """

    codename: str
    slurm: str
    tests: str
    packages: str = ""
    architecture: str = ""
    python: str = ""

    @property
    def release(self) -> str:
        """The release as people call it, with its codename."""
        return LIKE.get(self.codename) or f"{RELEASES[self.codename]} ({self.codename})"

    @property
    def base(self) -> str:
        """The codename of the release whose packages it has."""
        return LIKES[self.codename].suite if self.codename in LIKES else self.codename


def rows() -> tuple[Row, ...]:
    """What the tests did with each release: first the deployed ones, then the rendered ones, then the refused ones."""
    recorded = [_deployed(one) for one in json.loads(RECORD.read_text())]
    found = {row.codename for row in recorded}
    others = [
        Row(name, slurm, RENDERED if _is_rendered(slurm) else REFUSED)
        for name, slurm in DISTRIBUTION.items()
        if name not in found
    ]
    order = tuple(DISTRIBUTION)
    groups = (RENDERED, REFUSED)

    def place(row: Row) -> tuple[int, str, int, str]:
        """Where the row is in the table."""
        group = groups.index(row.tests) + 1 if row.tests in groups else 0
        return group, row.packages, order.index(row.base) + len(order) * (row.codename in LIKES), row.slurm

    return tuple(sorted((*recorded, *others), key=place))


def _deployed(one: Mapping[str, str]) -> Row:
    """The row of an entry of the record."""
    file = one["test"].rpartition("/")[2]
    tests = f"deployed: [{file}](../{one['test']})" if file else "deployed: all tests on hosts"
    return Row(one["suite"], one["slurm"], tests, one["packages"], one["architecture"], one["python"])


def _is_rendered(slurm: str) -> bool:
    """Whether golden files are compared for a series of Slurm; all others are too old."""
    return (GOLDEN / slurm).is_dir()


def page() -> str:
    """The text of docs/supported.md."""
    return text_of(lines())


def lines() -> Iterator[str]:
    """Yield the lines of docs/supported.md."""
    yield from ("# What is supported", "")
    yield from _wrapped(
        f"slurmfab supports Slurm {OLDEST} to {NEWEST}, with the packages of Debian and Ubuntu. Not all of it has been "
        "tried alike. `make reference` writes this page from what the tests did: `make supported` deploys to hosts of "
        "[the lab](lab.md), asks them what they are, and writes [the record](../tests/lab/deployed.json). In CI, a run "
        "fails that deploys to something that the record lacks, or if the record has something that no test deploys to."
    )
    heads = ("release", "Slurm", "packages", "architecture", "Python", "what the tests do")
    yield from (*table(heads, map(_cells, rows())), "")
    yield from _wrapped(
        "- **Deployed**: tests deploy to hosts with systemd, sshd and apt of that release, with the real Slurm, and "
        "run its checks and jobs; some tests take turns on Debian 12 and 13. Python is the one that runs slurmfab's "
        "agent there; on the stand-in for Enterprise Linux that is 3.9, the oldest one that the agent is written for.",
        f"- **{RENDERED.capitalize()}**: the files for that Slurm are written and compared with kept ones, and keys "
        "that it does not have are refused. No test has deployed to that release.",
        "- **Packages**: a release's own; those of a newer release, which [a source in the cluster file](packages.md) "
        "names; or the distribution's programs under the names and paths of SchedMD's packages, as a stand-in.",
        "- **Like Ubuntu**: Debian with those [habits of Ubuntu](lab.md#the-look-alikes-of-ubuntu) that concern "
        "slurmfab, all at once: cloud-init, netplan, rsyslog, sudo-rs and more; no package of Ubuntu's.",
        "- **Refused**: its Slurm is older than slurmfab supports. A host with that release is left out of a run, with "
        "the reason.",
    )
    yield from (
        "## Enterprise Linux",
        "",
        *_wrapped(EL),
        *_deployers(),
        *_followed(),
        *_ubuntu(),
        *_architectures(),
        "## Files by version of Slurm",
        "",
    )
    yield from _wrapped(
        "The files of these versions are compared with kept ones. Those of some are read by the real Slurm as well: "
        "slurmctld starts with them, slurmd reads its devices, and the keys that it knows are those of slurmfab's "
        "tables."
    )
    yield from (*table(("Slurm", "its files are read by the Slurm of"), _files()), "")
    yield from _OWN


def _wrapped(*texts: str) -> Iterator[str]:
    """Yield the lines of a paragraph, or of items of one list, and an empty line."""
    for text in texts:
        indent = "  " if text.startswith("- ") else ""
        yield from textwrap.wrap(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    yield ""


def _cells(row: Row) -> tuple[str, ...]:
    """The cells of a row of the page's table."""
    return row.release, row.slurm, _packages(row), row.architecture, row.python, row.tests


def _packages(row: Row) -> str:
    """Whose packages a row is about; empty where nothing was deployed."""
    if row.packages == "debian" and DISTRIBUTION[row.base] != row.slurm:
        return "of a newer release"
    return PACKAGES.get(row.packages, "")


def _deployers() -> Iterator[str]:
    """Yield the part about machines that deploy and have the hosts of labs."""
    yield from ("## The machine that deploys, and has the lab", "")
    yield from _wrapped(
        "slurmfab itself runs wherever Python 3.10 or newer does. The lab needs Debian or Ubuntu, and root. "
        "`make tried` plays both commands of the README twice, `make demo` and `make test`, and writes [a record of "
        "that](../tests/lab/tried.json):"
    )
    heads = ("release", "architecture", "root file system", "systemd-nspawn", "Python", "`make demo`", "`make test`")
    yield from (*table(heads, map(_deployer, json.loads(TRIED.read_text()))), "")
    yield from _wrapped(
        "The number is how often the command has passed in a row. A root file system `overlayfs` is that of a "
        "container. In each run of all tests, the systemd-nspawn of Debian 13 starts a lab too, whatever the machine "
        "has, and by turns that of Debian unstable, which needs a machine with control groups of version 2. Nothing "
        "was tried on Ubuntu."
    )


def _deployer(one: Mapping[str, str | int]) -> tuple[str, ...]:
    """The cells of a machine."""
    release = str(one["release"])
    passed = (f"passed {one[kind]} times" if one[kind] else "not tried" for kind in ("demo", "test"))
    return (RELEASES.get(release, release), *(str(one[name]) for name in _OF_DEPLOYERS), *passed)


_OF_DEPLOYERS = ("architecture", "root", "systemd", "python")


PAGES: Mapping[str, tuple[str, str]] = {
    "README.md": (
        "[README](../README.md)",
        "`apt`, `git clone`, `make demo` and `make demo-down` twice; `make wheel`, `pipx install`, `slurmfab --list`",
    ),
    "docs/tutorial.md": ("[the tutorial](tutorial.md)", "all commands, from `apt` to `lab-down`; all that it shows"),
}
"""Pages that a test types on new machines: how they are linked, and what of them is typed and compared."""


def _followed() -> Iterator[str]:
    """Yield the part about pages that were typed on new machines."""
    yield from ("## New machines", "")
    yield from _wrapped(
        "[test_clean_machines.py](../tests/lab/test_clean_machines.py) acts as a new user: on a machine with a plain "
        "Debian, without git, make and Python, it types what these pages say, in their order and nothing else, and "
        "compares what they show as printed. The machine is a host of the lab, in which the labs of the pages run. "
        "`make tried` puts what has passed into [a record](../tests/lab/followed.json); each run of all tests types "
        "the README's demo once. `make test-ubuntu` has the user `ubuntu` type the README's commands and "
        "`make test-fast` on [look-alikes of Ubuntu](lab.md#the-look-alikes-of-ubuntu), with sudo where they need "
        "root; only what the table names has passed there."
    )
    record: Mapping[str, list[str]] = json.loads(FOLLOWED.read_text())
    names = {**RELEASES, **{name: f"a {text}" for name, text in LIKE.items()}}
    suites = [suite for suite in names if any(suite in found for found in record.values())]
    heads = ("page", "what is typed and compared", *(f"on {names[suite]}" for suite in suites))
    yield from table(
        heads,
        (
            (*PAGES[page], *("passed" if suite in found else "not tried" for suite in suites))
            for page, found in record.items()
        ),
    )
    yield ""


def _ubuntu() -> Iterator[str]:
    """Yield the paragraph about Ubuntu, if it was never deployed to."""
    if not any(
        row.tests not in (RENDERED, REFUSED) for row in rows() if RELEASES.get(row.codename, "").startswith("Ubuntu")
    ):
        yield from ("## Ubuntu", "")
        yield from _wrapped(
            "**The tests have never deployed to Ubuntu**, since no source of Ubuntu's packages was at hand where they "
            "run. Ubuntu has the same packages, paths and units as Debian, at other versions, and habits of its own; "
            "those the tests meet on [look-alikes](lab.md#the-look-alikes-of-ubuntu). So a deployment is expected to "
            "work, but this is a judgement and not a result."
        )


def _architectures() -> Iterator[str]:
    """Yield the paragraph about architectures."""
    known = sorted({row.architecture for row in rows()} - {""})
    others = [name for name in ("amd64", "arm64") if name not in known]
    if others:
        yield from ("## Architectures", "")
        yield from _wrapped(
            f"The tests have deployed to {' and '.join(known)} alone. Few places depend on the architecture: Slurm's "
            "plugin directory, which has its name in the path, and [bundles](offline.md), which hold packages of one "
            f"architecture. Nothing was run on {' and '.join(others)}."
        )


def _files() -> Iterator[tuple[str, str]]:
    """Yield a row per version of Slurm whose files are kept."""
    readers = _read_by()
    for directory in sorted(GOLDEN.glob("[0-9]*.[0-9]*")):
        suites = [RELEASES[suite] for suite, series in readers.items() if series == directory.name]
        yield directory.name, ", ".join(suites) or "none: compared alone"


def _read_by() -> Mapping[str, str]:
    """`READ_BY` of tests/golden/golden_cases.py, which is no part of the package."""
    for statement in ast.parse((GOLDEN / "golden_cases.py").read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "READ_BY":
            found: Mapping[str, str] = ast.literal_eval(statement.value)
            return found
    raise ValueError("tests/golden/golden_cases.py has no READ_BY")


_OWN = (
    "## Another machine",
    "",
    "`SUITES` names the suites on which the lab's tests are played. On a machine with sources of Ubuntu's packages:",
    "",
    "    SUITES=noble make test        # the tests on hosts, on Ubuntu 24.04",
    "    SUITES=noble make supported   # deploys once, puts that into the record, and renews this page and the README",
    "",
    "[The lab](lab.md#ubuntu) says where the packages come from, and how another machine names a mirror of Ubuntu.",
)

HEADING = "## What is supported"
"""Heading of the README's section that is written here."""


def readme() -> str:
    """The README with its section about what is supported."""
    text = README.read_text()
    found = re.search(rf"^{HEADING}\n.*?(?=^## )", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"README.md has no section “{HEADING}”")
    return f"{text[: found.start()]}{text_of(_section())}\n{text[found.end() :]}"


def _section() -> Iterator[str]:
    """Yield the lines of the README's section."""
    groups: dict[str, list[Row]] = {}
    for row in rows():
        groups.setdefault(_short(row), []).append(row)
    yield from (
        HEADING,
        "",
        *table(
            ("release", "Slurm", "what the tests do"),
            ((_releases(of), _series(of), what) for what, of in groups.items()),
        ),
        "",
    )
    if any("Ubuntu" in RELEASES.get(row.codename, "") for row in groups.get(_RENDERED_ALONE, ())):
        yield from _wrapped(
            "The tests have never deployed to Ubuntu, since no source of its packages was at hand where they run, but "
            "to [look-alikes](docs/lab.md#the-look-alikes-of-ubuntu): Debian with Ubuntu's habits. A lab on Ubuntu is "
            "[one variable away](docs/lab.md#ubuntu)."
        )
    yield from _wrapped(EL.replace("](", "](docs/").replace("docs/../", ""))
    yield "[What is supported](docs/supported.md) has the whole table, which is made from what the tests ran."


_RENDERED_ALONE = "files rendered and compared; never deployed to"


def _short(row: Row) -> str:
    """What the tests did, in few words."""
    if row.tests == RENDERED:
        return _RENDERED_ALONE
    if row.tests == REFUSED:
        return f"refused: older than Slurm {OLDEST}"
    scope = "all tests on hosts" if "all tests" in row.tests else "a deployment, its checks and jobs"
    whose = _packages(row)
    return f"{scope}, {row.architecture}{'' if whose == PACKAGES['debian'] else f'; packages: {whose}'}"


def _releases(of: list[Row]) -> str:
    """The releases of rows, each once."""
    return ", ".join(dict.fromkeys(LIKE.get(row.codename) or RELEASES[row.codename] for row in of))


def _series(of: list[Row]) -> str:
    """The Slurm series of rows, each once, oldest first."""
    return ", ".join(sorted({row.slurm for row in of}))
