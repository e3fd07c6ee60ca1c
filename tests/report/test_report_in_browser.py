"""The report in a real browser, if there is one: layout, colors, no errors."""

import json
import re
import shutil
from html import escape, unescape
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from report.pages import SECTIONS, browse, find_browser

BROWSER = find_browser() or ""
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium on the path, and CHROMIUM names none")


# A frame around the page, as narrow as a phone, which a browser window cannot be; it reports what it contains.
FRAME = """<iframe srcdoc="{page}" style="width:{width}px;height:800px"></iframe><script>
document.querySelector("iframe").addEventListener("load", event => {{
  const page = event.target.contentDocument, size = element => element.getBoundingClientRect()
  document.body.dataset.found = JSON.stringify({{
    wide: page.documentElement.scrollWidth,
    sections: [...page.querySelectorAll("section")].filter(s => size(s).height > 60).map(s => s.id),
    plots: [...page.querySelectorAll("figure svg")].map(s => [size(s).width, size(s).height]),
    inside: [...page.querySelectorAll("figure, .pair, .tiles div")].every(e => size(e).right <= {width}),
    images: [...page.images].map(i => i.complete && i.naturalWidth > 0),
    loaded: event.target.contentWindow.performance.getEntriesByType("resource").map(r => r.name.slice(0, 40)),
  }})
}})</script>"""


@pytest.mark.parametrize("width", [1280, 768, 360], ids=["desktop", "tablet", "phone"])
def test_a_browser_shows_it_all(finished: Path, tmp_path: Path, width: int) -> None:
    html = (finished / "report.html").read_text()
    (tmp_path / "frame.html").write_text(FRAME.format(page=escape(html), width=width))
    done = browse(BROWSER, tmp_path / "frame.html", "--dump-dom", "--window-size=1400,900")
    assert "CONSOLE" not in done.stderr, done.stderr
    found = json.loads(unescape(re.search(r'data-found="([^"]*)"', done.stdout)[1]))
    assert found["sections"] == list(SECTIONS)
    assert found["wide"] <= width and found["inside"], "nothing is wider than the page"
    assert len(found["plots"]) == 10
    assert min(w for w, _ in found["plots"]) > 250 and min(h for _, h in found["plots"]) > 140
    assert found["images"] and all(found["images"])
    assert all(name.startswith("data:") for name in found["loaded"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_paints_it_in_light_and_dark(finished: Path, tmp_path: Path, scheme: str) -> None:
    shutil.copy(finished / "report.html", tmp_path)
    dark = ("--blink-settings=preferredColorScheme=0",) if scheme == "dark" else ()
    screenshot = tmp_path / "page.png"
    browse(BROWSER, tmp_path / "report.html", f"--screenshot={screenshot}", "--window-size=800,900", *dark)
    pixels = np.asarray(Image.open(screenshot).convert("L"), dtype=float)
    back = np.median(pixels)
    assert back > 230 if scheme == "light" else back < 60
    assert np.abs(pixels - back).max() > 150, "text stands out"
