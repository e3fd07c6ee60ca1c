"""The site of the documentation: it builds without warnings, and nothing on its pages is broken."""

import ast
import inspect
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

import covpool

KNOWN = """
a abbr article aside b body br button code dd details div dl dt em figure footer form h1 h2 h3 h4 h5 h6 head header hr
html img input kbd label li link main meta nav noscript ol p path pre s script section small span strong style sub
summary sup svg table tbody td th thead title tr ul
math mfrac mi mn mo mover mroot mrow mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover
"""
TAGS = set(KNOWN.split())
LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
}  # what a browser fetches unasked
ASCII_MATHS = re.compile(r"[\w)|]\^[\w({-]|sqrt\(|<=|>=|<-|\bSigma\b|\bsum_|\b[a-zA-Z]_[a-zA-Z0-9]\b")
NO_REQUEST = {"canonical", "next", "prev"}  # relations of a link that a browser does not fetch


class Page(HTMLParser):
    """What the tests need to know of a page: its tags, ids, links, resources and text outside code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.text = ""
        self.maths = ""
        self.uncolored = ""  # text of code blocks that are in no language
        self._in_block = self._colored = False
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.add(tag)
        self.ids.add(values.get("id") or values.get("name") or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if (loaded := values.get(LOADS.get(tag, ""))) and values.get("rel") not in NO_REQUEST:
            self.resources.append(loaded)
        if tag == "pre":
            self._in_block, self._colored = True, False
        self._colored |= tag == "span" and bool(values.get("class"))
        if tag in ("code", "script", "style", "math"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()
        if tag == "pre":
            self._in_block = False

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.text += data
        elif self._inside[-1] == "math":
            self.maths += data
        elif self._in_block and not self._colored:
            self.uncolored += data


def faults(path: Path, pages: dict[Path, Page], root: Path) -> list[str]:
    """Everything that is wrong with a page, one sentence per fault."""
    page = pages[path]
    found = [f"unknown tag <{tag}>" for tag in sorted(page.tags - TAGS)]
    found += ["a code fence that is not parsed"] if "```" in page.text else []
    found += ["mathematics that is not converted"] if any(mark in page.text for mark in ("$$", "\\(", "\\[")) else []
    found += [f"a LaTeX command that is not known: {page.maths}"] if "\\" in page.maths or "&" in page.maths else []
    found += [f"a formula as plain text: {one}" for one in ASCII_MATHS.findall(page.text + page.uncolored)]
    for address in page.resources:
        if "//" in address:
            found.append(f"a request to another host: {address}")
        elif not address.startswith("data:") and not target(path, address, root).is_file():
            found.append(f"missing file {address}")
    for link in page.links:
        address, anchor = urldefrag(link)
        if ":" in address:
            continue
        goal = target(path, address, root) if address else path
        if not goal.is_file():
            found.append(f"dead link {link}")
        elif anchor and goal in pages and unquote(anchor) not in pages[goal].ids:
            found.append(f"dead anchor {link}")
    return found


def target(page: Path, address: str, root: Path) -> Path:
    """The file that an address on a page leads to."""
    address = unquote(address.partition("?")[0])
    path = (root / address.lstrip("/") if address.startswith("/") else page.parent / address).resolve()
    return path / "index.html" if path.is_dir() else path


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def test_nothing_on_a_page_is_broken(site: Path, pages: dict[Path, Page]) -> None:
    broken = {path: faults(path, pages, site) for path in pages if path.name != "404.html"}
    lines = [f"{path.relative_to(site)}: {fault}" for path, found in broken.items() for fault in found]
    assert len(pages) > 40 and not lines, "\n".join(lines)


def test_styles_ask_no_other_host(site: Path) -> None:
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?https?:|@import", style.read_text()), style


def test_pages_do_not_ask_for_the_facts_of_the_repository(pages: dict[Path, Page]) -> None:
    """The theme's script asks api.github.com where a page has the element for them."""
    assert not any('data-md-component="source"' in path.read_text() for path in pages)


def test_wide_tables_scroll_in_a_box_of_their_own(pages: dict[Path, Page]) -> None:
    for path in pages:
        text = path.read_text()
        assert text.count("<table>") == text.count('<div class="table"><table>'), path


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<p>Inner products <G, dF[H]> vanish.</p>", "unknown tag <g"),
        ("<p>```python no-run</p>", "a code fence"),
        ("<p>$$x$$</p>", "mathematics that is not converted"),
        ("<p>z = Sigma</p>", "a formula as plain text: Sigma"),
        (r"<math><mi>\foo</mi></math>", "a LaTeX command"),
        ('<img src="a.png">', "missing file a.png"),
        ('<a href="../b/">b</a>', "dead link ../b/"),
        ('<a href="#c">c</a>', "dead anchor #c"),
        ('<script src="https://example.org/a.js"></script>', "a request to another host"),
    ],
)
def test_faults_are_found(body: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(body)
    found = faults(path, {path: Page(body)}, tmp_path)
    assert len(found) == 1 and found[0].startswith(fault)


def test_a_sound_page_has_no_faults(tmp_path: Path) -> None:
    path = tmp_path / "index.html"
    path.write_text(body := '<h1 id="a">A</h1><code>```</code><a href="#a">A</a><a href="https://example.org">B</a>')
    assert faults(path, {path: Page(body)}, tmp_path) == []


def test_the_reference_describes_every_public_name(pages: dict[Path, Page]) -> None:
    reference = {identifier for path, page in pages.items() if "reference" in path.parts for identifier in page.ids}
    packages = [covpool.blocks, covpool.diagnostics, covpool.io, covpool.models, covpool.ops, covpool.pools]
    names = {f"covpool.{name}" for name in covpool.__all__}
    for package in packages:
        tree = ast.parse(inspect.getsource(package))
        names |= {
            f"{package.__name__}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname == alias.name
        }
    assert len(names) > 100 and names <= reference, sorted(names - reference)
