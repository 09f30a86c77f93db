"""docs/relay_passes.md lists the passes; it is generated from their docstrings and from the properties that they need and give."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tilewright import relay
from tilewright.ir.transform import Pass, PassContext
from tilewright.relay import analysis
from tilewright.relay import transform as P
from tilewright.target import make_compilation_config

PAGE = Path(__file__).parents[3] / "docs" / "relay_passes.md"
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "Conv2dToSparse": ([], []), "Conv2dToSparse2": ("NHWC", 1, (1, 1), 0.5), "DenseToSparse": ([], []),
    "AnnotateTarget": ("ccompiler",), "ChangeBatch": ({},),
    "CollagePartition": (make_compilation_config(PassContext(), "llvm"),), "ConvertLayout": ({"nn.conv2d": ["NHWC", "default"]},),
    "FlexibleShapeDispatch": ([1, 8],), "InlineCompilerFunctionsBoundTo": ([],), "MergeComposite": ([],),
    "InlineComposites": ("ccompiler",),
    "PlanDevices": (make_compilation_config(PassContext(), "llvm"),), "SimplifyFCTranspose": ([],),
    "SplitArgs": (16,),
}  # fmt: skip
FUNCTIONS_LIKE_PASSES = {"Defunctionalization", "ToCPS"}
NOT_PASSES = {"FunctionPass", "ModulePass", "Pass", "PassContext", "PassInfo", "Sequential", "LayoutConfig", "PrintIR"}
HEAD = """# Passes of relay

Reference of all passes in `tvm.relay.transform`, and of the functions in `tvm.relay.analysis`. A pass can be called on an IRModule,
or put into a `tvm.transform.Sequential`. `relay/backend/compilation.py` shows the order in which `relay.build` runs its passes.

- `level`: a `Sequential` runs the pass if the `opt_level` of the `PassContext` is at least this.
- `needs`, `gives`: properties of programs. A pass can run only after passes that give what it needs.

To observe passes, use the instruments of `tvm.instrument` in `PassContext(instruments=[...])`:

| instrument | what it does |
|---|---|
| `PassTimingInstrument` | measures the time of each pass |
| `PrintBefore`, `PrintAfter`, `print_changed`, `DumpIR` | print programs, print changes, write programs to files |
| `PassVerifier` | names the first pass that makes a module invalid |
| `HtmlReport` | writes the whole compilation as one HTML file |

This page is generated from the docstrings (`pytest tests/relay/transform/test_pass_list.py --update`).

## Passes

| pass | level | needs | gives | what it does |
|---|---|---|---|---|
"""
FUNCTIONS = """
## Functions

| function | what it returns |
|---|---|
"""
ANALYSES = """
## Analyses

`tvm.relay.analysis`:

| function | what it returns |
|---|---|
"""


def passes() -> dict[str, Any]:
    names = {
        n
        for n in P.__all__
        if n[0].isupper() and n not in NOT_PASSES | FUNCTIONS_LIKE_PASSES and not n.endswith(("Expr", "Local"))
    }
    return {n: getattr(P, n) for n in sorted(names | {"SimplifyExpr"})}


def functions() -> dict[str, Any]:
    return {
        n: getattr(P, n) for n in sorted(P.__all__) if n not in passes() and n not in NOT_PASSES and n != "module_pass"
    }


def analyses() -> dict[str, Any]:
    found = {n: getattr(analysis, n) for n in sorted(analysis.__all__)}
    return {n: f for n, f in found.items() if inspect.isfunction(f) and not n.startswith("_")}


def made(name: str) -> Pass:
    found = passes()[name](*ARGUMENTS.get(name, ()))
    assert isinstance(found, Pass)
    return found


def summary(factory: Any) -> str:
    """The docstring's first paragraph, on one line."""
    text = inspect.getdoc(factory) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def signature(factory: Any) -> str:
    inner = factory.__init__ if inspect.isclass(factory) else factory
    names = [n for n in inspect.signature(inner).parameters if n not in ("self", "args", "kwargs")]
    return ", ".join(names)


def page() -> str:
    lines = []
    for name, factory in passes().items():
        info = made(name).info
        options = signature(inspect.unwrap(factory)) or signature(getattr(made(name), "inner", None).__class__)
        cells = [
            f"`{name}({options})`",
            str(info.opt_level),
            " ".join(info.needs),
            " ".join(info.gives),
            summary(factory),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    rows = [f"| `{n}({signature(f)})` | {summary(f)} |" for n, f in functions().items()]
    asked = [f"| `{n}({signature(f)})` | {summary(f)} |" for n, f in analyses().items()]
    return HEAD + "\n".join(lines) + "\n" + FUNCTIONS + "\n".join(rows) + "\n" + ANALYSES + "\n".join(asked) + "\n"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update", default=False):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), (
        "docs/relay_passes.md is old: pytest tests/relay/transform/test_pass_list.py --update"
    )


@pytest.mark.parametrize("name", passes())
def test_passes_have_their_classic_names_and_are_described(name: str) -> None:
    assert made(name).info.name == name
    assert summary(passes()[name]).endswith(".") and len(summary(passes()[name])) > 20


@pytest.mark.parametrize("name", [*functions(), *analyses()])
def test_functions_are_described(name: str) -> None:
    found = {**functions(), **analyses()}[name]
    assert summary(found).endswith(".") and len(summary(found)) > 20


CLASSIC = """AlterOpLayout AnnotateSpans AnnotateTarget AnnotateUsedMemory BackwardFoldScaleAxis BatchingOps
CanonicalizeCast CanonicalizeOps CapturePostDfsIndexInSpans ChangeBatch CombineParallelBatchMatmul
CombineParallelConv2D CombineParallelDense Conv2dToSparse Conv2dToSparse2 ConvertLayout DeadCodeElimination
Defunctionalization DefuseOps DenseToSparse DivToMul DynamicToStatic EliminateCommonSubexpr EtaExpand
FakeQuantizationToInteger FastMath FirstOrderGradient FlattenAtrousConv FlexibleShapeDispatch FoldConstant
FoldConstantExpr FoldExplicitPadding FoldScaleAxis ForwardFoldScaleAxis FunctionPass FuseOps InferType
InferTypeLocal Inline InlineCompilerFunctionsBoundTo InlineComposites LabelOps LambdaLift LayoutConfig LazyGradientInit
Legalize MarkCompilerFunctionsAsExtern MergeCompilerRegions MergeComposite
OutlineCompilerFunctionsWithExistingGlobalSymbols PartialEvaluate PartitionGraph PlanDevices
RemoveUnusedFunctions SimplifyExpr SimplifyExprPostAlterOp SimplifyFCTranspose SimplifyInference SplitArgs
ToANormalForm ToANormalFormExpr ToBasicBlockNormalForm ToGraphNormalForm ToMixedPrecision build_config
function_pass gradient recast to_cps un_cps""".split()


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_names_are_there(name: str) -> None:
    assert callable(getattr(relay.transform, name))


def test_settings_by_their_older_name() -> None:
    with relay.build_config(opt_level=3, disabled_pass=["FuseOps"]) as ctx:
        assert (ctx.opt_level, ctx.disabled_pass) == (3, ("FuseOps",))
