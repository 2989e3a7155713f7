"""Versions of Slurm, and what each of them refuses."""

from __future__ import annotations

import pytest

from slurmfab.base.errors import SlurmfabError
from slurmfab.cluster.slurm.versions import (
    DISTRIBUTION,
    SlurmVersion,
    adds_nodes_by_reconfigure,
    complaints,
    distribution_version,
)

V2205, V2302, V2311, V2411, V2511, V2605 = (
    SlurmVersion.parse(text) for text in ("22.05", "23.02", "23.11", "24.11", "25.11", "26.05")
)


def said_of(version: SlurmVersion, **slurm_conf: str | None) -> tuple[str, ...]:
    return complaints(version, slurm_conf, {}, (), ())


@pytest.mark.parametrize(
    ("text", "series"),
    [
        ("22.05.8", "22.05"),
        ("22.05.8-4+deb12u3", "22.05"),
        ("24.11.5-4+deb13u1", "24.11"),
        ("slurm 26.05.5", "26.05"),
        ("1:23.11.4-1.2ubuntu5", "23.11"),
    ],
)
def test_a_version_is_parsed_from_packages_and_answers(text: str, series: str) -> None:
    assert str(SlurmVersion.parse(text)) == series


def test_versions_are_ordered_by_year_and_month() -> None:
    assert V2205 < V2302 < V2311 < V2411 < V2511 < V2605


@pytest.mark.parametrize("text", ["21.08.5-2ubuntu1", "20.11.7+really20.11.4", "19.05"])
def test_an_older_slurm_is_refused_with_the_supported_range(text: str) -> None:
    with pytest.raises(SlurmfabError, match=r"too old: slurmfab supports 22\.05 to 26\.05"):
        SlurmVersion.parse(text)


@pytest.mark.parametrize("text", ["", "installed", "5", "124.11"])
def test_a_text_without_a_version_is_refused(text: str) -> None:
    with pytest.raises(SlurmfabError, match="not a Slurm version"):
        SlurmVersion.parse(text)


def test_a_newer_slurm_gets_the_rules_of_the_newest_known_but_may_have_keys_of_its_own() -> None:
    newer = SlurmVersion.parse("26.11.0")
    assert not newer.is_known
    assert said_of(newer, FrontendName="x") == (
        "slurm_conf.FrontendName: Slurm 26.11 no longer knows this key (removed in 25.05)",
    )
    assert said_of(newer, BrandNewKey="x") == ()


def test_a_key_from_a_later_version_is_refused_with_the_version_that_brought_it() -> None:
    assert said_of(V2205, HashPlugin="hash/sha3") == (
        "slurm_conf.HashPlugin: Slurm 22.05 does not know this key (added in 24.05)",
    )
    assert said_of(V2411, HashPlugin="hash/sha3") == ()


def test_a_key_that_is_gone_is_refused_with_the_version_that_dropped_it() -> None:
    assert said_of(V2205, SlurmctldPlugstack="x") == ()
    assert said_of(V2302, SlurmctldPlugstack="x") == (
        "slurm_conf.SlurmctldPlugstack: Slurm 23.02 no longer knows this key (removed in 23.02)",
    )


def test_a_key_without_effect_is_named() -> None:
    assert said_of(V2411, PowerPlugin="x") == (
        "slurm_conf.PowerPlugin: Slurm 24.11 ignores this key (since 24.05); remove it",
    )


def test_a_misspelt_key_is_answered_with_the_likely_one() -> None:
    assert said_of(V2411, SlurmdTimeot="300") == (
        "slurm_conf.SlurmdTimeot: no such key in Slurm 24.11; did you mean SlurmdTimeout?",
    )
    assert said_of(V2411, Zzz="1") == ("slurm_conf.Zzz: no such key in Slurm 24.11",)


def test_the_case_of_a_key_does_not_matter() -> None:
    assert said_of(V2411, slurmdtimeout="300", SLURMCTLDPORT="6817") == ()


def test_a_null_is_checked_for_its_spelling_only() -> None:
    assert said_of(V2205, HashPlugin=None) == ()
    assert len(said_of(V2205, HashPlugn=None)) == 1


def test_keys_of_node_lines_partition_lines_and_cgroup_conf_are_told_apart() -> None:
    said = complaints(V2205, {}, {"ConstrainCore": "yes"}, ("Gres", "Topology"), ("MaxCPUsPerSocket", "Nodes"))
    assert said == (
        "cgroup_conf.ConstrainCore: no such key in Slurm 22.05; did you mean ConstrainCores?",
        "nodes.Topology: Slurm 22.05 does not know this key (added in 25.05)",
        "partitions.MaxCPUsPerSocket: Slurm 22.05 does not know this key (added in 23.02)",
    )


@pytest.mark.parametrize(
    ("key", "value", "refused", "accepted"),
    [
        ("SelectType", "select/cons_res", V2311, V2302),
        ("TopologyPlugin", "topology/default", V2302, V2311),
        ("TopologyPlugin", "topology/flat", V2411, V2511),
        ("ProctrackType", "proctrack/cray_aries", V2411, V2311),
    ],
)
def test_a_value_is_refused_by_the_versions_that_cannot_use_it(
    key: str, value: str, refused: SlurmVersion, accepted: SlurmVersion
) -> None:
    (sentence,) = said_of(refused, **{key: value})
    assert sentence.startswith(f"slurm_conf.{key}: Slurm {refused} refuses {value}: ")
    assert said_of(accepted, **{key: value}) == ()


@pytest.mark.parametrize("key", ["FastSchedule", "AccountingStoreJobComment", "SallocDefaultCommand"])
def test_a_removed_key_that_slurm_still_parses_is_refused_in_every_version(key: str) -> None:
    assert all("refuses 1: it was removed" in said_of(version, **{key: "1"})[0] for version in (V2205, V2411, V2605))


def test_disabled_cgroups_are_refused_before_24_05() -> None:
    assert complaints(V2311, {}, {"CgroupPlugin": "disabled"}, (), ())
    assert not complaints(V2411, {}, {"CgroupPlugin": "disabled"}, (), ())


@pytest.mark.parametrize("codename", ["bookworm", "trixie", "forky", "sid", "noble", "resolute"])
def test_a_supported_release_is_known_before_slurm_is_installed(codename: str) -> None:
    assert str(distribution_version(codename)) == DISTRIBUTION[codename]


def test_a_release_with_an_older_slurm_is_refused() -> None:
    with pytest.raises(SlurmfabError, match=r"Slurm 21\.08 is too old"):
        distribution_version("jammy")


def test_an_unknown_release_is_refused_by_name() -> None:
    with pytest.raises(SlurmfabError, match="“sarge”"):
        distribution_version("sarge")


def test_reconfigure_differs_by_version() -> None:
    assert [adds_nodes_by_reconfigure(version) for version in (V2311, V2411)] == [False, True]
