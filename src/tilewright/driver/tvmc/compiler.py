"""`tvmc compile`, and `tvmc.compile`: a model becomes a package."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.driver.tvmc.composite_target import get_codegen_by_target
from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.frontends import get_frontend_names, load_model
from tilewright.driver.tvmc.main import register_parser, with_defaults
from tilewright.driver.tvmc.model import OUTPUT_FORMATS, TVMCModel, TVMCPackage
from tilewright.driver.tvmc.offloads import dump_operation_offloads
from tilewright.driver.tvmc.pass_config import load_function, parse_configs
from tilewright.driver.tvmc.pass_list import parse_pass_list_str
from tilewright.driver.tvmc.registry import generate_registry_args, reconstruct_registry_entity
from tilewright.driver.tvmc.shape_parser import parse_shape_string
from tilewright.driver.tvmc.target import generate_target_args, reconstruct_target_args, target_from_cli
from tilewright.driver.tvmc.transform import apply_graph_transforms, generate_transform_args, parse_graph_transform_args
from tilewright.driver.tvmc.workspace_pools import generate_workspace_pools_args, workspace_pools_recombobulate
from tilewright.ir import IRModule
from tilewright.ir.instrument import PassPrintingInstrument, PassTimingInstrument
from tilewright.ir.transform import PassContext
from tilewright.relay.backend.options import Executor, Runtime
from tilewright.support.files import write_whole
from tilewright.target import Target

if TYPE_CHECKING:
    from tilewright.ir.memory_pools import WorkspaceMemoryPools

logger = logging.getLogger("TVMC")


@register_parser
def add_compile_parser(subparsers: Any, _: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "compile",
        help="compile a model",
        usage="tvmc compile [options] FILE",
        description="compile a model to a package",
    )
    parser.set_defaults(func=drive_compile)
    parser.add_argument("FILE", help="path to the input model file.")
    parser.add_argument("-o", "--output", default="module.tar", help="the package to write (default: module.tar).")
    parser.add_argument(
        "-f",
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="so",
        help="so: a package with a shared library; mlf: the model library format, for microcontrollers (default: so).",
    )
    parser.add_argument(
        "--model-format", choices=get_frontend_names(), help="the format of the model's file (default: by its suffix)."
    )
    parser.add_argument(
        "--input-shapes",
        type=parse_shape_string,
        metavar="SHAPES",
        help='shapes of inputs: "name:[dim1,dim2] name2:[dim1]". A negative dimension is dynamic, which needs --use-vm.',
    )
    parser.add_argument(
        "-O",
        "--opt-level",
        default=3,
        type=int,
        choices=range(4),
        metavar="[0-3]",
        help="the level up to which passes run (default: 3).",
    )
    parser.add_argument(
        "--use-vm", action="store_true", help="compile for the virtual machine: dynamic dimensions, control flow."
    )
    parser.add_argument(
        "--module-name", default="default", help="the name of the model in the library (default: default)."
    )
    parser.add_argument(
        "--cross-compiler", default="", help="the compiler that links the library: aarch64-linux-gnu-gcc."
    )
    parser.add_argument("--cross-compiler-options", default="", help="its options, separated by spaces.")
    parser.add_argument(
        "--dump-code",
        metavar="FORMATS",
        default="",
        help="also write the model in these forms, with commas: relay; tir, ll, asm, s (of the target llvm); c (of the target c). Each goes"
        " to a file beside the package.",
    )
    parser.add_argument(
        "--dump-offloads",
        metavar="FILE",
        default="",
        help="write which operators external code generators take, to a file, or for - to standard output.",
    )
    parser.add_argument(
        "--pass-config",
        action="append",
        metavar="name=value",
        help="an option of passes: tir.disable_vectorize=1, tir.add_lower_pass=1,my_module.my_pass. Repeat for more.",
    )
    parser.add_argument(
        "--disabled-pass",
        type=parse_pass_list_str,
        default=[],
        metavar="PASSES",
        help="passes not to run, with commas.",
    )
    parser.add_argument("--print-pass-times", action="store_true", help="print the time that each pass takes.")
    parser.add_argument(
        "--print-ir-before",
        type=parse_pass_list_str,
        default=[],
        metavar="PASSES",
        help="print the program before these passes.",
    )
    parser.add_argument(
        "--print-ir-after",
        type=parse_pass_list_str,
        default=[],
        metavar="PASSES",
        help="print the program after these passes.",
    )
    parser.add_argument(
        "--instruments",
        default="",
        metavar="CLASSES",
        help="instruments of passes, with commas: PassVerifier, my_module.MyInstrument. Each is made without arguments.",
    )
    parser.add_argument(
        "--tuning-records", metavar="PATH", default="", help="use the fastest kernels among these records of tuning."
    )
    generate_transform_args(parser)
    parser.add_argument("-v", "--verbose", action="count", default=argparse.SUPPRESS, help="increase verbosity.")
    generate_registry_args(parser, Executor, "graph")
    generate_registry_args(parser, Runtime, "cpp")
    generate_workspace_pools_args(parser)
    generate_target_args(parser)
    with_defaults(parser, json_params)


def drive_compile(args: argparse.Namespace) -> int:
    """Compiles what parsed arguments name; returns the exit code."""
    from tilewright.cli.options import check_writable
    from tilewright.cli.screen import shown_warnings

    check_writable(Path(args.output), "--output")
    options = reconstruct_target_args(args)
    target, codegens = target_from_cli(args.target, options)
    pools = workspace_pools_recombobulate(args, [target] + ([target.host] if target.host else []), codegens)
    with shown_warnings():
        model = load_model(args.FILE, args.model_format, args.input_shapes)
        compile_model(
            model,
            args.target,
            opt_level=args.opt_level,
            executor=reconstruct_registry_entity(args, Executor),
            runtime=reconstruct_registry_entity(args, Runtime),
            tuning_records=args.tuning_records or None,
            package_path=args.output,
            cross=args.cross_compiler or None,
            cross_options=args.cross_compiler_options or None,
            output_format=args.output_format,
            dump_code=args.dump_code,
            dump_offloads=args.dump_offloads,
            disabled_pass=args.disabled_pass,
            pass_context_configs=args.pass_config,
            additional_target_options=options,
            use_vm=args.use_vm,
            mod_name=args.module_name,
            workspace_pools=pools,
            print_pass_times=args.print_pass_times,
            print_ir_before=args.print_ir_before,
            print_ir_after=args.print_ir_after,
            instruments=[_instrument(name.strip()) for name in args.instruments.split(",") if name.strip()],
            **parse_graph_transform_args(args),
        )
    return 0


def _instrument(name: str) -> Any:
    return load_function(name if "." in name else f"tilewright.ir.instrument.{name}")()


def compile_model(
    tvmc_model: TVMCModel,
    target: str | Target | Mapping[str, Any],
    opt_level: int = 3,
    executor: Executor | str | None = "graph",
    runtime: Runtime | str | None = "cpp",
    tuning_records: str | None = None,
    package_path: str | os.PathLike[str] | None = None,
    cross: str | Callable[..., Any] | None = None,
    cross_options: str | None = None,
    output_format: str = "so",
    dump_code: str | Sequence[str] | None = None,
    dump_offloads: str = "",
    target_host: str | Target | None = None,
    disabled_pass: str | Sequence[str] | None = None,
    pass_context_configs: Sequence[str] | None = None,
    additional_target_options: Mapping[str, Mapping[str, Any]] | None = None,
    use_vm: bool = False,
    mod_name: str | None = "default",
    workspace_pools: WorkspaceMemoryPools | None = None,
    print_pass_times: bool = False,
    print_ir_before: Sequence[str] | None = None,
    print_ir_after: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
    desired_layout: str | Sequence[str] | None = None,
    desired_layout_ops: Sequence[str] | None = None,
    mixed_precision: bool = False,
    mixed_precision_ops: Sequence[str] | None = None,
    mixed_precision_calculation_type: str | None = None,
    mixed_precision_acc_type: str | None = None,
) -> TVMCPackage:
    """Compiles a model, and writes it as a package, which `run` takes.

    tuning_records: a file of `tune`; default: the one that goes with the model, if it was tuned. target: as --target takes it, or a Target;
    its options may be apart: additional_target_options, {kind: {option: value}}. executor, runtime: of relay.backend. package_path: of
    the file; default: one that goes with the model. cross, cross_options: the compiler that links the library, and its options.
    output_format: "so", "tar" or "mlf". dump_code: forms to write beside the package: "relay", "tir", "ll", "asm", "c". dump_offloads:
    a file for what external code generators take, or "-". disabled_pass, instruments, print_..., pass_context_configs ("name=value"):
    of the passes. use_vm: for the virtual machine. mod_name: of the model in the library. desired_layout, mixed_precision and those
    that begin so: see `transform`. Raises TVMCException, and what compiling raises.
    """
    texts = dump_code.split(",") if isinstance(dump_code, str) else dump_code or ()
    forms = [form.strip() for form in texts if form.strip()]
    config = parse_configs(pass_context_configs)
    records = tuning_records or tvmc_model.default_tuning_records_path()
    if tuning_records or os.path.exists(records):
        config["relay.plans"] = os.fspath(records)
    chosen, codegens = target_from_cli(target, additional_target_options)
    if target_host is not None:
        chosen = Target(chosen, target_host)
    name = mod_name or "default"
    pipelines = []
    for codegen in codegens:
        entry = get_codegen_by_target(codegen["name"])
        if entry["config_key"] is not None:
            config[entry["config_key"]] = codegen["opts"]
        pipelines.append((entry["pass_pipeline"], codegen["opts"] if entry["config_key"] is None else {}))
    changes = parse_graph_transform_args(locals())
    watching = list(instruments or ())
    timing = PassTimingInstrument()
    watching += [timing] if print_pass_times else []
    if print_ir_before or print_ir_after:
        watching.append(PassPrintingInstrument(print_ir_before or (), print_ir_after or ()))
    disabled = parse_pass_list_str(disabled_pass) if isinstance(disabled_pass, str) else disabled_pass

    def partitioned(mod: IRModule) -> IRModule:
        for pipeline, opts in pipelines:
            mod = pipeline(mod, tvmc_model.params, mod_name=name, **opts)
        return mod

    with PassContext(opt_level, disabled_pass=disabled, instruments=watching, config=config):
        changed = apply_graph_transforms(tvmc_model.mod, changes)
        if not use_vm:
            need_static(changed)
        mod = partitioned(changed)
        if dump_offloads:
            dump_operation_offloads(mod, changed, dump_offloads, partitioned)
        factory = build(mod, chosen, executor, runtime, tvmc_model.params, use_vm, name, workspace_pools)
        if print_pass_times:
            print(timing.render())
    dumps = {form: _source(factory, mod, form) for form in forms}
    path = tvmc_model.export_package(factory, package_path, cross, cross_options, output_format)
    save_dumps(path, dumps, "")
    return TVMCPackage(path)


def need_static(mod: IRModule) -> None:
    """Raises TVMCException for a model that only the virtual machine runs."""
    from tilewright.relay.frontend.common.module import is_static
    from tilewright.relay.typing.infer_type import infer_module

    if not is_static(infer_module(mod)):
        raise TVMCException(
            "the model has dynamic dimensions or control flow, which the executors of graphs do not run: compile it for the virtual machine"
            " (--use-vm, use_vm=True), or give all dimensions (--input-shapes, shape_dict=)"
        )


def build(
    mod: IRModule,
    tvm_target: Target,
    executor: Executor | str | None,
    runtime: Runtime | str | None,
    params: Mapping[str, Any],
    use_vm: bool,
    mod_name: str,
    workspace_pools: WorkspaceMemoryPools | None = None,
) -> Any:
    """The compiled module: of relay.build, or of relay.vm.compile with `use_vm`."""
    if use_vm:
        from tilewright.relay.backend import vm

        logger.debug("building for the virtual machine")
        return vm.compile(mod, tvm_target, params=params)
    from tilewright.relay.backend.build import build as build_model

    logger.debug("building for %s and %s", executor, runtime)
    return build_model(
        mod,
        tvm_target,
        executor=executor,
        runtime=runtime,
        workspace_memory_pools=workspace_pools,
        params=params,
        mod_name=mod_name,
    )


def _source(factory: Any, mod: IRModule, form: str) -> str:
    """The text of a compiled model in one of its forms."""
    if form == "relay":
        return str(mod)
    texts = factory.get_source if hasattr(factory, "get_source") else factory.lib.get_source
    try:
        return str(texts(form))
    except ValueError as error:
        raise TVMCException(f"--dump-code {form}: {error}; besides, relay") from error


def save_dumps(module_name: str, dumps: Mapping[str, str], dump_root: str = ".") -> None:
    """Writes each text to `<dump_root>/<module_name>.<form>`."""
    for form, text in dumps.items():
        write_whole(os.path.join(dump_root, f"{module_name}.{form}"), text.encode())


def add_tir_to_dumps(config: dict[str, Any], dumps: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration with a pass after which `dumps["tir"]` holds every lowered function, as text, and `dumps`."""
    from tilewright.tir.transform import prim_func_pass

    parts: list[str] = []

    def keep(func: Any, mod: IRModule, ctx: PassContext) -> Any:
        parts.append(str(func))
        dumps["tir"] = "\n\n".join(parts)
        return func

    passes = [*config.get("tir.add_lower_pass", ()), (3, prim_func_pass(keep, name="tvmc.dump_tir"))]
    return {**config, "tir.add_lower_pass": passes}, dumps
