"""Every page of the documentation that teaches by code: the code runs, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.examples.pages import blocks_of, run_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(p.name for p in DOCS.glob("*.md") if "```python" in p.read_text())


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a page writes
    run_page(DOCS / name)


def test_the_tensor_program_of_the_readme(tmp_path: Path) -> None:
    """The model needs a file of the reader's; the tensor program runs as it is."""
    text = (ROOT / "README.md").read_text()
    model, program = [b for b in blocks_of(text) if b.language == "python"]
    assert "model.onnx" in "\n".join(model.lines)
    page = tmp_path / "readme.md"
    page.write_text("```python\n" + "\n".join(program.lines) + "\n```\n")
    run_page(page)


def test_pages_are_listed() -> None:
    index = (DOCS / "index.md").read_text()
    assert not [name for name in PAGES if f"({name})" not in index], "pages that index.md does not name"
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda p: p.name)
def test_links_and_length(path: Path) -> None:
    text = path.read_text()
    prose = re.sub(r"^```.*?^```$|^ {4}[^\n]*", "", text, flags=re.M | re.S)  # without code
    for target in re.findall(r"\]\(([^)#:]+)\)", prose):
        assert (path.parent / target).exists(), f"{path.name} links to {target}, which is not there"
    # A page is read at one sitting; lists of all there is are looked up.
    assert len(text.splitlines()) <= (262 if path.name in PAGES else 600)


def test_the_runner_itself(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Words.\n\n```python\nx = 2\nprint('x is', x)\n```\n\n```text\nx is 2\n```\n\n```python\nprint(x, id(x))\n```\n"
        "```text\n2 ...\n```\nSomething like\n```text\nnot checked\n```\n"
    )
    assert [b.language for b in blocks_of(page.read_text())] == ["python", "text", "python", "text", "prose"]
    run_page(page)
    page.write_text("```python\nprint(1)\n```\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match=r"page.md:5: the page shows\n2\n\nbut the code prints\n1"):
        run_page(page)
    page.write_text("\n```python\n\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno == 3 and str(caught.traceback[-1].path) == str(page)
