"""The rendered files are those that were looked at, byte for byte.

`SLURMFAB_REGENERATE=1 pytest tests/golden/test_golden.py` writes them anew; look at what changed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from golden_cases import CASES, VERSIONS

from slurmfab.cluster.slurm.platform import DEBIAN_SMD
from slurmfab.cluster.slurm.render import render
from slurmfab.cluster.slurm.versions import SlurmVersion

HERE = Path(__file__).parent


@pytest.mark.parametrize("series", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_a_cluster_renders_to_its_golden_files(series: str, case: str) -> None:
    rendered = render(replace(CASES[case], version=VERSIONS[series]))
    place = HERE / series / case
    if os.environ.get("SLURMFAB_REGENERATE"):
        place.mkdir(parents=True, exist_ok=True)
        for path in place.iterdir():
            path.unlink()
        for name, text in rendered.items():
            (place / name).write_text(text)
    golden = {path.name: path.read_text() for path in place.iterdir()}
    assert sorted(rendered) == sorted(golden)
    for name, text in golden.items():
        assert rendered[name] == text, f"{place / name} differs"


@pytest.mark.parametrize("series", [one for one in VERSIONS if SlurmVersion.parse(one) >= DEBIAN_SMD.oldest])
@pytest.mark.parametrize("case", CASES)
def test_a_cluster_on_schedmds_packages_renders_to_the_golden_files_of_debians(series: str, case: str) -> None:
    rendered = render(replace(CASES[case], version=VERSIONS[series], platform=DEBIAN_SMD))
    assert rendered == {path.name: path.read_text() for path in (HERE / series / case).iterdir()}


def test_every_golden_directory_belongs_to_a_case() -> None:
    kept = {path.relative_to(HERE).as_posix() for path in HERE.glob("[0-9]*/*")}
    assert kept == {f"{series}/{case}" for series in VERSIONS for case in CASES}
