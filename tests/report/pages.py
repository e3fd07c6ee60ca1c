"""A run with its report, and a parser of the page: its sections, their text, and its links."""

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

from covpool.engine.training._loop import train
from covpool.report import write_report
from tiny import make_tree, tiny_recipe
from trees import break_image

SECTIONS = (
    "curves",
    "result",
    "maps",
    "neighbours",
    "mistakes",
    "spectra",
    "functions",
    "settings",
    "timings",
    "broken",
)
VOID = {"meta", "link", "img", "br", "path", "use", "line", "input"}
POINTERS = ("src", "href", "xlink:href", "action", "poster", "srcset", "data")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def reported_run(folder: Path) -> Path:
    """A tiny run and its report, with a broken image and a class name that must be escaped in HTML."""
    root = make_tree(folder / "tree")
    for part in ("train", "test"):
        (root / part / "red").rename(root / part / "red & <b>hot")
    break_image(root / "train" / "blue" / "3.png")
    train(tiny_recipe(root, data={"broken": "skip"}, train={"epochs": 2, "log_every": 1}), folder / "run")
    write_report(folder / "run")
    return folder / "run"


class Page(HTMLParser):
    """The text of a page by section, its links, and its ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: dict[str, str] = {}
        self.pointers: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, str]] = []  # (section, tag)
        self._open: list[str] = []
        self._section = "header"
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self.pointers += [values[name] for name in POINTERS if name in values]
        self.ids += [values["id"]] if "id" in values else []
        if tag == "section":
            self._section = values["id"]
        self.tags.append((self._section, tag))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text[self._section] = " ".join(f"{self.text.get(self._section, '')} {data}".split())

    def count(self, section: str, tag: str) -> int:
        return self.tags.count((section, tag))


def outside(html: str) -> list[str]:
    """Everything a page would load from elsewhere, or run."""
    pointers = [p for p in Page(html).pointers if not p.startswith(("#", "data:"))]
    loaded = [u for u in re.findall(r"url\(([^)]*)\)|@import", html) if not u.startswith(("#", "data:"))]
    return pointers + loaded + re.findall(r"<script|https?://|javascript:|\son\w+=", html)


def find_browser() -> str | None:
    """The Chromium named by the variable CHROMIUM, or one on the path."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)


def browse(browser: str, page: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Open a page in a headless browser with its own profile."""
    profile = f"--user-data-dir={page.parent / 'profile'}"
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", profile)
    command = [browser, *fixed, *options, page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
