"""Every import of the package goes upward on the list of layers, and none goes in a circle, function-level imports included."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
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
    "tuning",
    "autotvm",
    "auto_scheduler",
    "topi",
    "scheduling",
    "meta_schedule",
    "relay",
    "deploy",
    "micro",
    "contrib",
    "exec",
    "vta",
    "cli",
    "driver.tvmc",
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


def statements(body: Iterable[ast.AST], checked: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Statements with those inside of them, and whether only type checkers read them."""
    for node in body:
        yield node, checked
        inside = checked or isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for part in ("body", "handlers", "cases"):
            yield from statements(getattr(node, part, ()), inside)
        for part in ("orelse", "finalbody"):
            yield from statements(getattr(node, part, ()), checked)


@cache
def programs() -> dict[str, list[tuple[ast.AST, bool]]]:
    """The import statements of every module of the package, and whether only type checkers read them; packages by their own names."""
    return {
        name_of(path): [
            (node, checked)
            for node, checked in statements(ast.parse(path.read_text()).body)
            if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        for path in sorted(ROOT.rglob("*.py"))
    }


@cache
def known_modules() -> frozenset[str]:
    return frozenset(
        [
            *(name_of(path) for path in ROOT.rglob("*.py")),
            *(".".join(p.relative_to(ROOT).parts) for p in ROOT.rglob("*") if p.is_dir()),
        ]
    )


def imports_of(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """(line, dotted module below the package) of every import of the package among the nodes of a file."""
    found = []
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "tilewright":
            inner = (node.module or "").split(".")[1:]
            for alias in node.names:
                candidate = [*inner, alias.name]
                is_module = ".".join(candidate) in known_modules()
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
    for module, imports in programs().items():
        if module != "__init__":
            wrong += wrong_imports(module, imports_of([s for s, _ in imports]))
    assert not wrong, "\n".join(wrong)


RELAY = [
    "expr",
    "adt",
    "with_fields",
    "functor",
    "expr_functor",
    "type_functor",
    "ty",
    "parameters",
    "source_map",
    "texts",
    "printer",
    "excerpt",
    "cards",
    "size_rules",
    "scope_builder",
    "loops",
    "typing",
    "parser",
    "prelude",
    "rewriting",
    "evaluation",
    "op",
    "analysis",
    "dataflow_pattern",
    "transform",
    "qnn",
    "data_dep_optimization",
    "backend",
    "quantize",
    "collage",
    "build_module",
    "debug",
    "frontend",
    "testing",
    "rooms",
]
"""The rooms and modules of relay, each of which may import those before it: the language, the cards of operators, types, values,
operators, passes, what compiles, and what reads models. `op.contrib`, whose path is classic, holds no operators, but what external code
generators take of programs: it is among the passes."""


def relay_room(module: str) -> str | None:
    """The room that a dotted module below the package belongs to; None outside of relay, and for relay's own face."""
    parts = module.split(".")
    if parts[0] != "relay" or len(parts) == 1:
        return None
    return "transform" if parts[1:3] == ["op", "contrib"] else parts[1]


def wrong_in_relay(module: str, imports: list[tuple[int, str]]) -> list[str]:
    """What a module of relay imports from rooms above its own."""
    own = relay_room(module)
    if own is None:
        return []
    rooms = [(line, target, room) for line, target in imports if (room := relay_room(target)) is not None]
    return [
        f"{module}:{line} ({own}) imports {target}, which is a room above it"
        for line, target, room in rooms
        if RELAY.index(room) > RELAY.index(own)
    ]


def test_imports_go_upward_inside_relay() -> None:
    # Packages are faces of their modules: they hand out the classic names, wherever these stand.
    faces = {name_of(path) for path in ROOT.rglob("__init__.py")}
    wrong = []
    for module, imports in programs().items():
        if module not in faces:
            wrong += wrong_in_relay(module, imports_of([s for s, _ in imports]))
    assert not wrong, "\n".join(wrong)


def test_every_part_of_relay_has_its_place() -> None:
    parts = {name_of(path) for path in (ROOT / "relay").glob("*.py")} - {"relay"}
    parts |= {f"relay.{path.parent.name}" for path in (ROOT / "relay").glob("*/__init__.py")}
    assert {part.removeprefix("relay.") for part in parts} == set(RELAY)


def needed_modules() -> dict[str, set[str]]:
    """By module, the modules that it imports anywhere, but for those that only type checkers read. Packages are faces of their modules."""
    found: dict[str, set[str]] = {}
    faces = {name_of(path) for path in ROOT.rglob("__init__.py")}
    for module, imports in programs().items():
        needed = imports_of([s for s, checked in imports if not checked])
        if module not in faces:
            found[module] = {m for _, m in needed if m in programs() and m not in faces and m != module}
    return found


def circles(needs: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that need each other: what remains when those are taken away that nobody needs, or that need nobody."""
    left = {m: set(n) for m, n in needs.items()}
    while True:
        needed = set().union(*left.values()) if left else set()
        ends = [m for m, n in left.items() if not n & left.keys() or m not in needed]
        if not ends:
            break
        for m in ends:
            del left[m]
    found = []
    while left:
        reached: dict[str, set[str]] = {}
        for m in left:
            seen, waiting = set(), [m]
            while waiting:
                for other in left[waiting.pop()] & left.keys() - seen:
                    seen.add(other)
                    waiting.append(other)
            reached[m] = seen
        start = next(iter(left))
        group = {start} | {m for m in reached[start] if start in reached[m]}
        if len(group) > 1:
            found.append(sorted(group))
        for m in group:
            del left[m]
    return found


def test_no_import_goes_in_a_circle() -> None:
    found = circles(needed_modules())
    assert not found, "\n".join([", ".join(group) for group in found])


def test_circles_are_found() -> None:
    needs = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f"}, "f": {"e", "a"}}
    assert sorted(circles(needs)) == [["b", "c"], ["e", "f"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


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


@pytest.mark.parametrize(
    ("module", "target", "refused"),
    [
        ("relay.typing.infer_type", "relay.op.movement.create", True),
        ("relay.op.movement.create", "relay.typing.infer_type", False),
        ("relay.op.movement.create", "relay.op.contrib.dnnl", True),
        ("relay.op.contrib.dnnl", "relay.transform", False),
        ("relay.printer", "tir.expr", False),
        ("relay.frontend.common.value", "relay", False),
    ],
)
def test_the_check_inside_relay(module: str, target: str, refused: bool) -> None:
    assert bool(wrong_in_relay(module, [(1, target)])) is refused
