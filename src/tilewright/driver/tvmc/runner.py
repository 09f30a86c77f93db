"""`tvmc run`, and `tvmc.run`: a package is run, here or on a board, and measured."""

from __future__ import annotations

import argparse
import json
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import rpc, runtime
from tilewright.contrib import graph_executor
from tilewright.driver.tvmc.errors import TVMCException
from tilewright.driver.tvmc.main import register_parser, with_defaults
from tilewright.driver.tvmc.micro import project_package
from tilewright.driver.tvmc.model import TVMCPackage, TVMCResult
from tilewright.driver.tvmc.project import get_and_check_options, get_project_dir, get_project_options, listed
from tilewright.driver.tvmc.result_utils import get_top_results
from tilewright.driver.tvmc.tracker import tracker_host_port_from_cli
from tilewright.node.field_values import numpy_dtype
from tilewright.runtime import Device, Module, load_param_dict, profiling
from tilewright.runtime.module import time_function
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import TVMError

logger = logging.getLogger("TVMC")

DEVICES = ("cpu", "cuda", "cl", "metal", "vulkan", "rocm", "micro")
FILL_MODES = ("zeros", "ones", "random")
REQUEST_SECONDS = 1000
"""How long a run waits for a board of the tracker, and how long it may use it."""

Array = np.ndarray[Any, Any]
Extents = Mapping[str, Sequence[Any]]


@register_parser
def add_run_parser(
    subparsers: Any, main_parser: argparse.ArgumentParser, json_params: Sequence[Mapping[str, Any]]
) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "run",
        help="run a compiled package",
        usage="tvmc run [options] PATH",
        description="run a package that tvmc compile wrote",
    )
    parser.set_defaults(func=drive_run)
    parser.add_argument("PATH", help="path to the package; with --device micro, to the project.")
    parser.add_argument("--device", choices=DEVICES, default="cpu", help="the device to run on (default: cpu).")
    parser.add_argument("-i", "--inputs", metavar="FILE", help="an .npz file with an array for each input.")
    parser.add_argument("-o", "--outputs", metavar="FILE", help="an .npz file to write the outputs to: output_0, ...")
    parser.add_argument(
        "--fill-mode",
        choices=FILL_MODES,
        default="random",
        help="values of inputs that --inputs does not give (default: random).",
    )
    parser.add_argument("--print-time", action="store_true", help="measure runs, and print the times.")
    parser.add_argument(
        "--print-top",
        metavar="N",
        type=positive,
        help="print the N largest values of the first output, and their places.",
    )
    parser.add_argument("--profile", action="store_true", help="print the time of each kernel.")
    parser.add_argument(
        "--end-to-end", action="store_true", help="measure with what setting inputs and fetching outputs takes."
    )
    parser.add_argument(
        "--repeat", metavar="N", type=positive, default=1, help="how many times are measured (default: 1)."
    )
    parser.add_argument("--number", metavar="N", type=positive, default=1, help="runs that make one time (default: 1).")
    parser.add_argument("--rpc-key", metavar="KEY", help="the key of the board at the tracker.")
    parser.add_argument(
        "--rpc-tracker",
        metavar="HOST:PORT",
        help="the tracker to ask for a board with --rpc-key; without a key, the server of a board. Port 9090 if none is given.",
    )
    parser.add_argument("--rpc-key-file", metavar="FILE", help="the secret that the tracker and the board must know.")
    parser.add_argument(
        "--rpc-tls-ca", metavar="FILE", help="a file of certificates; the tracker and the board must have one of them."
    )
    parser.add_argument(
        "--project-option",
        nargs="+",
        action="extend",
        metavar="NAME=VALUE",
        help="options of a project (--device micro).",
    )
    parser.add_argument("--list-options", action="store_true", help="list the options of a project (--device micro).")
    parser.add_argument("-v", "--verbose", action="count", default=argparse.SUPPRESS, help="increase verbosity.")
    with_defaults(parser, json_params)


def positive(text: str) -> int:
    """A number above zero. Raises argparse.ArgumentTypeError for other text."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)


def drive_run(args: argparse.Namespace) -> int:
    """Runs what parsed arguments name; returns the exit code."""
    from tilewright.cli.options import check_writable

    on_board = args.device == "micro"
    if not on_board and (args.list_options or args.project_option):
        raise TVMCException("--list-options and --project-option are of projects for microcontrollers: --device micro")
    if on_board and args.list_options:
        print(project_options(args.PATH))
        return 0
    if args.outputs:
        check_writable(Path(args.outputs), "--outputs")
    hostname, port = tracker_host_port_from_cli(args.rpc_tracker)
    for option in ("rpc_key", "rpc_key_file", "rpc_tls_ca"):
        if getattr(args, option) and hostname is None:
            raise TVMCException(f"--{option.replace('_', '-')} needs --rpc-tracker, the tracker to ask for a board")
    result = run_module(
        TVMCPackage(project_package(args.PATH), args.PATH) if on_board else TVMCPackage(args.PATH),
        args.device,
        hostname=hostname,
        port=port,
        rpc_key=args.rpc_key,
        inputs=read_inputs(args.inputs) if args.inputs else {},
        fill_mode=args.fill_mode,
        benchmark=args.print_time,
        repeat=args.repeat,
        number=args.number,
        profile=args.profile,
        end_to_end=args.end_to_end,
        options=args.project_option,
        key_file=args.rpc_key_file,
        tls_ca=args.rpc_tls_ca,
    )
    if args.print_time:
        print(result.format_times())
    if args.print_top:
        print(get_top_results(result, args.print_top))
    if args.outputs:
        result.save(args.outputs)
    return 0


def read_inputs(path: str) -> dict[str, Array]:
    """The arrays of an .npz file, by name; that of an .npy file by its stem."""
    from tilewright.cli.tensors import read_arrays

    try:
        return read_arrays(Path(path))
    except (TVMError, OSError) as error:
        raise TVMCException(f"Error loading inputs file: {error}") from error


def get_input_info(graph_str: str, params: bytes | bytearray) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Shapes and types, by name, of the inputs of a graph that are not parameters. params: the parameters, as bytes."""
    graph = json.loads(graph_str)
    weights = load_param_dict(params) if params else {}
    shapes: dict[str, list[int]] = {}
    dtypes: dict[str, str] = {}
    for node_id in graph["arg_nodes"]:
        name = graph["nodes"][node_id]["name"]
        if name not in weights:
            row = graph["node_row_ptr"][node_id]
            shapes[name], dtypes[name] = list(graph["attrs"]["shape"][1][row]), str(graph["attrs"]["dltype"][1][row])
    return shapes, dtypes


def generate_tensor_data(shape: Sequence[int], dtype: str, fill_mode: str) -> Array:
    """An array of zeros, of ones, or of random values: in [0, 1), or for integers of 8 bits in [0, 128)."""
    kind = numpy_dtype(dtype)
    if fill_mode == "zeros":
        return np.zeros(shape, kind)
    if fill_mode == "ones":
        return np.ones(shape, kind)
    if fill_mode != "random":
        raise TVMCException(f"unknown fill-mode: {fill_mode}; there are {', '.join(FILL_MODES)}")
    if "int8" in dtype:
        return np.random.randint(128, size=shape).astype(kind)
    return np.asarray(np.random.uniform(size=shape)).astype(kind)


def make_inputs_dict(
    shape_dict: Extents,
    dtype_dict: Mapping[str, str],
    inputs: Mapping[str, Any] | None = None,
    fill_mode: str = "random",
) -> dict[str, Any]:
    """The inputs that are given, and arrays for the others. Raises TVMCException for inputs that the model has not."""
    given = dict(inputs or {})
    known = ", ".join([f"{name} {dtype_dict[name]} {_text(shape)}" for name, shape in shape_dict.items()])
    for name, value in given.items():
        if name not in shape_dict:
            raise TVMCException(f"the input tensor '{name}' is not in the graph. Expected inputs: {known or 'none'}")
        wanted, shape = shape_dict[name], np.shape(value)
        if len(wanted) != len(shape) or any(
            [isinstance(d, int) and d != n for d, n in zip(wanted, shape, strict=True)]
        ):
            raise TVMCException(f"the input '{name}' has the shape {_text(shape)}, but the model takes {known}")
    found: dict[str, Any] = {}
    for name, shape in shape_dict.items():
        if name in given:
            found[name] = given[name]
            continue
        if not all([isinstance(d, int) for d in shape]):
            raise TVMCException(
                f"the input '{name}' has dynamic dimensions, so it must be given; the model takes {known}"
            )
        logger.debug("the input %s (%s %s) is filled by %s", name, dtype_dict[name], shape, fill_mode)
        found[name] = generate_tensor_data(shape, dtype_dict[name], fill_mode)
    return found


def _text(shape: Sequence[Any]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def run_module(
    tvmc_package: TVMCPackage,
    device: str,
    hostname: str | None = None,
    port: int | str | None = 9090,
    rpc_key: str | None = None,
    inputs: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    fill_mode: str = "random",
    benchmark: bool = False,
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    options: Mapping[str, Any] | Sequence[str] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
) -> TVMCResult:
    """Runs a package once.

    device: "cpu", "cuda", ... hostname, port: a tracker with rpc_key, else a server; without them it runs here. key_file, tls_ca: the
    secret and the certificates of both, as rpc.connect takes them. inputs: arrays by name,
    or the path of an .npz file; fill_mode: "zeros", "ones" or "random" for the others. benchmark: also measures `repeat` times, of
    `number` runs each; end_to_end: with setting inputs and fetching outputs. profile: prints a table of the kernels' times.

    With device="micro" the package has a project_dir, whose firmware runs on its board; options are the project's, by name or as texts
    NAME=VALUE. Raises TVMCException, and RPCError for boards that are not reached.
    """
    if not isinstance(tvmc_package, TVMCPackage):
        raise TVMCException(
            f"the package must be a TVMCPackage, of tvmc.compile or TVMCPackage(path), but is a {type(tvmc_package).__name__}"
        )
    if device == "micro":
        if hostname is not None or profile or end_to_end:
            raise TVMCException("a project is run where its board is, and without --profile and --end-to-end")
        taken = read_inputs(os.fspath(inputs)) if isinstance(inputs, (str, os.PathLike)) else inputs
        return run_project(
            tvmc_package, taken, fill_mode, {"repeat": repeat, "number": number} if benchmark else None, options
        )
    if tvmc_package.type == "mlf" or tvmc_package.lib_path is None or tvmc_package.lib_name is None:
        raise TVMCException(
            "this package is in the model library format (MLF), which is for microcontrollers; compile it with --output-format so to run"
            " it, or make a project of it (tvmc micro create-project)"
        )
    given = read_inputs(os.fspath(inputs)) if isinstance(inputs, (str, os.PathLike)) else inputs
    session = open_session(hostname, port, rpc_key, key_file, tls_ca)
    if session is not None:
        session.upload(tvmc_package.lib_path)
        library, dev = session.load_module(tvmc_package.lib_name), session.device(device, 0)
    else:
        library, dev = _loaded(tvmc_package.lib_path), runtime.device(device, 0)
    if not dev.exist:
        raise TVMCException(
            f"the device {dev} does not exist, or there is no driver for it; --device names another one"
        )
    plan = {"repeat": repeat, "number": number, "end_to_end": end_to_end}
    try:
        if tvmc_package.type == "vm":
            return run_machine(library, dev, given, fill_mode, plan if benchmark else None, profile)
        return run_graph(tvmc_package, library, dev, given, fill_mode, plan if benchmark else None, profile)
    except (ValueError, TypeError) as error:
        raise TVMCException(f"the model does not run on these inputs: {error}") from error


def _loaded(path: str) -> Module:
    try:
        return runtime.load_module(path)
    except (ValueError, RuntimeError) as error:
        raise TVMCException(str(error)) from error


def _port(port: int | str | None) -> int:
    if port is None or str(port).isdecimal() and 0 < int(port) < 65536:
        return int(port or 9090)
    raise TVMCException(f"the port {port!r} is none: a number from 1 to 65535 was expected")


def open_session(
    hostname: str | None,
    port: int | str | None,
    rpc_key: str | None,
    key_file: str | os.PathLike[str] | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
) -> rpc.RPCSession | None:
    """A session with a board: of a tracker by its key, else with a server; None without a host."""
    if hostname is None:
        return None
    number = _port(port)
    if rpc_key:
        logger.debug("asking the tracker %s:%d for %s", hostname, number, rpc_key)
        tracker = rpc.connect_tracker(hostname, number, key_file, tls_ca)
        return tracker.request(rpc_key, priority=1, session_timeout=REQUEST_SECONDS)
    logger.debug("connecting to the server %s:%d", hostname, number)
    return rpc.connect(hostname, number, key_file=key_file, tls_ca=tls_ca)


def run_graph(
    package: TVMCPackage,
    library: Module,
    dev: Device,
    inputs: Mapping[str, Any] | None,
    fill_mode: str,
    plan: Mapping[str, Any] | None,
    profile: bool,
) -> TVMCResult:
    """Runs a model of the graph executor, or one that was compiled ahead of time."""
    if package.graph is not None:
        module = graph_executor.create(package.graph, library, dev)
        module.load_params(package.params)
    else:
        module = graph_executor.GraphModule(library[_model_name(library)](dev))
    shapes, dtypes = module.get_input_info()
    logger.debug("the inputs are %s", shapes)
    values = make_inputs_dict(shapes, dtypes, inputs, fill_mode)
    module.set_input(**values)
    if profile:
        print(_profiled(package, library, dev, values))
    times: Any = []
    if plan is not None:
        logger.debug("measuring")
        times = module.benchmark(dev, **plan)
    module.run()
    return _result([module.get_output(i) for i in range(module.get_num_outputs())], times)


def project_options(path: str) -> str:
    """The options that a run of a project takes, as text."""
    from tilewright.micro.project import GeneratedProject

    project = GeneratedProject.from_directory(get_project_dir(path))
    try:
        return listed(get_project_options(project.info()), "open_transport")
    finally:
        project.close()


def run_project(
    package: TVMCPackage,
    inputs: Mapping[str, Any] | None,
    fill_mode: str,
    plan: Mapping[str, Any] | None,
    options: Mapping[str, Any] | Sequence[str] | None,
) -> TVMCResult:
    """Runs the firmware of a project, which was built and flashed before."""
    from tilewright import micro

    if package.project_dir is None:
        raise TVMCException("the package has no project: TVMCPackage(path, project_dir=...)")
    project = micro.GeneratedProject.from_directory(get_project_dir(package.project_dir))
    try:
        valid = get_project_options(project.info())
        texts = options if not isinstance(options, Mapping) else [f"{name}={value}" for name, value in options.items()]
        project.options = dict(get_and_check_options(texts, valid))
        with micro.Session(project.transport()) as session:
            if package.executor_type == "graph":
                assert package.graph is not None
                return _run_kernels(package, session, inputs, fill_mode, plan)
            model = micro.create_local_aot_executor(session)
            shapes, dtypes = model.get_input_info()
            values = make_inputs_dict(shapes, dtypes, inputs, fill_mode)
            model.set_input(**values)
            times: Any = model.benchmark(session.device, **plan) if plan is not None else []
            model.run()
            return _result([model.get_output(i) for i in range(model.get_num_outputs())], times)
    finally:
        project.close()


def _run_kernels(
    package: TVMCPackage, session: Any, inputs: Mapping[str, Any] | None, fill_mode: str, plan: Mapping[str, Any] | None
) -> TVMCResult:
    """Runs a model for the graph executor, whose kernels a device has; times are as seen from here."""
    from tilewright import micro

    assert package.graph is not None
    model = micro.create_local_graph_executor(package.graph, session.get_system_lib(), session.device)
    model.load_params(package.params)
    shapes, dtypes = get_input_info(package.graph, package.params)
    model.set_input(**make_inputs_dict(shapes, dtypes, inputs, fill_mode))
    times: Any = time_function(model.run, **plan) if plan is not None else []
    model.run()
    return _result([model.get_output(i) for i in range(model.get_num_outputs())], times)


def _result(outputs: Sequence[runtime.NDArray], times: Any) -> TVMCResult:
    return TVMCResult({f"output_{i}": value.numpy() for i, value in enumerate(outputs)}, times)


def _profiled(package: TVMCPackage, library: Module, dev: Device, values: Mapping[str, Any]) -> profiling.Report:
    """The times of the kernels of one run."""
    from tilewright.contrib.debugger import debug_executor

    if package.graph is None:
        raise TVMCException("--profile needs the graph of a model: compile it with --executor graph")
    debug = debug_executor.create(package.graph, library, dev)
    try:
        debug.load_params(package.params)
        return debug.profile(**values)
    finally:
        debug.exit()


def _model_name(library: Module) -> str:
    """The name under which a library makes the executor of its model."""
    try:
        return str(json.loads(library["get_metadata"]())["mod_name"])
    except AttributeError:
        raise TVMCException(
            "the package holds functions for programs without this runtime, and nothing that runs them; compile it with --runtime cpp"
        ) from None


def run_machine(
    library: Module,
    dev: Device,
    inputs: Mapping[str, Any] | None,
    fill_mode: str,
    plan: Mapping[str, Any] | None,
    profile: bool,
) -> TVMCResult:
    """Runs a program of the virtual machine."""
    from tilewright.runtime.profiler_vm import VirtualMachineProfiler

    facts = json.loads(library["get_metadata"]())["inputs"]
    values = make_inputs_dict(
        {i["name"]: i["shape"] for i in facts}, {i["name"]: i["dtype"] for i in facts}, inputs, fill_mode
    )
    arrays: dict[str, Any] = {
        i["name"]: runtime.array(np.asarray(values[i["name"]], numpy_dtype(i["dtype"])), dev) for i in facts
    }
    machine = VirtualMachine(library, dev)
    if profile:
        print(VirtualMachineProfiler(library, dev).profile(**arrays))
    times: Any = machine.benchmark(dev, func_name="main", **plan, **arrays) if plan is not None else []
    machine.set_input("main", **arrays)
    machine.invoke_stateful("main")
    return _result(machine.get_outputs(), times)
