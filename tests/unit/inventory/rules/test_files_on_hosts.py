"""What a cluster file may say of files of the site's own on hosts."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError


def refusals(more: str) -> str:
    """What is wrong with a cluster file of three hosts that also says this."""
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    return "\n".join(error.value.complaints)


@pytest.mark.parametrize(
    ("path", "values", "reason"),
    [
        ("etc/motd", "{text: x}", "is not an absolute path"),
        ("/etc/../motd", "{text: x}", "is not an absolute path"),
        ("/etc/motd", "{}", "it needs either source"),
        ("/etc/motd", "{text: x, source: y}", "it needs either source"),
        ("/etc/motd", "{text: x, mode: '4755'}", '"4755" is not a mode'),
        ("/etc/motd", "{text: x, mode: 999}", '"999" is not a mode'),
        ("/etc/motd", "{text: x, owner: 'a b'}", '"a b" is not the name of a user or group'),
        ("/etc/motd", "{text: x, hosts: n9}", '"n9" is no host of this cluster'),
        ("/etc/motd", "{text: x, roles: [workers]}", "files"),
        ("/etc/motd", "{text: x, restart: slurmd}", "slurmfab restarts slurmd itself"),
        ("/etc/motd", "{text: x, restart: 'a b'}", "is not the name of a systemd unit"),
        ("/etc/slurm/slurm.conf", "{text: x}", "go under slurm_files"),
        ("/etc/munge/munge.key", "{text: x}", "slurmfab manages the munge key"),
        ("/etc/sudoers.d/people", "{text: x}", "one mistake there keeps everybody from sudo"),
        ("/etc/pam.d/sshd", "{text: x}", "closes the host to everybody"),
        ("/etc/ssh/sshd_config", "{text: x}", "closes the host to everybody"),
        ("/etc/passwd", "{text: x}", "every host has users of its own there"),
        ("/etc/cron.d/slurmfab-x", "{text: x}", "names that begin with slurmfab"),
        ("/run/x", "{text: x}", "only the system has files there"),
        ("/var/lib/slurm/slurmctld/x", "{text: x}", "slurmctld has its state there"),
    ],
)
def test_files_that_make_no_sense_are_refused_with_the_line(path: str, values: str, reason: str) -> None:
    found = refusals(f"files: {{{path}: {values}}}")
    assert reason in found
    assert found.startswith("cluster.yaml:5: files")


@pytest.mark.parametrize(
    ("path", "mount", "reason"),
    [
        ("/sw/etc/x", "path: /sw", "/sw is mounted there (mounts)"),
        ("/sw", "path: /sw", "/sw is mounted there (mounts)"),
        ("/etc/systemd/system/sw.mount", "path: /sw", "slurmfab writes this unit itself for /sw"),
        ("/etc/systemd/system/sw.automount", "path: /sw", "slurmfab writes this unit itself for /sw"),
    ],
)
def test_a_file_on_a_mount_or_in_the_place_of_its_unit_is_refused_on_its_hosts(
    path: str, mount: str, reason: str
) -> None:
    mounts = f'mounts: [{{{mount}, source: "nas:/sw", type: nfs4, hosts: n1}}]'
    found = refusals(f"files: {{{path}: {{text: x}}}}\n{mounts}")
    assert reason in found
    assert found.startswith("cluster.yaml:5: files")
    cluster(f"{THREE_HOSTS}files: {{{path}: {{text: x, hosts: n2}}}}\n{mounts}\n")


def test_a_file_in_the_place_of_another_ones_directory_is_refused() -> None:
    assert "the path of its directory" in refusals("files: {/srv/a: {text: x}, /srv/a/b: {text: x}}")


@pytest.mark.parametrize(
    ("mode", "bits", "is_secret"), [("0644", 0o644, False), ("'0640'", 0o640, True), ("600", 0o600, True)]
)
def test_a_mode_is_octal_with_and_without_quotes(mode: str, bits: int, is_secret: bool) -> None:
    one = cluster(f"{THREE_HOSTS}files: {{/etc/motd: {{text: x, mode: {mode}}}}}\n").files["/etc/motd"]
    assert (one.bits, one.is_secret) == (bits, is_secret)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/sw/etc/x", "/sw is mounted there (exports)"),
        ("/etc/systemd/system/sw.mount", "slurmfab writes this unit itself for /sw (exports)"),
    ],
)
def test_a_file_on_a_mount_of_an_export_is_refused(path: str, words: str) -> None:
    exports = "exports: [{path: /srv/sw, host: n1, mount: /sw, to: controller}]"
    for hosts in ("c1", "n1"):
        assert words in refusals(f"files: {{{path}: {{text: x, hosts: {hosts}}}}}\n{exports}")
    cluster(f"{THREE_HOSTS}files: {{{path}: {{text: x, hosts: n2}}}}\n{exports}\n")
