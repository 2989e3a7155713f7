"""What tests of pages ask a browser: elements, values of its own script, requests, colours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--window-size=1280,900",
)  # fmt: skip
"""`--no-sandbox`: CI runs as root. The rest keeps the browser from using the network by itself."""


@contextmanager
def chromium(profile: Path, *more: str) -> Iterator[Chrome]:
    """A browser with an empty profile. `more`: further options of Chromium."""
    if not (shutil.which(CHROMIUM) and shutil.which(DRIVER)):
        pytest.fail("Debian's Chromium is missing: make test-packages")
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, *more, f"--user-data-dir={profile}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def open_page(browser: Chrome, path: Path) -> None:
    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")
    browser.get(path.as_uri())


def requests_of(browser: Chrome) -> list[str]:
    """What the browser has asked for, besides the page itself."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    return [url for url in urls if not url.startswith("file:///") or not url.partition("#")[0].endswith(".html")]


def one(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def script(browser: Chrome, text: str, *values: Any) -> Any:
    return browser.execute_script(f"return {text}", *values)


def press(browser: Chrome, *keys: str) -> None:
    browser.switch_to.active_element.send_keys(*keys)


def choose_scheme(browser: Chrome, scheme: str) -> None:
    """Choose `light` or `dark`; the empty one is the browser's own."""
    features = [{"name": "prefers-color-scheme", "value": scheme}] if scheme else []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def width_on_a_phone(browser: Chrome, width: int = 360) -> int:
    """How wide a page is on a screen of so many pixels, which is more if it scrolls sideways."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        return int(script(browser, "document.documentElement.scrollWidth"))
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def colour(browser: Chrome, expression: str) -> tuple[float, ...]:
    """A colour as red, green and blue, from 0 to 255: what a canvas makes of it."""
    text = (
        "(() => {const c = document.createElement('canvas').getContext('2d', {willReadFrequently: true});"
        f"c.fillStyle = {expression}; c.fillRect(0, 0, 1, 1); return Array.from(c.getImageData(0, 0, 1, 1).data)}})()"
    )
    return tuple(script(browser, text)[:3])


def contrast(browser: Chrome, selector: str) -> float:
    """The contrast ratio of an element's text to what is behind it (WCAG 2.2)."""
    element = f"document.querySelector('{selector}')"
    behind = (
        f"(() => {{let e = {element}; while (/, 0\\)$|transparent/.test(getComputedStyle(e).backgroundColor)) "
        "e = e.parentElement; return getComputedStyle(e).backgroundColor})()"
    )
    lights = sorted(map(luminance, (colour(browser, f"getComputedStyle({element}).color"), colour(browser, behind))))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(channels: tuple[float, ...]) -> float:
    parts = (value / 255 for value in channels)
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
