"""JupyterHub on a login host: a password, the form, a server in a job, a cell, limits, an idle end, and the way back.

One lab goes through all of it, in this order; the last look at the page is a real browser's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from browsing import chromium
from lab_cluster import ExtendedLab, eventually
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait
from stock import Stock, in_turn

from slurmfab.commands.quickcheck.jupyter import CELL, RUN

pytestmark = pytest.mark.lab

KEYS = "login: [n2]\nusers: [{name: ann, uid: 3000}, {name: eve, uid: 3001, sudo: true}]\nuser_tools: true\n"
JUPYTER = "jupyter: {{host: n2, idle: {}}}\n"
PASSWORD = "not-in-any-dictionary"
ANSWERS = {"partition": "main", "time": "10", "cpus": "1", "memory": "400M"}
SECONDS = 120
LEFT = (
    "ls -d /etc/slurmfab-jupyter* /etc/systemd/system/*jupyter* /etc/pam.d/slurmfab-jupyter /run/slurmfab-jupyter* "
    "/usr/local/lib/slurmfab/jupyter /var/lib/slurmfab-jupyter /var/lib/private/slurmfab-jupyter /usr/bin/jupyterhub "
    "/var/lib/slurmfab/owned/jupyter.json 2>/dev/null; getent passwd slurmfab-jupyter; "
    "ss -Hltn 'sport = :8000 or sport = :8081'; :"
)
LISTENING = "ss -Hltn 'sport = :8000 or sport = :8081 or sport = :8001' | awk '{print $4}' | sort"
AS_HUB = """
import socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect("/run/slurmfab-jupyter.socket")
one.sendall(sys.stdin.readline().encode())
print(one.makefile().readline())
"""
RULE = "ann ALL=(ALL:ALL) NOPASSWD: ALL"
SITE = "/etc/sudoers.d/site"
BY_SUDO = {
    f"printf '%s\\n' '{rule}' >{SITE}; echo '{RULE}' | tee '/etc/site rules' /etc/site-n2 >/etc/site": (
        f"rm {SITE} '/etc/site rules' /etc/site-n2 /etc/site"
    )
    for rule in (
        "@include /etc/site-%h", "@include /etc/site\\ rules", "@include /etc/site # ours", "#include /etc/site # ours",
        f"!!{RULE}", RULE.replace("ann", "a\\x6en"), f"User_Alias A = !!ann\nA{RULE[3:]}", RULE.replace("ann", "#3000"),
    )
} | {
    f"echo '{RULE}' >/etc/site; echo Plugin sudoers_policy sudoers.so sudoers_file=/etc/site >>/etc/sudo.conf": (
        "rm /etc/site; sed -i '$d' /etc/sudo.conf"
    ),
}  # fmt: skip
"""Ways in which real sudo lets ann become root, and those back."""

FORM = "#spawn_form [type=submit]"


class Site(ExtendedLab):
    """A cluster, and its file without `jupyter`."""

    def cell(self, password: str, user: str = "ann", **answers: str) -> dict[str, Any]:
        """What a user gets who logs in, starts a server with these answers, runs a cell and ends the server."""
        values = [user, password, "https://n2:8000", {**ANSWERS, **answers}, "", SECONDS, CELL]
        script = f"cd / && echo {shlex.quote(json.dumps(values))} | python3 -E -s -c {shlex.quote(RUN)}"
        told: dict[str, Any] = json.loads(self.lab.on("n2", script).splitlines()[-1])
        return told

    def as_hub(self, **request: object) -> dict[str, Any]:
        """What root answers to the hub's user."""
        asked = f"setpriv --reuid $(stat -c %u /run/slurmfab-jupyter) --clear-groups python3 -c {shlex.quote(AS_HUB)}"
        told: dict[str, Any] = json.loads(self.lab.on("n2", f"echo {shlex.quote(json.dumps(request))} | {asked}"))
        return told

    def outcomes(self) -> dict[str, str]:
        """The outcomes of the checks of notebooks, by name and host."""
        checks = self.lab.checks("jupyter")
        return {
            f"{one['check']}/{one['host']}": one["outcome"] for one in checks if one["check"].startswith("jupyter_")
        }

    def jobs(self) -> str:
        """The states of all jobs."""
        return self.lab.on("ctl", "squeue -h -o %u:%j:%T")


@pytest.fixture(scope="module", params=in_turn("jupyter"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2) as lab:
        text = lab.inventory_path.read_text().replace("n[1-2]", "n1") + KEYS
        lab.inventory_path.write_text(text)
        lab.deploy()
        lab.on("n2", f"for one in ann eve; do echo $one:{PASSWORD}; done | chpasswd")
        yield Site(lab, text)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    # Browsers of people have to be told of the authority, too: docs/jupyter.md.
    with chromium(tmp_path_factory.mktemp("profile"), "--ignore-certificate-errors") as driver:
        yield driver


def test_hub_when_its_key_comes_then_it_answers_with_tls_as_nobody(site: Site) -> None:
    site.deploy(JUPYTER.format("1h"))
    address = site.lab.lab.host("n2").address
    assert site.lab.on("n2", LISTENING).split() == sorted([f"{address}:8000", f"{address}:8081", "127.0.0.1:8001"])
    found = site.outcomes()
    assert set(found.values()) == {"passed"}, found
    assert set(found) >= {"jupyter_has_slurmfabs_program/n1", "jupyter_has_slurmfabs_program/n2"}, found
    for host in ("n1", "n2"):
        assert site.lab.on(host, "systemctl is-enabled jupyterhub; systemctl is-active jupyterhub; :", check=False) == (
            "disabled\ninactive"
        )
        assert site.lab.on(host, "journalctl --quiet --boot _SYSTEMD_UNIT=jupyterhub.service | wc -l") == "0", "it ran"


def test_root_when_somebody_else_than_the_hub_asks_then_says_nothing(site: Site) -> None:
    ask = "import socket; s = socket.socket(1); s.connect('/run/slurmfab-jupyter.socket'); s.sendall(b'{}\\n'); "
    says = {"ann": ("PermissionError: [Errno 13] Permission denied",), "root": ("b''", "ConnectionResetError")}
    for user, beginnings in says.items():
        found = site.lab.on("n2", f'cd /; runuser -u {user} -- python3 -c "{ask} print(s.recv(99))" 2>&1', check=False)
        assert found.splitlines()[-1].startswith(beginnings), found


def test_ann_when_she_has_her_password_then_runs_a_cell_in_a_job_on_a_node(site: Site) -> None:
    found = site.cell(PASSWORD)
    assert found.get("printed", "").split()[:1] == ["n1"], found
    assert found["printed"].split()[1].isdigit()
    site.lab.until("ctl", "squeue -h", "")


def test_users_when_they_may_become_root_then_get_no_notebook_and_the_reason_also_if_the_hub_is_taken_over(
    site: Site,
) -> None:
    why = site.cell(PASSWORD, "eve")["why"]
    assert "eve gets no notebook: the cluster file lets it become root, so whoever takes over the hub could, too" in why
    ways = {
        "echo 'ann n9=(root) /usr/bin/less' >/etc/sudoers.d/site": "rm /etc/sudoers.d/site",
        "gpasswd -a ann adm": "gpasswd -d ann adm",
    }
    for way, back in ways.items():
        site.lab.on("n2", way)
        assert "ann gets no notebook: " in site.cell(PASSWORD)["why"]
        site.lab.on("n2", back)
    for way, back in BY_SUDO.items():
        site.lab.on("n2", way)
        assert site.lab.on("n2", "cd /; runuser -u ann -- sudo -n id -u", check=False) == "0", way
        assert "ann gets no notebook: " in site.as_hub(do="submit", user="ann", options=ANSWERS)["error"], way
        site.lab.on("n2", back)
    site.lab.on("n2", "useradd -o -u 3000 -G adm twin")
    assert "the UID of twin" in site.as_hub(do="submit", user="ann", options=ANSWERS)["error"]
    site.lab.on("n2", "userdel twin")
    # What somebody can ask root for who has the hub itself, without any password.
    for user, says in {"eve": "eve gets no notebook", "slurm": "no server here", "munge": "no server here"}.items():
        assert says in site.as_hub(do="submit", user=user, options=ANSWERS, environment={})["error"]
    assert site.jobs() == ""
    others = site.lab.on("ctl", "cd /tmp && runuser -u ann -- sbatch --parsable -o /dev/null --wrap 'sleep 300'")
    site.as_hub(do="cancel", user="eve", job=others)
    assert site.jobs().startswith("ann:wrap:")
    site.lab.on("ctl", f"scancel {others}")
    site.lab.until("ctl", "squeue -h", "")


def test_ann_when_the_password_is_wrong_or_the_host_closed_then_she_is_refused(site: Site) -> None:
    assert "the login is refused" in site.cell("wrong")["why"]
    site.lab.on("n2", "echo maintenance > /etc/nologin")
    assert "the login is refused" in site.cell(PASSWORD)["why"]
    site.lab.on("n2", "rm /etc/nologin; usermod --expiredate 1 ann")
    assert "the login is refused" in site.cell(PASSWORD)["why"]
    site.lab.on("n2", "usermod --expiredate '' ann")


def test_ann_when_she_asks_for_too_much_then_she_is_told_what_the_cluster_has(site: Site) -> None:
    assert "is more than the" in site.cell(PASSWORD, cpus="999")["why"]
    assert "is more than the" in site.cell(PASSWORD, memory="999T")["why"]
    assert "There is no partition" in site.cell(PASSWORD, partition="main --uid=0")["why"]
    assert site.jobs() == ""


def test_quickcheck_when_it_is_run_then_a_user_runs_a_cell_without_a_password(site: Site) -> None:
    done = site.lab.slurmfab("quickcheck", "--only", "jupyter")
    assert "ann logged in at n2:8000 and ran a cell in job" in done.stdout, done.stdout + done.stderr
    assert site.lab.on("n2", "ls /run/slurmfab-jupyter.ticket 2>&1; :").endswith("No such file or directory")


def test_browser_when_ann_logs_in_then_the_form_starts_a_server_that_ends_when_idle(
    site: Site, browser: webdriver.Chrome
) -> None:
    site.deploy(JUPYTER.format("1m"))
    wait = WebDriverWait(browser, SECONDS)
    browser.get(f"https://{site.lab.lab.host('n2').address}:8000/")
    browser.find_element(By.NAME, "username").send_keys("ann")
    browser.find_element(By.NAME, "password").send_keys(PASSWORD)
    browser.find_element(By.ID, "login_submit").click()
    wait.until(lambda one: one.find_elements(By.ID, "partition"))
    form = browser.find_element(By.ID, "partition")
    assert [one.get_attribute("value") for one in Select(form).options] == ["main"]
    memory = browser.find_element(By.ID, "memory")
    memory.clear()
    memory.send_keys("999T")
    browser.find_element(By.CSS_SELECTOR, FORM).click()
    wait.until(lambda one: "is more than the" in one.page_source)
    browser.find_element(By.ID, "memory").clear()
    browser.find_element(By.ID, "memory").send_keys("400M")
    browser.find_element(By.CSS_SELECTOR, FORM).click()
    wait.until(lambda one: "/user/ann/" in one.current_url)
    assert site.jobs() == "ann:jupyter:RUNNING"
    site.lab.on("n2", "systemctl restart slurmfab-jupyter")

    def shows_her_files() -> bool:
        """Whether the page is that of her server again; until the hub knows it, the proxy has a page of its own."""
        with suppress(WebDriverException):
            browser.get(f"https://{site.lab.lab.host('n2').address}:8000/user/ann/tree")
        return bool(browser.find_elements(By.ID, "notebook_list"))

    eventually(shows_her_files, "the hub that has restarted knows the server", SECONDS)
    assert site.jobs() == "ann:jupyter:RUNNING", "jobs go on while the hub restarts"
    browser.get("about:blank")
    eventually(lambda: site.jobs() == "", "the idle server has ended", 240)


def test_all_when_the_key_goes_then_is_taken_back_but_for_homes(site: Site) -> None:
    site.deploy("")
    for host in ("ctl", "n1", "n2"):
        assert site.lab.on(host, LEFT) == ""
    assert site.lab.on("n1", "ls -d /home/ann") == "/home/ann"
