"""docs/environment.md lists every environment variable that the source reads, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "environment.md"
READ = (
    re.compile(r"""environ(?:\.get|\.setdefault|\.pop)?[\[(]\s*"([A-Z_]+)\""""),
    re.compile(r"""getenv\("([A-Z_]+)"\)"""),
    re.compile(r"""strtobool_env\("([A-Z_]+)"\)"""),
    re.compile(r"""environ\.get\((?:"([A-Z_]+)" if \w+ else "([A-Z_]+)")\)"""),
)
OF_LIBRARIES = {"HOME", "NO_COLOR", "FORCE_COLOR", "COLUMNS"}
"""Read by Python's library, rich and click on our behalf."""
CONSTANTS = {"TVM_ASSETS", "TVM_VERSION", "TILEWRIGHT_VERSION"}
"""Names of the package's own."""
NAMED = re.compile(r'"((?:TVM|TILEWRIGHT|OMP)_[A-Z_]+)"')
"""Variables that are read by names in lists, as by the thread pool."""


def sources() -> Iterator[Path]:
    for folder, endings in (("src", (".py", ".pyx")), ("native", (".cc", ".h")), ("build_backend", (".py",))):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in endings:
                yield path


def variables_read() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in sources():
        text = path.read_text(encoding="utf-8")
        for pattern in READ:
            for match in pattern.finditer(text):
                found.update({name: path for name in match.groups() if name})
        found.update(dict.fromkeys(set(NAMED.findall(text)) - CONSTANTS, path))
    return found


def test_the_page_lists_every_variable() -> None:
    listed = set(re.findall(r"^\| (.*?) \|", PAGE.read_text(), re.MULTILINE))
    names = {name for cell in listed for name in re.findall(r"`([A-Z_]+)`", cell)}
    read = variables_read()
    assert {"TVM_NUM_THREADS", "OMP_NUM_THREADS", "TILEWRIGHT_CACHE_BYTES", "CC", "CXX", "TMPDIR"} <= set(read)
    missing = {name: str(path.relative_to(ROOT)) for name, path in read.items() if name not in names}
    assert not missing, f"docs/environment.md does not tell of {missing}"
    unread = names - set(read) - OF_LIBRARIES
    assert not unread, f"docs/environment.md tells of variables that nothing reads: {unread}"


def test_pages_lead_to_it() -> None:
    assert "(environment.md)" in (ROOT / "docs" / "index.md").read_text()
