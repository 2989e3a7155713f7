"""What is in the wheel, as far as setup.cfg can get it wrong."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

from setuptools import find_packages

TOP = Path(__file__).parents[2]
TEMPLATES = TOP / "slurmfab/templates"
"""A link to templates/, since find: finds nothing elsewhere."""


def setup_cfg() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(TOP / "setup.cfg")
    return parser


def test_every_package_is_found() -> None:
    include = setup_cfg()["options.packages.find"]["include"].split()
    there = {".".join(path.parent.relative_to(TOP).parts) for path in (TOP / "slurmfab").rglob("*.py")}
    assert sorted(find_packages(str(TOP), include=include)) == sorted(there)


def test_every_other_file_is_package_data() -> None:
    data = setup_cfg()["options.package_data"]
    found = {
        path
        for package, patterns in data.items()
        for pattern in patterns.split(", ")
        for path in TOP.joinpath(*package.split(".")).glob(pattern)
    }
    files = (*(TOP / "slurmfab").rglob("*"), *TEMPLATES.glob("*"), *TEMPLATES.glob("*/*"))
    there = {path for path in files if path.is_file() and path.suffix not in {".py", ".pyc"}}
    assert found == there
    for pages in ("report", "guide"):
        assert {path.suffix for path in (TEMPLATES / pages).iterdir()} <= {".j2", ".css", ".js"}


def test_every_template_says_where_it_goes_and_who_watches_it() -> None:
    for path in TEMPLATES.glob("*.j2"):
        first = path.read_text().splitlines()[0]
        assert re.match(
            r"{#- /(etc|usr/local/lib/slurmfab)/\S+ on (every (host|controller|compute node)|the database's host)",
            first,
        ), path
        assert re.search(
            "watched by (slurm|mariadb|systemd|prometheus|sssd)|loaded by slurmfab-firewall.service|"
            "(slurm(ctld|d)|firewalld) reads it anew|"
            "(login shells|logins|podman and skopeo|enroot|srun and job steps) reads? it",
            first,
        ), path
