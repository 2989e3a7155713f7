"""What is in the wheel, as far as setup.cfg can get it wrong."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

TOP = Path(__file__).parents[2]


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(TOP / "setup.cfg")
    return parser


def test_every_package_is_listed() -> None:
    listed = set(setup_cfg()["options"]["packages"].split())
    there = {".".join(path.parent.relative_to(TOP).parts) for path in (TOP / "slurmfab").rglob("*.py")}
    assert listed == there | {"slurmfab.templates"}


def test_the_templates_are_package_data() -> None:
    assert setup_cfg()["options"]["package_dir"].strip() == "slurmfab.templates = templates"
    assert setup_cfg()["options.package_data"]["slurmfab.templates"] == "*.j2, report/*, guide/*"
    assert {path.suffix for path in (TOP / "templates").iterdir() if path.is_file()} == {".j2"}
    for pages in ("report", "guide"):
        assert {path.suffix for path in (TOP / "templates" / pages).iterdir()} <= {".j2", ".css", ".js"}


def test_every_template_says_where_it_goes_and_who_watches_it() -> None:
    for path in (TOP / "templates").glob("*.j2"):
        first = path.read_text().splitlines()[0]
        assert re.match(
            r"{#- /(etc|usr/local/lib/slurmfab)/\S+ on (every (host|controller|compute node)|the database's host)",
            first,
        ), path
        assert re.search(
            "watched by (slurm|mariadb|systemd|prometheus)|slurm(ctld|d) reads it anew|"
            "(login shells|podman and skopeo|enroot|srun and job steps) reads? it",
            first,
        ), path
