"""Every import of the package goes upward on the list of layers, function-level imports included."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "src" / "tilewright"

LAYERS = [
    "support",
    "formats",
    "runtime",
    "rpc",
    "node",
    "ir",
    "script",
    "target",
    "tir",
    "arith",
    "tir.analysis",
    "tir.transform",
    "tir.schedule",
    "tir.tensor_intrin",
    "te",
    "codegen",
    "driver",
    "autotvm",
    "auto_scheduler",
    "topi",
    "scheduling",
    "relay",
    "micro",
    "vta",
    "contrib",
    "cli",
    "testing",
]


def name_of(path: Path) -> str:
    """The dotted name of a file's module below the package; "__init__" for the package itself."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(module: str) -> str | None:
    """The layer of a dotted module below the package; None for the package itself."""
    parts = module.split(".")
    if ".".join(parts[:2]) in LAYERS:
        return ".".join(parts[:2])
    return parts[0] if parts[0] in LAYERS else None


def imports_of(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """(line, dotted module below the package) of every import of the package among the nodes of a file."""
    found = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "tilewright":
            inner = (node.module or "").split(".")[1:]
            for alias in node.names:
                candidate = [*inner, alias.name]
                is_module = (ROOT.joinpath(*candidate)).is_dir() or ROOT.joinpath(*candidate).with_suffix(
                    ".py"
                ).exists()
                found.append((node.lineno, ".".join(candidate if is_module else inner)))
        elif isinstance(node, ast.ImportFrom) and node.level:
            found.append((node.lineno, "<relative import>"))
        elif isinstance(node, ast.Import):
            found += [
                (node.lineno, a.name.partition(".")[2]) for a in node.names if a.name.split(".")[0] == "tilewright"
            ]
    return found


def wrong_imports(module: str, imports: list[tuple[int, str]]) -> list[str]:
    """What a module imports from above; the package's top and its classic names are for programs and for the command line."""
    own = layer_of(module)
    wrong = []
    for line, target in imports:
        other = layer_of(target)
        if target == "<relative import>" or (own not in (None, "cli") and other is None):
            wrong.append(f"{module}:{line} imports {target or 'the package itself'}")
        elif own is not None and other is not None and LAYERS.index(other) > LAYERS.index(own):
            wrong.append(f"{module}:{line} ({own}) imports {target}, which is a layer above it")
    return wrong


def test_imports_go_upward() -> None:
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        module = name_of(path)
        if module != "__init__":
            wrong += wrong_imports(module, imports_of(ast.walk(ast.parse(path.read_text()))))
    assert not wrong, "\n".join(wrong)


def test_every_folder_is_a_layer() -> None:
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(LAYERS), f"folders that are no layer: {sorted(folders - set(LAYERS))}"


@pytest.mark.parametrize(
    ("module", "target", "refused"),
    [
        ("ir.expr", "tir.expr", True),
        ("tir.expr", "ir.expr", False),
        ("tir.expr", "tir.schedule", True),
        ("arith.simplify", "tir", False),
        ("relay.backend", "", True),
        ("relay.backend", "testing", True),
        ("cli.work", "", False),
    ],
)
def test_the_check_itself(module: str, target: str, refused: bool) -> None:
    assert bool(wrong_imports(module, [(1, target)])) is refused
