"""Pages of the site in headless Chromium, at the width of a desk and of a telephone, in both palettes."""

import contextlib
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from html import unescape
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from report.pages import find_browser

BROWSER = find_browser()
PAGES = ("", "methods/isqrt/", "derivations/", "results/", "reference/ops/")
WIDTHS = (1280, 400)
# A page that opens every page in a frame of every width and palette, and writes down what it sees there.
PROBE = """<!doctype html><body><pre id="seen"></pre><script>
const look = (page, width, scheme) => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.style.width = width + "px";
  frame.style.height = "800px";
  frame.onload = () => {
    const inside = frame.contentDocument;
    inside.body.setAttribute("data-md-color-scheme", scheme);
    setTimeout(() => done({
      page, width, scheme,
      title: inside.title,
      overflow: inside.documentElement.scrollWidth - width,
      broken: [...inside.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src),
      flat: [...inside.querySelectorAll("math")].filter(maths => maths.getBoundingClientRect().height < 5).length,
      colors: [getComputedStyle(inside.body).color, getComputedStyle(inside.body).backgroundColor],
      hosts: frame.contentWindow.performance.getEntriesByType("resource").map(one => new URL(one.name).host),
    }), 300);
  };
  frame.src = "/" + page;
  document.body.append(frame);
});
(async () => {
  const seen = [];
  for (const page of PAGES) for (const width of WIDTHS) for (const scheme of ["default", "slate"])
    seen.push(await look(page, width, scheme));
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script></body>"""


class Quiet(SimpleHTTPRequestHandler):
    """A file server that does not print its requests."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port; yields its host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.long
@pytest.mark.skipif(BROWSER is None, reason="no Chromium on the path, and CHROMIUM names none")
def test_pages_fit_their_screen_and_ask_no_other_host(site: Path, tmp_path: Path) -> None:
    shutil.copytree(site, tmp_path / "site")
    probe = PROBE.replace("PAGES", json.dumps(PAGES)).replace("WIDTHS", json.dumps(WIDTHS))
    (tmp_path / "site" / "probe.html").write_text(probe)
    with served(tmp_path / "site") as host:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000"]
        command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000", "--dump-dom"]
        shown = subprocess.run([*command, f"http://{host}/probe.html"], capture_output=True, text=True, timeout=120)
    found = re.search(r'<pre id="seen">(.+?)</pre>', shown.stdout, re.DOTALL)
    assert found, shown.stderr
    views = json.loads(unescape(found[1]))
    assert len(views) == len(PAGES) * len(WIDTHS) * 2
    for view in views:
        assert "covpool" in view["title"] and view["overflow"] <= 0 and not view["broken"] and not view["flat"], view
        assert set(view["hosts"]) <= {host}, view
    assert len({tuple(view["colors"]) for view in views}) == 2, "both palettes have the same colors"


def test_the_server_serves_the_site(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("covpool")
    with served(tmp_path) as host, contextlib.closing(HTTPConnection(host)) as client:
        client.request("GET", "/")
        assert client.getresponse().read() == b"covpool"
