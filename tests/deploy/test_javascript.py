"""The JavaScript package as files; `make test-browser` runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tilewright.deploy.javascript import package_files
from tilewright.deploy.machines import MACHINES, machine_of
from tilewright.deploy.native_build import native_sources, runtime_sources

FOLDER = native_sources().root / "javascript"


def test_modules_become_one(tmp_path: Path) -> None:
    (tmp_path / "index.js").write_text('// The whole.\n\nexport {} from "./a.js";\nexport { f, G } from "./b.js";\n')
    (tmp_path / "a.js").write_text("export const one = 1;\n")
    (tmp_path / "b.js").write_text(
        'import { one } from "./a.js";\n\nexport function f() {\n  return one;\n}\nexport class G {}\n'
    )
    (tmp_path / "worker.js").write_text('import { f } from "./b.js";\n\nf();\n')
    (tmp_path / "package.json").write_text('{"version": "@VERSION@"}')
    files = package_files(tmp_path)
    assert sorted(files) == ["index.js", "package.json"]
    assert files["index.js"].decode() == (
        "// The whole.\n\nconst one = 1;\n\nfunction f() {\n  return one;\n}\nclass G {}\n\nexport { f, G };\n"
    )
    assert re.fullmatch(r"\d+\.\d+.*", json.loads(files["package.json"])["version"])


def test_the_source_of_workers_is_a_text(tmp_path: Path) -> None:
    """A worker's modules, each once and after what it imports: a bundler could not tell where they are."""
    (tmp_path / "index.js").write_text('export { start } from "./start.js";\n')
    (tmp_path / "start.js").write_text('export const start = () => "@WORKER@";\n')
    (tmp_path / "low.js").write_text("export const low = 1;\n")
    (tmp_path / "high.js").write_text('import { low } from "./low.js";\n\nexport const high = low;\n')
    (tmp_path / "worker.js").write_text(
        'import { high } from "./high.js";\nimport { low } from "./low.js";\n\nhigh + low;\n'
    )
    (tmp_path / "package.json").write_text("{}")
    module = package_files(tmp_path)["index.js"].decode()
    assert r'const start = () => "const low = 1;\n\nconst high = low;\n\nhigh + low;\n";' in module


def test_the_package_is_one_module_with_types() -> None:
    files = package_files(FOLDER)
    assert sorted(files) == ["index.d.ts", "index.js", "package.json", "rpc_server.html"]
    module, types = files["index.js"].decode(), files["index.d.ts"].decode()
    assert 'from "./' not in module and not re.search(r"^export (class|function|const)", module, re.MULTILINE)
    assert "@WORKER@" not in module
    listed = json.loads(files["package.json"])["files"]
    assert sorted([*listed, "package.json"]) == sorted([*files, "tilewright.wasm", "tilewright-threads.wasm"])
    public = re.search(r"^export \{ (.*) \};$", module, re.MULTILINE)
    assert public is not None
    for name in public[1].split(", "):
        assert re.search(rf"^export (class|function) {name}\b", types, re.MULTILINE), name


def test_every_module_is_listed() -> None:
    index = (FOLDER / "index.js").read_text()
    for path in FOLDER.glob("*.js"):
        assert path.name in ("index.js", "worker.js") or f'"./{path.name}"' in index


def test_webassembly_is_a_machine_of_its_own() -> None:
    assert (
        machine_of("llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128").name == machine_of("wasm32").name == "wasm32"
    )
    names = {p.name for p in runtime_sources(MACHINES["wasm32"])}
    assert {"exceptions.cc", "javascript.cc", "graph.cc", "aot.cc", "machine.cc"} <= names
    assert not {"shared_library.cc", "endpoint.cc", "posix"} & names
