"""`tilewright package`: a model as sources or objects with parameters and a description of its sizes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import Build, check_writable, model_options, output_path, shown
from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.command("package", short_help="Write a model as sources or objects with a description of its sizes.")
@model_options
@click.option("-o", "--output", required=True, type=output_path, help="The archive to write (.tar).")
@click.option("--source", is_flag=True, help="C source for the machine of --target, instead of objects.")
@click.option(
    "--interface",
    type=click.Choice(["c", "packed"]),
    default=None,
    help="How programs call the model: c, by a function of structs, without the runtime; packed, through the runtime."
    "  [default: c for source that runs ahead of time, else packed]",
)
@click.option(
    "--name", default="default", show_default=True, help="Name of the model: its functions begin with tvmgen_NAME."
)
@shown
def package_command(build: Build, output: Path, source: bool, interface: str | None, name: str, form: Form) -> None:
    """Compile MODEL to a package in the model library format of classic TVM, and show the memory that it takes.

    \b
    tilewright package model.onnx --target c -o model.tar
    tilewright package model.onnx --target "c -mtriple=thumbv7em-none-eabihf -mcpu=cortex-m7" -o model.tar
    tilewright package model.onnx --source --target raspberry-pi/zero -o model.tar
    tilewright package model.onnx --target aarch64-linux-gnu --executor graph -o model.tar
    tilewright inspect model.tar
    """
    from tilewright.cli.models import imported_model, precision_config
    from tilewright.cli.packages import described, rendered, rows_of
    from tilewright.cli.screen import progress, shown_warnings
    from tilewright.micro.model_library_format import export_model_library_format, package_metadata
    from tilewright.target import Target

    if output.suffix != ".tar":
        raise TVMError(f"--output {output}: a package is an archive, so its suffix must be .tar")
    check_writable(output, "--output")
    target = Target(build.target)
    if source and target.kind.name == "llvm":
        kept = {k: v for k, v in target.export().items() if k != "tag"}
        target = Target({**kept, "kind": "c"})
    if build.executor == "vm":
        raise TVMError("--executor vm: a package holds models for the executors graph and aot")
    executor = "graph" if build.executor == "graph" else "aot"
    bare = interface == "c" or (interface is None and target.kind.name == "c" and executor == "aot")
    if bare and (target.kind.name != "c" or executor != "aot"):
        raise TVMError("--interface c is for C source: give --target c, or --source, and --executor aot")
    import tilewright as tvm
    from tilewright import relay
    from tilewright.relay.backend import Executor, Runtime

    how = Executor("aot", {"unpacked-api": True, "interface-api": "c"}) if bare else Executor(executor)
    with progress("compiling kernels") as report, shown_warnings():
        report(0, 0, "importing")
        mod, params = imported_model(build)
        config = {**precision_config(build.precision), **({"relay.check_bounds": True} if build.check_bounds else {})}
        with tvm.transform.PassContext(build.opt_level, config=config):
            library = relay.build(
                mod,
                target,
                params=params,
                executor=how,
                runtime=Runtime("crt" if bare else "cpp"),
                mod_name=name,
                progress=report,
            )
        export_model_library_format(library, output)
    metadata = package_metadata(output)
    assert metadata is not None
    found = described(output, metadata)
    form.show(found, rows_of(found), lambda: rendered(found))
