"""Changes of a whole model before it is compiled: layouts, mixed precision."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from tilewright.driver.tvmc.errors import TVMCException
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext, Sequential
from tilewright.support.errors import TVMError

LAYOUT_OPS = ("nn.conv2d", "nn.conv2d_transpose")
PRECISION_OPS = ("nn.conv2d", "nn.dense")
ARGUMENTS = (
    "desired_layout", "desired_layout_ops", "mixed_precision", "mixed_precision_ops", "mixed_precision_calculation_type",
    "mixed_precision_acc_type",
)  # fmt: skip


def generate_mixed_precision_rule(acc_dtype: str) -> Callable[[Any, str], list[Any]]:
    """The rule of an operator that computes in the narrow type and adds in `acc_dtype`."""

    def rule(call_node: Any, mixed_precision_type: str) -> list[Any]:
        from tilewright.relay.transform.mixed_precision import MIXED_PRECISION_ALWAYS

        return [MIXED_PRECISION_ALWAYS, acc_dtype, mixed_precision_type]

    return rule


class MixedPrecision:
    """While it is entered, these operators are computed in the narrow type, with sums in `acc_type`."""

    def __init__(self, ops: Sequence[str], acc_type: str) -> None:
        self.ops, self.acc_type = tuple(ops), acc_type
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        from tilewright.relay.testing.temp_op_attr import TempOpAttr

        rule = generate_mixed_precision_rule(self.acc_type)
        with ExitStack() as entering:
            for op in self.ops:
                entering.enter_context(TempOpAttr(op, "FTVMMixedPrecisionConversionType", rule))
            self._entered = entering.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._entered.close()


def convert_to_mixed_precision(
    mod: IRModule, ops: Sequence[str] | None = None, calculation_type: str = "float16", acc_type: str = "float16"
) -> IRModule:
    """The module with these operators (default: convolutions and dense layers) in a narrow type, and sums in `acc_type`."""
    from tilewright.relay import transform

    passes = [transform.InferType(), transform.ToMixedPrecision(calculation_type, 2), transform.InferType()]
    config = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}
    try:
        with MixedPrecision(ops or PRECISION_OPS, acc_type), PassContext(opt_level=3, config=config):
            made: IRModule = Sequential(passes)(mod)
    except (TVMError, AttributeError, ValueError) as error:
        raise TVMCException(f"Error converting mixed precision to {calculation_type}: {error}") from error
    return made


def convert_graph_layout(
    mod: IRModule, desired_layouts: str | Sequence[str], ops: Sequence[str] | None = None
) -> IRModule:
    """The module with operators (default: convolutions) in other layouts. desired_layouts: one for all, or one for each operator: that of
    the data, and after a colon that of the weights: "NCHW", "NHWC:HWIO". Raises TVMCException for layouts that they cannot have."""
    from tilewright.relay import transform

    layouts = [desired_layouts] if isinstance(desired_layouts, str) else list(desired_layouts)
    names = tuple(ops or LAYOUT_OPS)
    if len(layouts) not in (1, len(names)):
        raise TVMCException(
            f"Expected 'desired_layouts' to be one layout, or one for each of {', '.join(names)}, but got {', '.join(layouts)}"
        )
    each = layouts * len(names) if len(layouts) == 1 else layouts
    wanted = {}
    for name, layout in zip(names, each, strict=True):
        data, colon, kernel = layout.partition(":")
        wanted[name] = [data, kernel if colon else "default"]
    try:
        passes: list[Any] = [
            transform.RemoveUnusedFunctions(),
            transform.ConvertLayout(wanted),
            transform.FoldConstant(),
        ]
        with PassContext(opt_level=3):
            made: IRModule = Sequential(passes)(mod)
    except (TVMError, ValueError) as error:
        raise TVMCException(f"Error converting layout to {', '.join(layouts)}: {error}") from error
    return made


def apply_graph_transforms(mod: IRModule, args: Mapping[str, Any] | None) -> IRModule:
    """The module with the changes that arguments by name ask for."""
    if not args:
        return mod
    if args.get("desired_layout"):
        mod = convert_graph_layout(mod, args["desired_layout"], args.get("desired_layout_ops"))
    if args.get("mixed_precision"):
        mod = convert_to_mixed_precision(
            mod,
            args.get("mixed_precision_ops"),
            args.get("mixed_precision_calculation_type") or "float16",
            args.get("mixed_precision_acc_type") or "float16",
        )
    return mod


def parse_graph_transform_args(args: argparse.Namespace | Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that `apply_graph_transforms` takes."""
    given = args if isinstance(args, Mapping) else vars(args)
    return {name: given[name] for name in ARGUMENTS if name in given}


def generate_transform_args(parser: argparse.ArgumentParser) -> None:
    """Adds the options of these changes."""
    parser.add_argument(
        "--desired-layout",
        nargs="+",
        metavar="LAYOUT",
        help="convert the layouts of the model: NCHW, or NHWC:HWIO for data and weights; one for all operators, or one for each of"
        " --desired-layout-ops.",
    )
    parser.add_argument(
        "--desired-layout-ops",
        nargs="+",
        metavar="OP",
        help=f"the operators that --desired-layout converts (default: {' '.join(LAYOUT_OPS)}).",
    )
    parser.add_argument("--mixed-precision", action="store_true", help="compute in a narrow type (default: float16).")
    parser.add_argument(
        "--mixed-precision-ops",
        nargs="+",
        metavar="OP",
        help=f"the operators that --mixed-precision converts (default: {' '.join(PRECISION_OPS)}).",
    )
    parser.add_argument(
        "--mixed-precision-calculation-type",
        default="float16",
        choices=["float16", "bfloat16"],
        help="the type that operators compute in (default: float16).",
    )
    parser.add_argument(
        "--mixed-precision-acc-type",
        default="float16",
        choices=["float16", "float32", "bfloat16"],
        help="the type of their sums (default: float16).",
    )
