"""Amounts as Slurm writes them."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.client import amounts


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("30:00", 1800),
        ("02:00:00", 7200),
        ("1-0", 86400),
        ("1-12:30", 131400),
        ("2-01:27:11", 178031),
        ("UNLIMITED", None),
        ("NONE", None),
        ("", None),
        ("1:2:3:4", None),
        ("soon", None),
    ],
)
def test_a_time_is_read_in_each_form_that_slurm_takes(text: str, seconds: int | None) -> None:
    assert amounts.seconds_of(text) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00:00"), (1800, "00:30:00"), (178031, "2-01:27:11")])
def test_a_time_is_written_as_slurm_writes_it(seconds: int, text: str) -> None:
    assert amounts.clock(seconds) == text


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [
        ("2048", 2048), ("4G", 4096), ("1.5T", 1572864), ("512K", 0), ("8GB", 8192), ("8gib", 8192),
        ("UNLIMITED", None), ("-1", None),
    ],
)  # fmt: skip
def test_memory_is_read_in_mebibytes(text: str, mebibytes: int | None) -> None:
    assert amounts.mebibytes_of(text) == mebibytes


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("(null)", {}),
        ("", {}),
        ("gpu:4", {"gpu": 4}),
        ("gpu", {"gpu": 1}),
        ("gpu:a100", {"a100": 1}),
        ("gpu:a100:4(S:0-1),shard:8", {"a100": 4}),
        ("gpu:a100-sxm4-40gb:2(IDX:0-1),gpu:v100:1(IDX:2)", {"a100-sxm4-40gb": 2, "v100": 1}),
        ("gpu:a100:2(S:0,1),gpu:h100:2(S:0)", {"a100": 2, "h100": 2}),
        ("gpu:a100:0(IDX:N/A)", {}),
        ("gpu:0", {}),
        ("scratch:100G", {}),
        ("gres/gpu=4,gres/gpu:a100=4", {"a100": 4}),
        ("cpu=8,mem=1G,gres/gpu=2", {"gpu": 2}),
        ("gres:gpu:2", {"gpu": 2}),
        ("gres/gpu:a100:2", {"a100": 2}),
        ("mps:100,gpu_mem:10", {}),
    ],
)
def test_gpus_are_counted_by_type(text: str, gpus: dict[str, int]) -> None:
    assert amounts.gpus_of(text) == gpus
