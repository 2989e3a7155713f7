"""The image registry: what its host gets, what all hosts know of it, and what is taken back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.base.paths import IMAGE_POLICY, IMAGE_REGISTRIES, REGISTRY_CONF, REGISTRY_PULL_CONF, REGISTRY_USERS
from slurmfab.core.plan.phases import packages, registry
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate
from slurmfab.on_hosts.agent.files.trusted_authority import TrustedAuthority
from slurmfab.on_hosts.agent.services.service import Service

CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
OPEN = "registry: {host: c1, anonymous_pull: true}\n"
ONLY = "registry: {host: c1, only: true, allowed: [docker.io/library]}\n"
OWNED = {"owned": ("registry", "registry-trust", "registry-use")}


def wanted(more: str, ca: str = CA, **facts: Any) -> PlanInput:
    whole = cluster(THREE_HOSTS + more)
    known = facts_of(whole, prepared, **facts)
    known["c1"] = dataclasses.replace(known["c1"], registry_ca=ca, addresses=("10.0.0.9", "fd00::9"))
    found = plan_input(whole, known)
    lock = dataclasses.replace(found.lock, registry_ca=ca)
    return dataclasses.replace(found, registry_users="ann:hash\n", lock=lock)


def files(known: PlanInput, host: str) -> dict[str, OwnedFile]:
    found = [one for one in registry.resources(known, host) if isinstance(one, OwnedFiles)]
    return {path: file for one in found for path, file in one.by_path().items()}


def services(known: PlanInput, host: str = "c1") -> dict[str, bool]:
    found = [one for one in registry.resources(known, host) if isinstance(one, Service)]
    return {one.unit: one.running for one in found}


def conf(known: PlanInput, path: str = REGISTRY_CONF) -> Any:
    return json.loads(files(known, "c1")[path].text.partition("\n")[2])


def test_the_host_listens_on_one_address_with_a_login_and_tls() -> None:
    found = conf(wanted("registry: c1\n"))
    assert found["http"]["addr"].rpartition(":")[::2] == ("10.0.0.1", "5000")
    assert found["http"]["tls"]["minimumtls"] == "tls1.2"
    assert found["auth"]["htpasswd"]["path"] == REGISTRY_USERS
    users = files(wanted("registry: c1\n"), "c1")[REGISTRY_USERS]
    assert (users.text, users.mode, users.group, users.secret) == ("ann:hash\n", 0o640, "docker-registry", True)
    assert services(wanted("registry: c1\n")) == {"docker-registry": True}


def test_what_needs_no_login_can_write_nothing() -> None:
    found = conf(wanted(OPEN), REGISTRY_PULL_CONF)
    assert found["storage"]["maintenance"] == {"readonly": {"enabled": True}}
    assert "auth" not in found
    assert "delete" not in found["storage"]
    assert services(wanted(OPEN)) == {"docker-registry": True, "slurmfab-registry-pull": True}


def test_an_address_of_the_registrys_own_is_in_its_certificate() -> None:
    known = wanted('registry: {host: c1, address: "fd00::9"}\n')
    assert conf(known)["http"]["addr"] == "[fd00::9]:5000"
    (certificate,) = registry.certificate(known, "c1")
    assert isinstance(certificate, ServerCertificate)
    assert {"c1", "fd00::9"} <= set(certificate.certified)
    assert registry.certificate(known, "n1") == ()


def test_all_hosts_trust_the_certificate_once_it_is_known() -> None:
    found = files(wanted(OPEN), "n1")
    places = ("c1:5000", "c1:5001")
    assert [found[f"/etc/containers/certs.d/{one}/ca.crt"].text for one in places] == [f"{CA}\n"] * 2
    assert [found[f"/etc/docker/certs.d/{one}/ca.crt"].text for one in places] == [f"{CA}\n"] * 2
    before = registry.resources(wanted("registry: c1\n", ca="", owned=("registry-trust",)), "n1")
    assert [one.id for one in before] == ["owned-files:registry-use"]
    assert TrustedAuthority(f"{CA}\n") in registry.resources(wanted(OPEN), "n1")


def test_a_name_without_a_registry_is_the_clusters_own_image() -> None:
    plain, both = (files(wanted(one), "n1")[IMAGE_REGISTRIES].text for one in ("registry: c1\n", OPEN))
    assert 'unqualified-search-registries = ["c1:5000"]\n' in plain
    assert "mirror" not in plain
    assert '[[registry.mirror]]\nlocation = "c1:5001"\n' in both


def test_other_images_are_rejected_where_the_file_says_so_alone() -> None:
    policy = json.loads(files(wanted(ONLY), "n1")[IMAGE_POLICY].text)
    assert policy["default"] == [{"type": "reject"}]
    assert set(policy["transports"]["docker"]) == {"c1:5000", "docker.io/library"}
    assert IMAGE_POLICY not in files(wanted(OPEN), "n1")


def test_packages_come_for_the_registrys_host_alone() -> None:
    assert {"docker-registry", "openssl"} <= packages.wanted(wanted(OPEN), "c1")
    assert not {"docker-registry", "openssl"} & packages.wanted(wanted(OPEN), "n1")
    assert all("ca-certificates" in packages.wanted(wanted(OPEN), host) for host in ("c1", "n1"))


def test_all_is_taken_back_without_the_key() -> None:
    known = wanted("", added_packages=("docker-registry",), **OWNED)
    assert services(known) == {"docker-registry": False, "slurmfab-registry-pull": False}
    assert files(known, "c1") == {}
    ids = [one.id for one in registry.resources(known, "c1")]
    assert {"owned-files:registry", "owned-files:registry-trust", "owned-files:registry-use"} <= set(ids)
    assert "server-certificate:images" in ids
    assert ids.index("trusted-authority:registry") < ids.index("owned-files:registry-trust"), "the record goes last"
    assert registry.resources(wanted(""), "c1") == ()


def test_a_registry_that_somebody_else_installed_goes_on_as_it_was() -> None:
    known = wanted("", **OWNED)
    assert services(known) == {"slurmfab-registry-pull": False, "docker-registry": True}


def test_another_host_takes_over_and_the_former_one_stops() -> None:
    known = wanted("registry: n1\n", ca="", added_packages=("docker-registry",), **OWNED)
    assert services(known, "c1") == {"docker-registry": False, "slurmfab-registry-pull": False}
    assert services(known, "n1")["docker-registry"]


def test_the_servers_restart_with_their_own_files() -> None:
    known = wanted(OPEN, owned=("registry",))
    found = {one.unit: one for one in registry.resources(known, "c1") if isinstance(one, Service)}
    both = {REGISTRY_CONF, REGISTRY_USERS}
    assert both <= set(found["docker-registry"].watches)
    assert REGISTRY_PULL_CONF not in found["docker-registry"].watches
    assert set(found["slurmfab-registry-pull"].watches) == {
        REGISTRY_PULL_CONF, registry.REGISTRY_CERTIFICATE, "/etc/systemd/system/slurmfab-registry-pull.service"
    }  # fmt: skip
    assert REGISTRY_PULL_CONF not in files(wanted("registry: c1\n"), "c1")


def test_a_server_for_fetching_alone_ends_where_it_is_no_longer_wanted() -> None:
    assert services(wanted("registry: c1\n", owned=("registry",))) == {
        "slurmfab-registry-pull": False,
        "docker-registry": True,
    }
    assert services(wanted("registry: n1\n"), "n2") == {}
    assert registry.resources(wanted("registry: n1\n", ca=""), "n2")[0].id == "owned-files:registry-use"


def test_images_that_are_sent_to_the_registry_may_come_from_the_host_itself() -> None:
    policy = json.loads(files(wanted(ONLY), "n1")[IMAGE_POLICY].text)
    assert policy["transports"]["containers-storage"] == {"": [{"type": "insecureAcceptAnything"}]}
    assert policy["transports"]["docker"]["docker.io/library"] == [{"type": "insecureAcceptAnything"}]
    assert packages.wanted(wanted(""), "n1").isdisjoint({"docker-registry", "openssl", "ca-certificates"})
    assert conf(wanted("registry: c1\n"))["storage"]["delete"] == {"enabled": True}
    assert conf(wanted("registry: {host: c1, directory: /srv/images}\n"))["storage"]["filesystem"] == {
        "rootdirectory": "/srv/images"
    }
