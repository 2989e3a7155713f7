"""The cluster's own image registry: real images are sent with a login, fetched with and without one, and refused.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import ExtendedLab, succeeded
from lab_user import words_of
from lying_agent import honest_again, make_liar
from stock import Stock, in_turn

from slurmfab.base.exit_codes import FAILURE

pytestmark = pytest.mark.lab

PASSWORD = "not-in-any-dictionary"
HASH = "perl -e 'print crypt($ARGV[0], q($2y$05$) . q(abcdefghijklmnopqrstuu))' {}"
REGISTRY = "registry: {host: ctl, directory: /srv/images, anonymous_pull: true}\n"
ONLY = "registry: {host: ctl, directory: /srv/images, only: true}\n"
DOCKER = "containers: {use: [docker], docker: {users: [ann]}}\n"
BY_DOCKER = f"""\
echo {PASSWORD} | docker login -u ann --password-stdin ctl:5000 2>&1
docker pull -q ctl:5001/tool:1 && docker tag ctl:5001/tool:1 ctl:5000/tool:2 && docker push -q ctl:5000/tool:2
docker run --rm --network=none ctl:5000/tool:2 /bin/busybox cat /proc/self/cgroup
"""
MEMBERS = "getent group docker | cut -d: -f3,4"
TOOLS = (
    "packages: {compute: [podman, skopeo, busybox-static]}\nusers: [{name: ann, uid: 3000}, {name: bob, uid: 3001}]\n"
)
STORAGE = '[storage]\\ndriver = "vfs"\\ngraphroot = "/root/images"\\nrunroot = "/run/images"\\n'
IMAGE = "tar -C / -c bin/busybox | podman import - ctl:5000/tool:1"
LOGIN = "podman login -u ann --password-stdin ctl:5000"
RUN = "podman run --rm --quiet --network=host --cgroups=disabled {} /bin/busybox echo it runs"
AS_ANN = "runuser -u ann -- env XDG_RUNTIME_DIR=/home/ann"
FETCH = f"rm -rf /tmp/fetched; cd /; {AS_ANN} skopeo copy docker://{{}} dir:/tmp/fetched"
SAVED = "podman save -q --format docker-archive -o /tmp/image.tar ctl:5000/tool:1 2>/dev/null; chmod 644 /tmp/image.tar"
OWN_POLICY = """\
mkdir -p ~/.config/containers && cd ~/.config/containers
echo "{\\"default\\": [{\\"type\\": \\"insecureAcceptAnything\\"}]}" > policy.json
skopeo copy docker-archive:/tmp/image.tar dir:/tmp/own
"""
BY_SYSTEM = "python3 -c 'import urllib.request as one; print(one.urlopen(\"https://ctl:5001/v2/\").status)'"
"""What a program prints that trusts what the system does, as Apptainer and curl."""

PLACE = "/etc/docker/registry/slurmfab"
FORGED = f"""\
cd {PLACE} && cp -p authority.pem ca.crt server.pem /root/
cat >/root/forged.conf <<END
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = {{0}}
[extensions]
subjectKeyIdentifier = hash
basicConstraints = critical, CA:TRUE
END
openssl req -x509 -config /root/forged.conf -key authority.pem -days 10950 -out /root/forged.crt
"""
"""Makes a certificate with the key and the name of the registry's authority, and without its constraints."""

LIE = """\
def lie(told):
    if 'facts' in told:
        told['facts']['registry_ca'] = open('/root/forged.crt').read().strip()
        return told
"""
TRUST = "sha256sum /etc/containers/certs.d/ctl:5000/ca.crt /usr/local/share/ca-certificates/slurmfab-registry.crt"

LEFT = (
    "ls /usr/local/share/ca-certificates/slurmfab* /etc/ssl/certs/slurmfab* 2>/dev/null; "
    "ls /etc/containers/certs.d /etc/docker/certs.d /etc/containers/registries.conf.d/slurmfab* "
    "/etc/docker/registry/slurmfab* /etc/systemd/system/*registry* /var/lib/slurmfab/owned/registry* 2>/dev/null; "
    "ss -Hltn 'sport = :5000 or sport = :5001'; command -v docker-registry"
)


class Site(ExtendedLab):
    """A cluster of one node, and its file without a registry."""

    def check(self, group: str = "registry") -> dict[str, str]:
        """The outcomes of a group of checks by name and host."""
        return {f"{one['check']}/{one['host']}": one["outcome"] for one in self.lab.checks(group)}

    def on(self, host: str, script: str) -> str:
        """What a script prints; podman's other driver cannot lie on the overlay of a lab host."""
        return self.lab.on(host, f"export CONTAINERS_STORAGE_CONF=/root/storage.conf; {script}")

    def fails(self, host: str, script: str) -> str:
        """What a script says that has to fail."""
        said = self.on(host, f"if ({script}) 2>&1; then echo IT-WORKED; fi")
        assert "IT-WORKED" not in said, said
        return said


@pytest.fixture(scope="module", params=in_turn("registry"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=1) as lab:
        passwords = lab.inventory_path.with_name("registry.htpasswd")
        passwords.write_text(f"ann:{lab.on('ctl', HASH.format(PASSWORD))}\n")
        passwords.chmod(0o600)
        yield Site(lab, lab.inventory_path.read_text() + TOOLS)


def test_registry_when_the_file_names_its_host_then_it_answers_on_one_address_alone(site: Site) -> None:
    said = site.deploy(REGISTRY)
    assert PASSWORD not in said
    assert "$2y$" not in said
    address = site.lab.lab.host("ctl").address
    listening = site.lab.on("ctl", "ss -Hltn 'sport = :5000 or sport = :5001' | awk '{print $4}' | sort").split()
    assert listening == [f"{address}:5000", f"{address}:5001"]
    assert site.lab.on("ctl", "cd /etc/docker/registry/slurmfab; stat -c '%n %U %G %a' *").splitlines() == [
        "authority.pem root root 600",
        "ca.crt root root 644",
        "server.pem root docker-registry 640",
    ]
    found = site.check()
    assert set(found.values()) == {"passed"}
    assert sum(name.startswith("registry_") for name in found) == 3 * len(("ctl", "n1")), found


def test_image_when_somebody_without_a_login_sends_it_then_it_is_refused(site: Site) -> None:
    site.lab.on("n1", f"printf '{STORAGE}' > /root/storage.conf")
    site.on("n1", IMAGE)
    said = site.fails("n1", "podman push ctl:5000/tool:1")
    assert "authentication required" in said or "unauthorized" in said.lower(), said
    site.fails("n1", "podman push ctl:5000/tool:1 docker://ctl:5001/tool:1")
    site.fails("n1", f"echo wrong | {LOGIN}")


def test_image_when_somebody_with_a_login_sends_it_then_others_fetch_it_with_and_without_one(site: Site) -> None:
    site.on("n1", f"echo {PASSWORD} | {LOGIN} && podman push ctl:5000/tool:1 && podman rmi ctl:5000/tool:1")
    assert site.on("n1", RUN.format("ctl:5000/tool:1")) == "it runs"
    site.on("n1", "podman logout ctl:5000; podman rmi ctl:5000/tool:1")
    assert site.on("n1", RUN.format("tool:1")) == "it runs"
    site.on("n1", FETCH.format("ctl:5001/tool:1"))
    for host in ("ctl", "n1"):
        assert site.lab.on(host, BY_SYSTEM) == "200"
    assert "GET" in site.lab.on("ctl", "journalctl --sync; journalctl -u slurmfab-registry-pull | cat")


def test_images_of_others_when_only_the_sites_are_wanted_then_they_are_rejected_unless_users_have_a_policy(
    site: Site,
) -> None:
    site.deploy(ONLY)
    assert site.lab.on("ctl", "ss -Hltn 'sport = :5001'") == ""
    assert set(site.check().values()) == {"passed"}
    said = site.fails("n1", FETCH.format("ctl:5000/tool:1"))
    assert "authentication required" in said or "unauthorized" in said.lower(), said
    site.on("n1", f"echo {PASSWORD} | {LOGIN} && podman pull ctl:5000/tool:1")
    other = f"{site.lab.lab.host('ctl').address}:5000"
    site.on("n1", f"{SAVED}; echo {PASSWORD} | {LOGIN.replace('ctl:5000', other)} --tls-verify=false")
    for image in (f"docker://{other}/tool:1", "docker-archive:/tmp/image.tar"):
        assert "rejected by policy" in site.fails("n1", f"podman pull --tls-verify=false {image}")
    # Whoever may write files can have a policy: it is a guard rail and no wall, as docs/registry.md says.
    site.on("n1", f"{SAVED} && cd / && {AS_ANN} sh -c '{OWN_POLICY}'")
    site.deploy(REGISTRY)
    assert "reject" not in site.lab.on("n1", "cat /etc/containers/policy.json")


def test_authority_when_root_of_its_host_puts_another_certificate_in_its_place_then_no_other_host_trusts_it(
    site: Site,
) -> None:
    before = site.lab.on("n1", TRUST)
    name = site.lab.on("ctl", f"openssl x509 -in {PLACE}/ca.crt -noout -subject -nameopt RFC2253").partition("CN=")[2]
    site.lab.on("ctl", FORGED.format(name))

    site.lab.on("ctl", f"cp /root/forged.crt {PLACE}/ca.crt")
    planned = words_of(site.lab.slurmfab("plan"))
    assert "it has no name constraints, so it could vouch for every server. No other host trusts it" in planned
    told = site.check()
    assert told["registry_is_trusted_by_the_locks_authority_alone/ctl"] == "failed", told
    assert told["registry_is_trusted_by_the_locks_authority_alone/n1"] == "passed", told
    site.deploy(REGISTRY)
    assert site.lab.on("ctl", f"cmp /root/ca.crt {PLACE}/ca.crt && echo same") == "same", "what the check said to do"
    assert set(site.check().values()) == {"passed"}

    # With the authority itself, which root of the host has, nobody believes it either; nor does the host make another.
    site.lab.on("ctl", f"cd {PLACE}; openssl pkey -in authority.pem >/root/key")
    site.lab.on("ctl", f"cd {PLACE}; cat /root/key /root/forged.crt >authority.pem; cp /root/forged.crt ca.crt")
    refused = site.lab.slurmfab("deploy")
    assert refused.returncode == FAILURE, words_of(refused)
    assert "the authority that other hosts trust is not in" in words_of(refused)
    assert site.lab.on("n1", TRUST) == before
    site.lab.on("ctl", f"cd {PLACE}; cp -p /root/authority.pem /root/ca.crt /root/server.pem .")

    make_liar(site.lab, "ctl", LIE)
    refused = site.lab.slurmfab("deploy")
    honest_again(site.lab, "ctl")
    assert refused.returncode == FAILURE, words_of(refused)
    assert "it told of a certificate of its image registry's authority that is not there" in words_of(refused)
    site.deploy(REGISTRY)
    assert site.lab.on("n1", TRUST) == before


def test_authority_when_it_is_another_one_than_hosts_have_then_that_is_told_and_asked_for(site: Site) -> None:
    before = site.lab.on("n1", TRUST)
    # As after a reinstallation, or by root of the host: all is of slurmfab's make, but with another key.
    site.lab.on("ctl", f"rm {PLACE}/*")
    for task in ("plan", "deploy"):
        site.lab.slurmfab(task)
    assert site.lab.on("ctl", f"ls {PLACE}", check=False) == "", "no other one is made unasked"
    assert site.lab.on("n1", TRUST) == before
    site.write(REGISTRY)
    said = words_of(succeeded(site.lab.slurmfab("deploy", "--allow", "registry-authority")))
    assert "All hosts get to trust the authority of the image registry on ctl" in said
    after = site.lab.on("n1", TRUST)
    assert after != before
    assert set(site.check().values()) == {"passed"}
    site.lab.on("ctl", f"cp -p /root/authority.pem /root/ca.crt /root/server.pem {PLACE}/")
    for task in ("plan", "deploy"):
        refused = words_of(site.lab.slurmfab(task))
        assert "is not the one that the lock has" in refused, refused
        assert "deploy --allow registry-authority" in refused
    assert site.lab.on("n1", TRUST) == after
    succeeded(site.lab.slurmfab("deploy", "--allow", "registry-authority"))
    assert site.lab.on("n1", TRUST) == before
    site.deploy(REGISTRY)


def test_docker_when_the_file_names_its_users_then_these_alone_send_and_fetch_images(site: Site) -> None:
    site.deploy(REGISTRY + DOCKER)
    number, members = site.lab.on("n1", MEMBERS).split(":")
    assert (int(number) < 1000, members) == (True, "ann")
    said = site.lab.on("n1", f"su - ann -c '{BY_DOCKER}'")
    assert "/docker/" in said or "docker-" in said, said
    assert "ermission denied" in site.fails("n1", "su - bob -c 'docker ps'")
    assert set(site.check("docker").values()) == {"passed"}
    tried = site.lab.slurmfab("quickcheck", "--only", "container", "--user", "ann")
    assert "n1: docker ran a shell with programs of the node" in tried.stdout, tried.stdout
    site.lab.on("ctl", "gpasswd --add bob docker")
    told = site.check("docker")
    assert (told["docker_is_for_its_users_alone/ctl"], told["docker_is_for_its_users_alone/n1"]) == ("failed", "passed")
    site.lab.on("ctl", "gpasswd --delete bob docker")
    site.deploy(REGISTRY)
    assert site.lab.on("n1", f"{MEMBERS}; command -v docker dockerd; true") == f"{number}:"


def test_registry_when_the_file_no_longer_has_it_then_all_goes_but_its_images(site: Site) -> None:
    site.deploy("")
    for host in ("ctl", "n1"):
        assert site.lab.on(host, LEFT, check=False) == ""
    assert site.lab.on("ctl", "ls /srv/images/docker/registry/v2/repositories") == "tool"


def test_registry_when_its_removal_is_undone_then_a_deployment_starts_it_with_the_certificate_that_hosts_had(
    site: Site,
) -> None:
    succeeded(site.lab.slurmfab("rollback"))
    authority = site.lab.on("n1", "cat /etc/containers/certs.d/ctl:5000/ca.crt")
    site.deploy(REGISTRY)  # packages are not part of an undo
    assert site.lab.on("n1", "cat /etc/containers/certs.d/ctl:5000/ca.crt") == authority
    assert set(site.check().values()) == {"passed"}
    site.on("n1", FETCH.format("ctl:5001/tool:1"))
