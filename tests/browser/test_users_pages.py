"""The guide for users and the form for job scripts in a browser: limits, keyboard, light and dark, narrow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import choose_scheme, contrast, one, open_page, press, requests_of, script, width_on_a_phone
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

pytestmark = pytest.mark.browser

CASES = Path(__file__).parents[1] / "unit/programs/job_scripts.json"
"""Answers and the text that `sjob` makes of them."""

SECONDS = 20


@pytest.fixture(autouse=True)
def opened(browser: Chrome, users_pages: Path) -> Iterator[None]:
    """The form, opened anew; at the end, its console has no message and it has asked for nothing."""
    choose_scheme(browser, "")
    open_page(browser, users_pages / "job.html")
    yield
    assert browser.get_log("browser") == []
    assert requests_of(browser) == []


def fill(browser: Chrome, name: str, text: str) -> None:
    """Type into a field, or choose from a list."""
    field = one(browser, f"#{name}")
    if field.tag_name == "select":
        Select(field).select_by_visible_text(text)
    else:
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text or Keys.DELETE)


def job(browser: Chrome) -> list[str]:
    """The lines of the script."""
    return str(script(browser, "document.getElementById('script').textContent")).splitlines()


def wrong(browser: Chrome) -> dict[str, str]:
    """What the form says is wrong, by field."""
    found = browser.find_elements(By.CSS_SELECTOR, "p.wrong")
    return {str(place.get_attribute("id")).removeprefix("wrong-"): place.text for place in found if place.text}


@pytest.mark.parametrize(("typed", "written"), [("2h", "02:00:00"), ("1d 12h", "1-12:00:00"), ("2:00:00", "2:00:00")])
def test_a_time_when_it_is_typed_in_words_then_the_script_has_it_as_slurm_reads_it(
    browser: Chrome, typed: str, written: str
) -> None:
    fill(browser, "time", typed)
    assert wrong(browser).get("time") is None
    assert f"#SBATCH --time={written}" in job(browser)


def test_the_script_when_answers_are_the_same_then_is_the_same_as_in_a_terminal(browser: Chrome) -> None:
    cases = json.loads(CASES.read_text())
    texts = script(browser, "arguments[0].map(jobScript)", [case["options"] for case in cases])
    assert {case["case"]: text for case, text in zip(cases, texts, strict=True)} == {
        case["case"]: case["text"] for case in cases
    }


def test_the_form_when_filled_in_then_the_script_follows(browser: Chrome) -> None:
    for name, text in {"command": "python train.py", "name": "train 1", "partition": "gpu", "gpu_type": "a100",
                       "gpus": "2", "cpus": "8", "memory": "64G", "time": "1-12", "account": "physics", "qos": "urgent",
                       "modules": "gcc openmpi"}.items():  # fmt: skip
        fill(browser, name, text)
    assert wrong(browser) == {"time": "The limit of QOS urgent: 12 hours for each job."}
    assert not one(browser, "#copy").is_enabled()
    assert not one(browser, "#download").is_enabled()
    fill(browser, "time", "12:00:00")
    assert wrong(browser) == {}
    assert job(browser) == [
        "#!/bin/bash -l", '#SBATCH --job-name="train 1"', "#SBATCH --partition=gpu", "#SBATCH --account=physics",
        "#SBATCH --qos=urgent", "#SBATCH --nodes=1", "#SBATCH --ntasks=1", "#SBATCH --cpus-per-task=8",
        "#SBATCH --mem=64G", "#SBATCH --gres=gpu:a100:2", "#SBATCH --time=12:00:00", "#SBATCH --output=%x-%j.out",
        "", "set -e", "module load gcc openmpi", "", "python train.py",
    ]  # fmt: skip
    assert one(browser, "#about-time").text == "12 hours."
    assert one(browser, "#submit").text == "sbatch train-1.sh"


def test_a_container_when_chosen_then_needs_an_image(browser: Chrome) -> None:
    assert not one(browser, "#image").is_displayed()
    fill(browser, "way", "Apptainer")
    assert wrong(browser) == {"image": "Name an image."}
    fill(browser, "image", "~/image.sif")
    assert job(browser)[-1] == "apptainer exec --nv '~/image.sif' ./program"


PLAIN = {"command": "x", "name": "", "partition": "batch", "account": "", "qos": "", "nodes": 1, "tasks": 1, "cpus": 1,
         "memory": "", "gpus": 0, "gpu_type": "", "scratch": 0, "time": "", "array": "", "mail": "", "modules": [],
         "way": "", "image": ""}  # fmt: skip
MISTAKES: tuple[tuple[dict[str, object], dict[str, str]], ...] = (
    ({}, {}),
    ({"time": "8-0"}, {"time": "batch allows 7 days."}),
    ({"time": "7-0"}, {}),
    ({"time": "0"}, {"time": "A job needs some time."}),
    ({"time": "soon"}, {"time": "Write a time such as 2h, 1d 12h, 30 (minutes) or 1-12:00:00."}),
    ({"nodes": 5, "tasks": 5}, {"nodes": "Jobs in batch have at most 4 nodes."}),
    ({"nodes": 1.5}, {"nodes": "Write a whole number."}),
    ({"nodes": 2}, {"tasks": "2 nodes need at least 2 tasks."}),
    ({"tasks": 3, "cpus": 32}, {"cpus": "A node of batch has 64 CPUs; this needs 96."}),
    ({"memory": "300G"}, {"memory": "A node of batch has 243G."}),
    ({"memory": "243G"}, {}),
    ({"memory": "much"}, {"memory": "Write an amount such as 16G or 500M."}),
    ({"partition": "gpu", "gpus": 5}, {"gpus": "A node of gpu has 4 GPUs."}),
    ({"partition": "gpu", "gpu_type": "v100", "gpus": 3}, {"gpus": "A node of gpu has 2 GPUs of type v100."}),
    ({"partition": "gpu", "nodes": 2, "tasks": 2, "gpus": 4},
     {"gpus": "The limit of partition gpu: 6 GPUs for each user."}),
    ({"partition": "gpu", "nodes": 3, "tasks": 3, "gpu_type": "a100", "gpus": 2},
     {"nodes": "gpu has 2 nodes with all of this."}),
    ({"scratch": 100}, {}),
    ({"scratch": 2000}, {"scratch": "A node of batch has 800 GB of scratch space."}),
    ({"scratch": 0.5}, {"scratch": "Write a whole number."}),
    ({"partition": "physics"}, {"account": "physics is for the accounts physics alone."}),
    ({"partition": "physics", "account": "physics"}, {}),
    ({"account": "biology", "nodes": 2, "tasks": 2, "cpus": 60},
     {"cpus": "The limit of account biology: 96 CPUs for all together."}),
    ({"command": " "}, {"command": "Write what the job runs."}),
    ({"array": "1-9%3"}, {}),
    ({"array": "a"}, {"array": "Write indices such as 1-100 or 0-9%2."}),
    ({"mail": "ann"}, {"mail": "Write an address such as ann@example.org."}),
)  # fmt: skip
"""What differs from a plain job, and what is wrong with it, by field."""


def test_jobs_when_they_exceed_a_limit_then_it_is_named(browser: Chrome) -> None:
    offer = "JSON.parse(document.getElementById('offer').textContent)"
    jobs = [{**PLAIN, **differing} for differing, _ in MISTAKES]
    found = script(browser, f"arguments[0].map(job => jobMistakes({offer}, job))", jobs)
    assert list(zip((differing for differing, _ in MISTAKES), found, strict=True)) == list(MISTAKES)


def test_a_field_when_its_answer_exceeds_a_limit_then_says_so_and_the_script_cannot_be_taken(browser: Chrome) -> None:
    fill(browser, "nodes", "1.5")
    assert wrong(browser) == {"nodes": "Write a whole number."}
    fill(browser, "nodes", "9")
    fill(browser, "memory", "300G")
    assert wrong(browser).keys() == {"nodes", "tasks", "memory"}
    assert one(browser, "#memory").get_attribute("aria-invalid") == "true"
    assert one(browser, "#state").text == "3 fields to mend first."
    assert not one(browser, "#copy").is_enabled()


def test_limits_when_the_partition_changes_then_are_those_of_its_nodes(browser: Chrome) -> None:
    assert one(browser, "#about-partition").text == "Up to 7 days; 8 nodes with 64 CPUs, 243G."
    assert not one(browser, "#gpus").is_enabled()
    fill(browser, "partition", "gpu")
    assert [option.text for option in Select(one(browser, "#gpu_type")).options] == ["any type", "v100", "a100"]
    assert one(browser, "#gpus").get_attribute("max") == "4"
    fill(browser, "gpus", "2")
    fill(browser, "partition", "batch")
    assert not any("gpu" in line for line in job(browser))


def test_the_form_when_used_by_keyboard_then_all_of_it_can_be_reached(browser: Chrome) -> None:
    press(browser, Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("class") == "skip"
    reached = []
    for _ in range(30):
        press(browser, Keys.TAB)
        reached.append(browser.switch_to.active_element.get_attribute("id"))
        if reached[-1] == "download":
            break
    fields = [
        "command",
        "name",
        "modules",
        "way",
        "partition",
        "time",
        "account",
        "qos",
        "nodes",
        "tasks",
        "cpus",
        "memory",
    ]
    assert [name for name in reached if name in fields] == fields
    assert reached[-3:] == ["script", "copy", "download"]
    unnamed = "Array.from(document.querySelectorAll('input,select,textarea')).filter(one => !one.labels.length).length"
    assert script(browser, unnamed) == 0
    one(browser, "#copy").send_keys(Keys.ENTER)
    WebDriverWait(browser, SECONDS).until(lambda _: one(browser, "#state").text.startswith(("Copied", "Selected")))
    one(browser, "#time").send_keys(Keys.ENTER)
    assert script(browser, "location.search") == ""


def test_the_script_when_downloaded_then_is_a_file_with_the_name_of_the_job(browser: Chrome, tmp_path: Path) -> None:
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    fill(browser, "name", "my job")
    shown = job(browser)
    one(browser, "#download").click()
    saved = tmp_path / "my-job.sh"
    WebDriverWait(browser, SECONDS).until(lambda _: saved.exists() and saved.stat().st_size)
    assert saved.read_text() == "\n".join(shown) + "\n"
    browser.get_log("performance")  # which has the address of the file as a request


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_when_light_or_dark_or_on_a_phone_then_can_be_read(
    browser: Chrome, users_pages: Path, scheme: str
) -> None:
    choose_scheme(browser, scheme)
    fill(browser, "time", "soon")
    for selector in ("h1", "label", ".about", "p.wrong", "#script", "#copy", "#download", "#time", "footer"):
        assert contrast(browser, selector) >= 4.5 or selector in ("#copy", "#download"), (selector, scheme)
    fill(browser, "time", "1:00:00")
    assert contrast(browser, "#copy") >= 4.5
    assert contrast(browser, "#download") >= 4.5
    assert width_on_a_phone(browser, 360) <= 360
    open_page(browser, users_pages / "guide.html")
    for selector in ("h1", "p", "p code", "nav a", ".button", "thead th", "td", "footer"):
        assert contrast(browser, selector) >= 4.5, (selector, scheme)
    assert width_on_a_phone(browser, 360) <= 360


def test_the_guide_when_its_contents_are_followed_then_each_leads_to_a_visible_place(
    browser: Chrome, users_pages: Path
) -> None:
    open_page(browser, users_pages / "guide.html")
    for link in browser.find_elements(By.CSS_SELECTOR, "nav li a"):
        link.click()
        assert one(browser, script(browser, "location.hash")).is_displayed()
    one(browser, ".button").click()
    assert browser.title == "A job for the cluster aurora"
