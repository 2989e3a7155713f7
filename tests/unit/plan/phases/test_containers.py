"""Containers: which hosts get what the ways of the cluster file need, and what UIDs are refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.base.paths import PYXIS_DROP_IN
from slurmfab.cluster.facts import Account
from slurmfab.cluster.inventory.slurm_files import SiteFile
from slurmfab.core.engine import notices
from slurmfab.core.plan.phases import apptainer, enroot, podman
from slurmfab.core.plan.phases import containers as phase
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import containers as preflight
from slurmfab.on_hosts.agent.files.apparmor_profiles import AppArmorProfiles
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.people.subordinate_ids import SubordinateIds
from slurmfab.on_hosts.agent.people.user_directories import UserDirectories

HOSTS = "login: [l1]\ndatabase: d1\n"
PODMAN = "containers: [podman]\nusers: [{name: ann}]\n"


def wanted(more: str, **facts: object) -> PlanInput:
    return prepared_input(THREE_HOSTS + HOSTS + more, **facts)


@pytest.mark.parametrize(("host", "has_it"), [("c1", True), ("n1", True), ("l1", True), ("d1", False)])
def test_hosts_on_which_people_or_jobs_work_get_podman(host: str, has_it: bool) -> None:
    assert ("podman" in phase.packages(wanted(PODMAN), host)) == has_it
    assert bool(phase.resources(wanted(PODMAN), host)) == has_it
    assert phase.packages(wanted(""), host) == ()


def test_users_of_a_directory_service_have_their_subordinate_ids_from_there() -> None:
    found = {one.id: one for one in phase.of_users(wanted(PODMAN + "unix_users: false\n"), "n1")}
    assert found["subordinate-ids:containers"] == SubordinateIds((("slurm", 64030 * 65536),))
    assert found["user-directories:/var/lib/podman-users"] == UserDirectories("/var/lib/podman-users", ("slurm",))


def test_images_without_pruning_have_no_timer_and_lose_a_former_one() -> None:
    text = "containers: {use: [podman], podman: {prune: false}}\nusers: [{name: ann}]\n"
    there = {one.id for one in phase.resources(wanted(text, services={"slurmfab-containers.timer": "active"}), "n1")}
    assert "service:slurmfab-containers.timer" in there
    assert "timer:slurmfab-containers" not in there


def test_a_uid_that_hosts_have_and_that_has_no_subordinate_ids_is_refused() -> None:
    account = {"accounts": {"ann": Account(70000, 70000, "/home/ann", "/bin/sh")}, "groups": {"ann": 70000}}
    with pytest.raises(InputError, match="ann: UID 70000 has no range of subordinate IDs"):
        preflight.refuse_unfit(wanted(PODMAN, **account))
    preflight.refuse_unfit(wanted("users: [{name: ann}]\n", **account))
    preflight.refuse_unfit(wanted(PODMAN))


SITE = "packages: {all: [enroot, nvslurm-plugin-pyxis, apptainer]}\n"
ENROOT = f"containers: [enroot]\n{SITE}"


def files_of(found: PlanInput, host: str, way: str) -> dict[str, str]:
    """Path and text of the files that a host has for a way."""
    (owned,) = (one for one in phase.resources(found, host) if isinstance(one, OwnedFiles) and one.of == way)
    return {path: text for path, text, *_ in owned.files}


CRUN, STARTER = "/usr/bin/crun", "/usr/lib/x86_64-linux-gnu/apptainer/bin/starter"
PODMANS, NSENTER, PLACED = ("/usr/bin/podman", CRUN), "/usr/bin/enroot-nsenter", "/usr/libexec/apptainer/bin/starter"
APPTAINER = "containers: [apptainer]\n" + SITE
OWNED = {"owned": ("apparmor",)}


def allowing(*programs: str) -> dict[str, str]:
    """AppArmor's profiles that let these make user namespaces."""
    return {f"own.{Path(one).name}": f"{one} flags=(unconfined) {{\n  userns,\n}}\n" for one in programs}


@pytest.mark.parametrize(
    ("more", "programs", "facts", "allowed"),
    [
        (PODMAN, (), {}, None),  # AppArmor denies nobody namespaces
        (PODMAN, PODMANS, {"apparmor_profiles": allowing(*PODMANS)}, None),  # as Ubuntu's package apparmor has it
        (PODMAN, PODMANS, {"apparmor_profiles": allowing(CRUN)}, ["/usr/bin/podman"]),  # as Debian's has it
        (APPTAINER, (*PODMANS, STARTER), {"apparmor_profiles": allowing(*PODMANS)}, [STARTER]),  # as the release's
        (APPTAINER, (PLACED,), {"apparmor_profiles": allowing(PLACED)}, None),  # as the package of its authors has it
        ("containers: [oci]\n", PODMANS, {"apparmor_profiles": allowing(CRUN)}, None),
        ("containers: [oci]\n", (CRUN,), {}, [CRUN]),
        (ENROOT, (NSENTER,), {}, [NSENTER]),
        (ENROOT, (NSENTER,), {"apparmor_profiles": allowing(NSENTER), **OWNED}, []),  # a newer package brings one
        ("", PODMANS, {}, None),  # nobody asks for containers
        ("", PODMANS, OWNED, []),  # nobody does any more
        ("containers: {use: [docker], docker: {users: [ann]}}\nusers: [{name: ann}]\n", PODMANS, {}, None),
    ],
)
def test_programs_of_a_way_to_which_apparmor_denies_user_namespaces_get_a_profile(
    more: str, programs: tuple[str, ...], facts: dict[str, object], allowed: list[str] | None
) -> None:
    found = wanted(more, namespace_programs=programs, **facts)
    preflight.refuse_profiles_without_namespaces(found)
    profiles = [one for one in phase.resources(found, "n1") if isinstance(one, AppArmorProfiles)]
    texts = [text for one in profiles for _, text, *_ in one.files]
    assert [text.split(" flags=")[0].rpartition(" ")[2] for text in texts] == (allowed or [])
    assert all("kernel.apparmor_restrict_unprivileged_userns" in text and "\n  userns,\n" in text for text in texts)
    assert bool(profiles) == (allowed is not None)
    told = dict(notices.added_profiles(found)).get("n1", "")
    assert [word.strip(";") for word in told.split() if word.startswith("/")] == (allowed or [])
    assert not told or "kernel.apparmor_restrict_unprivileged_userns is 1" in told
    assert not any(isinstance(one, AppArmorProfiles) and one.files for one in phase.resources(found, "d1"))


def test_a_profile_of_somebody_else_without_the_rule_is_refused_with_its_file_and_the_sysctl() -> None:
    placeholder = {"apptainer": f"abi <abi/3.0>,\nprofile apptainer {PLACED}{{,-suid}} flags=(unconfined) {{\n}}\n"}
    there = {"namespace_programs": (PLACED,), "apparmor_profiles": placeholder}
    with pytest.raises(InputError) as refused:
        preflight.refuse_unfit(wanted(APPTAINER, **there))
    for word in ("c1,l1,n[1-2]: ", "kernel.apparmor_restrict_unprivileged_userns", "/etc/apparmor.d/apptainer", PLACED):
        assert word in str(refused.value)
    preflight.refuse_unfit(wanted(PODMAN, **there))


def test_enroot_and_pyxis_have_settings_hooks_and_one_line_that_loads_pyxis() -> None:
    node, controller = (files_of(wanted(ENROOT), host, "enroot") for host in ("n1", "c1"))
    assert node[PYXIS_DROP_IN].endswith("\ninclude /usr/share/pyxis/pyxis.conf\n")
    assert "ENROOT_MOUNT_HOME no" in node[enroot.SETTINGS]
    assert node[enroot.TMPFILES].endswith("d /run/pyxis 0755 root root -\n")
    assert set(node) - set(controller) == {enroot.TMPFILES}
    assert sum("/usr/share/enroot/hooks.d/50-slurm-" in text for text in controller.values()) == 2


def test_pyxis_is_looked_at_before_slurm_is_to_load_it() -> None:
    kinds = [one.kind for one in phase.resources(wanted(ENROOT), "n1")]
    assert kinds.index("spank-plugin") < kinds.index("owned-files")


@pytest.mark.parametrize(
    ("codename", "more", "has_it"),
    [("sid", "", True), ("forky", "", True), ("trixie", SITE, False), ("bookworm", SITE, False)],
)
def test_apptainer_comes_from_the_release_or_from_the_site(codename: str, more: str, has_it: bool) -> None:
    found = wanted(f"containers: [apptainer]\n{more}", codename=codename)
    assert ("apptainer" in phase.packages(found, "n1")) == has_it
    preflight.refuse_unfit(found)
    assert "/var/lib/apptainer-users/$(id -u)" in files_of(found, "l1", "apptainer")[apptainer.PROFILE]


def test_a_release_without_apptainer_is_refused_where_the_site_has_none() -> None:
    with pytest.raises(InputError, match=r"c1,l1,n\[1-2\]: containers: it has a release \(trixie\) without Apptainer"):
        preflight.refuse_unfit(wanted("containers: [apptainer]\n"))


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("plugstack.conf.d/x.conf", "#\nrequired /opt/spank_pyxis.so a=b # ours", "loads pyxis, as slurmfab does"),
        ("plugstack.conf", "required other.so\n", "lacks the line `include"),
        ("plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf\noptional spank_pyxis.so\n", "loads pyxis"),
        ("plugstack.conf", "include /etc/slurm/plugstack.conf.d/*.conf # all\noptional other.so\n", ""),
        ("plugstack.conf.d/x.conf", "# required spank_pyxis.so\n", ""),
        ("prolog.sh", "# spank_pyxis.so\n", ""),
        ("prolog.sh", "test -e spank_pyxis.so\n", ""),
    ],
)
def test_files_of_the_site_that_load_pyxis_twice_or_never_are_refused(name: str, text: str, reason: str) -> None:
    found = dataclasses.replace(wanted(ENROOT), slurm_files=(SiteFile(name, text),))
    if not reason:
        preflight.refuse_unfit(found)
        return
    with pytest.raises(InputError, match=reason):
        preflight.refuse_unfit(found)


@pytest.mark.parametrize(("host", "has_jobs"), [("n1", True), ("l1", False)])
def test_files_of_podman_say_where_images_are_and_that_the_limits_of_a_job_hold(host: str, has_jobs: bool) -> None:
    texts = {
        one.path: one.text for one in podman.files(wanted(PODMAN + "scratch: {size: 1G, variable: JOBDIR}\n"), host)
    }
    assert 'rootless_storage_path = "/var/lib/podman-users/$UID"\n' in texts[podman.STORAGE_CONF]
    assert 'cgroups = "disabled"\n' in texts[podman.CONTAINERS_CONF]
    assert texts["/usr/local/bin/sdocker"].endswith('/podman/run.py docker /etc/slurmfab-podman.json "$@"\n')
    settings = {"above": 0, "former": [], "scratch": "JOBDIR", "storage": "/var/lib/podman-users", "unused_for": 30}
    assert json.loads(texts["/etc/slurmfab-podman.json"]) == settings
    assert ("/etc/systemd/system/slurmfab-runtime@.service" in texts) == has_jobs
    assert "OnCalendar=daily\n" in texts["/etc/systemd/system/slurmfab-containers.timer"]


def test_settings_name_the_users_who_left_so_that_their_images_go() -> None:
    before = wanted(PODMAN)
    after = dataclasses.replace(before, cluster=cluster(f"{THREE_HOSTS}{HOSTS}containers: [podman]\n"))
    assert json.loads(podman.settings(after, podman.options(after)))["former"] == [before.lock.ids["ann.uid"]]


def test_settings_say_which_images_go_and_where_jobs_have_room() -> None:
    def told(more: str) -> tuple[object, ...]:
        found = wanted(more)
        values = json.loads(podman.settings(found, podman.options(found)))
        return values["unused_for"], values["above"], values["scratch"]

    usual = told(PODMAN)
    assert (usual[0] > 0, usual[1:]) == (True, (0, ""))
    never = "containers: {use: [podman], podman: {prune: false}}\n"
    assert told(never) == (0, 0, "")
    above = "containers: {use: [podman], podman: {prune: {above: 80%}}}\nscratch: {size: 1G, variable: JOBDIR}\n"
    assert told(above)[1:] == (80, "JOBDIR")


@pytest.mark.parametrize(
    ("services", "ends"), [({}, False), ({"slurmfab-containers.timer": "active"}, True), ({"other.timer": "x"}, False)]
)
def test_a_timer_that_a_host_has_ends(services: dict[str, str], ends: bool) -> None:
    found = podman.timer_gone(wanted(PODMAN, services=services), "n1")
    assert [vars(one)["running"] for one in found] == ([False] if ends else [])
    assert podman.timer_gone(wanted(PODMAN, services=services), "elsewhere") == ()


@pytest.mark.parametrize(
    ("host", "more", "has_mount"),
    [("n1", "scratch: {size: 1G}\n", True), ("l1", "scratch: {size: 1G}\n", False), ("n1", "", False)],
)
def test_containers_of_enroot_see_the_directories_of_jobs_where_there_are_some(
    host: str, more: str, has_mount: bool
) -> None:
    told = files_of(wanted(ENROOT + more), host, "enroot")
    line = "/scratch /scratch none x-create=dir,rbind,rw,nosuid,nodev,nofail,silent\n"
    assert told.get(enroot.MOUNTS, "").endswith(line) is has_mount
    assert (enroot.MOUNTS in told) is has_mount


@pytest.mark.parametrize(("host", "has_directory"), [("n1", True), ("c1", False)])
def test_users_have_directories_for_enroot_and_jobs_those_of_pyxis(host: str, has_directory: bool) -> None:
    users = "users: [{name: bob}, {name: ann}]\n"
    found = [one.id for one in enroot.resources(wanted(ENROOT + users), host)]
    assert ("directory:/run/pyxis" in found) is has_directory
    (people,) = (one for one in enroot.resources(wanted(ENROOT + users), host) if isinstance(one, UserDirectories))
    assert people.users == ("ann", "bob")
    others = enroot.resources(wanted(f"{ENROOT}{users}unix_users: false\n"), host)
    assert [one.users for one in others if isinstance(one, UserDirectories)] == [()]
    assert enroot.resources(wanted(PODMAN), host) == ()
    assert [one.id for one in enroot.resources(wanted(PODMAN, owned=("enroot",)), host)] == ["owned-files:enroot"]


@pytest.mark.parametrize(
    ("text", "owned", "there"),
    [
        (PODMAN, (), True),
        ("", (), False),
        ("", ("subordinate-ids",), True),
        ("", ("podman",), False),
    ],
)
def test_subordinate_ids_come_with_podman_and_go_where_a_host_has_some(
    text: str, owned: tuple[str, ...], there: bool
) -> None:
    found = podman.subordinate(wanted(text, owned=owned), "n1")
    assert bool(found) is there
    assert all(bool(vars(one)["ranges"]) is bool(text) for one in found)
    assert podman.subordinate(wanted("", owned=owned), "elsewhere") == ()


@pytest.mark.parametrize(("kind", "host", "has_one"), [("prolog", "n1", True), ("epilog", "n1", False)])
def test_the_script_of_podman_runs_before_jobs_alone(kind: str, host: str, has_one: bool) -> None:
    found = podman.script(wanted(PODMAN), host, kind)
    assert [name for name, _ in found] == ["10-slurmfab-containers"] * has_one
    assert all("mkdir /var/lib/podman-users/" in text for _, text in found)
    assert podman.script(wanted(""), host, kind) == ()
