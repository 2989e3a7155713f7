"""slurmrestd: what its host gets, which hosts have the key of its tokens, and what is taken back."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.errors import ClusterFileError
from slurmfab.base.paths import JWT_KEY
from slurmfab.core.plan.phases import daemons, packages, rest
from slurmfab.core.plan.phases.database import slurmdbd_conf
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.services.service import Service

KEY = "a2V5"
REST = "rest: c1\n"
DATABASE = "database: d1\naddresses: {c1: 10.0.0.1, n1: 10.0.0.2, n2: 10.0.0.3, d1: 10.0.0.4}\n"


def wanted(more: str, **facts: Any) -> PlanInput:
    head = THREE_HOSTS if "addresses" not in more else re.sub(r"addresses: .*\n", "", THREE_HOSTS)
    whole = cluster(head + more)
    known = facts_of(whole, prepared, **facts)
    known["c1"] = dataclasses.replace(known["c1"], jwt_key=KEY if more else "")
    return plan_input(whole, known)


def test_the_key_is_the_controllers_and_goes_to_slurmdbd_alone() -> None:
    known = wanted(REST + DATABASE)
    assert MungeKey(JWT_KEY, "slurm") in rest.key(known, "c1")
    assert rest.key(known, "d1") == rest.keys(known, "c1") == rest.keys(known, "n1") == ()
    (copy,) = (one for one in rest.keys(known, "d1") if isinstance(one, File))
    assert (copy.path, copy.content, copy.mode, copy.secret) == (JWT_KEY, KEY, 0o400, True)
    assert KEY not in repr(known.facts["c1"])


def test_slurmctld_and_slurmdbd_are_older_than_a_new_key() -> None:
    (service,) = daemons.controller_service(wanted(REST), "c1")
    assert isinstance(service, Service)
    assert JWT_KEY in service.watches
    assert rest.watched(wanted(REST + DATABASE), "d1") == (JWT_KEY,)
    assert rest.watched(wanted(REST), "d1") == ()


def test_slurm_proves_tokens_beside_munges_credentials_where_the_file_says_so_alone() -> None:
    lines = wanted(REST).rendered["slurm.conf"]
    assert f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={JWT_KEY},max_token_lifespan=86400\n" in lines
    assert "AuthAlt" not in wanted("").rendered["slurm.conf"]


def test_tokens_count_as_long_as_the_file_says_and_parameters_of_the_site_come_after_slurmfabs() -> None:
    more = "rest: {host: c1, token_lifetime: 12h}\nslurm_conf: {AuthAltParameters: 'disable_token_creation,jwks=/x'}\n"
    lines = wanted(more + DATABASE).rendered["slurm.conf"]
    own = "disable_token_creation,jwks=/x\n"
    assert f"AuthAltParameters=jwt_key={JWT_KEY},max_token_lifespan=43200,{own}" in lines
    known = wanted(more + DATABASE)
    assert known.cluster.database is not None
    assert f"AuthAltParameters=jwt_key={JWT_KEY},{own}" in slurmdbd_conf(known, known.cluster.database, "localhost", 0)


@pytest.mark.parametrize("word", ["jwt_key=/x", "max_token_lifespan=9999999"])
def test_a_key_or_a_lifespan_of_tokens_in_slurm_conf_is_refused(word: str) -> None:
    with pytest.raises(ClusterFileError, match=f"slurmfab writes {word.partition('=')[0]} itself"):
        wanted(f"{REST}slurm_conf: {{AuthAltParameters: 'disable_token_creation,{word}'}}\n")


def test_plugins_have_one_name_for_all_apis_from_slurm_23_11_on() -> None:
    known = wanted(REST, slurm_versions={"slurmctld": "23.11.4"})
    assert " -s openapi/slurmctld unix:" in rest.drop_in(known, "c1")
    older = wanted(REST, slurm_versions={"slurmctld": "23.02.7"})
    assert " -s openapi/v0.0.39 unix:" in rest.drop_in(older, "c1")


@pytest.mark.parametrize(
    ("more", "version", "plugins"),
    [
        (REST, "22.05.8", "openapi/v0.0.38"),
        (REST + DATABASE, "22.05.8", "openapi/v0.0.38,openapi/dbv0.0.38"),
        (REST, "24.11.5", "openapi/slurmctld"),
        (REST + DATABASE, "24.11.5", "openapi/slurmctld,openapi/slurmdbd"),
    ],
)
def test_slurmrestd_has_a_user_of_its_own_and_a_socket_alone(more: str, version: str, plugins: str) -> None:
    text = rest.drop_in(wanted(more, slurm=version), "c1")
    assert "DynamicUser=yes\n" in text
    assert f"-a rest_auth/jwt -s {plugins} unix:/run/slurmrestd/slurmrestd.socket\n" in text


def test_packages_come_where_tokens_are_made_proved_and_taken() -> None:
    known = wanted(REST + DATABASE)
    assert {"slurmrestd", "slurm-wlm-jwt-plugin"} <= packages.wanted(known, "c1")
    assert {"slurmrestd", "slurm-wlm-jwt-plugin"} & packages.wanted(known, "d1") == {"slurm-wlm-jwt-plugin"}
    assert not {"slurmrestd", "slurm-wlm-jwt-plugin"} & packages.wanted(known, "n1")


def test_all_is_taken_back_without_the_key() -> None:
    found = rest.resources(wanted("", owned=("rest",), has_jwt_key=True), "c1")
    assert Service("slurmrestd", running=False) in found
    assert Absent(JWT_KEY, secret=True) in found
    assert rest.resources(wanted(""), "c1") == ()
    assert rest.resources(wanted(REST, has_jwt_key=True), "n1") == (Absent(JWT_KEY, secret=True),)


@pytest.mark.parametrize(("version", "plugin"), [("22.05.8", "openapi/v0.0.38"), ("24.11.5", "openapi/slurmctld")])
def test_plugins_are_those_of_the_version(version: str, plugin: str) -> None:
    assert f"-s {plugin} " in rest.drop_in(wanted(REST, slurm=version), "c1")


def test_the_copy_of_the_key_is_slurms_and_not_shown() -> None:
    copy = rest.copied(wanted(REST + DATABASE))
    assert (copy.owner, copy.group, copy.mode, copy.secret, copy.encoding) == ("slurm", "slurm", 0o400, True, "base64")
