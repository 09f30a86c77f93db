"""The JavaScript package of the runtime: its modules as one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tilewright.support.version import VERSION

_LISTED = re.compile(r'^export \{(.*)\} from "\./(.+)";$', re.MULTILINE)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(.+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=async |class |const |function)", re.MULTILINE)
_WORKER = '"@WORKER@"'
"""Where the package has the source of its workers as a text."""


def package_files(folder: Path) -> dict[str, bytes]:
    """The files of the package by name. `index.js` lists modules in order with their public names; it becomes one module of them all, which
    has `worker.js` with what it imports as a text."""
    index = (folder / "index.js").read_text()
    parts = [_LISTED.sub("", index).rstrip() + "\n"]
    names: list[str] = []
    inside = {"index.js", "worker.js"}
    for listed in _LISTED.finditer(index):
        public, name = listed.groups()
        parts.append(_body(folder / name))
        names += public.replace(",", " ").split()
        inside.add(name)
    parts.append(f"export {{ {', '.join(names)} }};\n")
    worker = "\n".join(_body(folder / name) for name in _needed(folder, "worker.js"))
    text = "\n".join(parts).replace(_WORKER, json.dumps(worker))
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in inside}
    files["package.json"] = files["package.json"].replace(b"@VERSION@", VERSION.encode())
    return {"index.js": text.encode(), **files}


def _body(path: Path) -> str:
    """A module without its imports, and without `export`."""
    return _EXPORT.sub("", _IMPORT.sub("", path.read_text())).strip() + "\n"


def _needed(folder: Path, name: str) -> list[str]:
    """A module after all that it imports."""
    found: dict[str, None] = {}
    for other in _IMPORT.findall((folder / name).read_text()):
        found |= dict.fromkeys(_needed(folder, other))
    return [*found, name]
