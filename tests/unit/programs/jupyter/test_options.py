"""What users of the hub may ask for: within the limits, with a reason otherwise; none of their texts reaches Slurm."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from slurmfab.on_hosts.programs.jupyter import options
from slurmfab.on_hosts.programs.jupyter.options import Offer, Partition

OFFER = Offer(
    (
        Partition("batch", 7200, 8, 16384, {}, ()),
        Partition("gpu", 0, 0, 0, {"a100": 2, "": 1}, ("physics",)),
    ),
    ("physics", "<b>"),
    ("slurm",),
    (),
    (),
    (28000, 28999),
    3600,
    "0.0.0.0",
)
GOOD = {"partition": "batch", "time": "1:00:00", "cpus": "2", "memory": "4G", "gpus": "", "account": ""}


def test_answers_when_within_the_limits_then_are_sbatchs_options() -> None:
    assert options.checked(GOOD, OFFER).of_sbatch() == (
        "--partition=batch", "--time=01:00:00", "--nodes=1", "--ntasks=1", "--cpus-per-task=2", "--mem=4096M",
    )  # fmt: skip
    with_gpus = {**GOOD, "partition": "gpu", "gpus": "a100:2", "account": "physics"}
    assert options.checked(with_gpus, OFFER).of_sbatch()[-2:] == ("--gres=gpu:a100:2", "--account=physics")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"partition": "other"}, "no partition 'other' here; choose one of batch, gpu"),
        ({"partition": "batch --uid=0"}, "no partition"),
        ({"time": "3:00:00"}, "03:00:00 is more than the 02:00:00"),
        ({"time": "UNLIMITED"}, "not an amount such as 1:30:00"),
        ({"time": "0"}, "not an amount"),
        ({"cpus": "9"}, "CPUs: 9 is more than the 8"),
        ({"cpus": "2 --wrap=id"}, "not an amount"),
        ({"memory": "17G"}, "17408M is more than the 16384M"),
        ({"memory": "-1"}, "not an amount"),
        ({"gpus": "a100:1"}, "batch has no 'a100:1'; a job can have none"),
        ({"partition": "gpu", "gpus": "a100:3"}, "a job can have a100:1, a100:2, 1"),
        ({"partition": "gpu", "account": "<b>"}, "cannot have the account"),
        ({"account": "chemistry"}, "cannot have the account"),
        ({"partition": None}, "no partition"),
    ],
)
def test_answers_when_beyond_the_limits_then_are_refused_with_what_is_allowed(
    change: dict[str, str], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        options.checked({**GOOD, **change}, OFFER)


def test_the_form_names_every_field_and_quotes_what_it_shows() -> None:
    found: list[str] = []

    class Names(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend([tag, *(value or "" for key, value in attrs if key in ("name", "value"))])

    text = options.form(OFFER)
    Names().feed(text)
    assert set(options.FIELDS) <= set(found)
    assert {"a100:1", "a100:2", "01:00:00", "4096M", "<b>"} <= set(found)
    assert "b" not in found
    assert "No partition" in options.form(OFFER._replace(partitions=()))
    assert "batch (at most 8 CPUs, 16 GiB, for 02:00:00)" in text
