"""The JavaScript package of the runtime: its modules as one."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.support.version import VERSION

_LISTED = re.compile(r'^export \{(.*)\} from "\./(.+)";$', re.MULTILINE)
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./.+";\n', re.MULTILINE)


def package_files(folder: Path) -> dict[str, bytes]:
    """The files of the package by name. `index.js` lists modules in order with their public names; it becomes one module of them all."""
    index = (folder / "index.js").read_text()
    parts = [_LISTED.sub("", index).rstrip() + "\n"]
    names: list[str] = []
    inside = {"index.js"}
    for listed in _LISTED.finditer(index):
        public, name = listed.groups()
        text = _IMPORT.sub("", (folder / name).read_text())
        parts.append(re.sub(r"^export (?=async |class |const |function)", "", text, flags=re.MULTILINE).strip() + "\n")
        names += public.replace(",", " ").split()
        inside.add(name)
    parts.append(f"export {{ {', '.join(names)} }};\n")
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in inside}
    files["package.json"] = files["package.json"].replace(b"@VERSION@", VERSION.encode())
    return {"index.js": "\n".join(parts).encode(), **files}
