"""The keys prolog, epilog and health of a cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory.health import Health


def test_health_is_asked_for_by_true_or_a_mapping_and_not_by_default() -> None:
    assert cluster().health is None
    assert cluster(THREE_HOSTS + "health: false\n").health is None
    assert cluster(THREE_HOSTS + "health: true\n").health == Health()
    assert cluster(THREE_HOSTS + "health: {}\n").health == Health()


def test_health_says_what_is_looked_at_and_how_often() -> None:
    said = "health: {interval: 60, mounts: [/home, /scratch], disk: {/: 5%, /tmp: 2G}, clock: 0, daemons: [sssd]}\n"
    found = cluster(THREE_HOSTS + said).health
    assert found is not None
    assert (found.interval, found.mounts, found.disk) == (60, ("/home", "/scratch"), {"/": "5%", "/tmp": "2G"})
    assert (found.clock, found.daemons, found.memory, found.gpus) == (0, ("sssd",), True, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("health: {interval: 0}", "health.interval", id="no-interval"),
        pytest.param("health: {interval: 70000}", "health.interval", id="long-interval"),
        pytest.param("health: {mounts: [home]}", '"home" is not an absolute path', id="relative-path"),
        pytest.param("health: {mounts: ['/a b']}", '"/a b" is not an absolute path', id="path-with-a-space"),
        pytest.param("health: {disk: {/: 5}}", "health.disk", id="amount-without-unit"),
        pytest.param("health: {disk: {/: 200%}}", '"200%" is neither a percentage', id="too-much"),
        pytest.param("health: {daemons: ['a b']}", '"a b" is not the name of a systemd unit', id="no-unit"),
        pytest.param("health: {mount: [/home]}", "mount", id="unknown-key"),
        pytest.param("health: often", "health", id="a-word"),
        pytest.param("prolog: ''", "prolog", id="empty-directory"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{THREE_HOSTS}{text}\n")
    assert words in str(refused.value)
    assert f"cluster.yaml:{THREE_HOSTS.count(chr(10)) + 1}" in str(refused.value)


@pytest.mark.parametrize(
    ("key", "setting"),
    [
        ("prolog: prolog.d", "Prolog: /my/script"),
        ("epilog: epilog.d", "Epilog: /my/script"),
        ("health: true", "HealthCheckProgram: /usr/sbin/nhc"),
        ("health: {}", "HealthCheckInterval: 60"),
    ],
)
def test_slurm_is_told_one_thing_and_not_two(key: str, setting: str) -> None:
    with pytest.raises(ClusterFileError, match="remove one of the two"):
        cluster(f"{THREE_HOSTS}{key}\nslurm_conf: {{{setting}}}\n")
    cluster(f"{THREE_HOSTS}slurm_conf: {{{setting}}}\n")
