"""`tilewright runtime`: the native runtime for other machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import cli
from tilewright.cli.options import shown

if TYPE_CHECKING:
    from tilewright.cli.screen import Form


@cli.group("runtime")
def runtime_group() -> None:
    """Build what runs compiled models on machines without Python.

    \b
    tilewright runtime build --target aarch64-linux-gnu -o board
    tilewright runtime config --cflags --libs
    """


@runtime_group.command("build", short_help="Compile the runtime for a machine.")
@click.option(
    "--target",
    "name",
    required=True,
    metavar="MACHINE",
    help="The machine: a triple (aarch64-linux-gnu), an architecture (riscv64), or a board (raspberry-pi/5).",
)
@click.option("--rpc", is_flag=True, help="Also build the server for clients on other machines (tilewright_rpc).")
@click.option(
    "--devices",
    metavar="TYPES",
    default="",
    help="Also build the libraries of these types of devices: opencl, cuda, vta, separated by commas. They lie beside the runtime.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="The folder to write to; by default the current one.",
)
@shown
def runtime_build(name: str, rpc: bool, devices: str, output: Path, form: Form) -> None:
    """Compile the runtime for a machine by zig (`pip install 'tilewright[cross]'`): a shared library, a static archive, and
    with --rpc the program by which clients load, run and measure models there (`./tilewright_rpc server --help`).

    Machines are Linux on x86_64, aarch64, armv7, riscv64 and i686, x86_64-windows-gnu, aarch64-macos, and wasm32, for which
    the files of an npm package are written. `tilewright targets` lists the boards.

    \b
    tilewright runtime build --target aarch64-linux-gnu -o board
    tilewright runtime build --target raspberry-pi/5 --rpc -o board
    tilewright runtime build --target aarch64-linux-gnu --rpc --devices opencl -o board
    """
    from tilewright.cli.screen import in_bytes, progress
    from tilewright.deploy.machines import machine_of
    from tilewright.deploy.native_build import build_runtime

    machine = machine_of(name)
    with progress(f"building the runtime for {machine.name}") as report:
        built = build_runtime(
            machine, output, rpc, report, devices=[d.strip() for d in devices.split(",") if d.strip()]
        )
    rows = [
        {"what": what, "file": str(path), "bytes": path.stat().st_size}
        for what, path in built._asdict().items()
        if path is not None
    ]
    form.show(
        {"target": machine.triple, **{str(row["what"]): row for row in rows}},
        rows,
        lambda: [f"{row['file']}: {in_bytes(Path(str(row['file'])).stat().st_size)}" for row in rows],
    )


@runtime_group.command("source", short_help="Write the runtime as one C++ file.")
@click.option(
    "--target",
    "name",
    default="x86_64-linux-gnu",
    show_default=True,
    metavar="MACHINE",
    help="A machine of the system.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("tilewright_runtime.cc"),
    show_default=True,
    help="The file to write.",
)
@shown
def runtime_source(name: str, output: Path, form: Form) -> None:
    """Write the runtime as one C++ file to add to a build. It serves all processors of the system.

    \b
    tilewright runtime source -o tilewright_runtime.cc
    c++ -std=c++17 -O2 -rdynamic host.cc tilewright_runtime.cc $(tilewright runtime config --cflags) -ldl -lpthread
    """
    from tilewright.cli.screen import in_bytes
    from tilewright.deploy.amalgamation import amalgamation
    from tilewright.deploy.machines import machine_of
    from tilewright.support.files import write_whole

    text = amalgamation(machine_of(name)).encode()
    write_whole(output, text)
    row: dict[str, object] = {"file": str(output), "bytes": len(text)}
    form.show(row, [row], lambda: [f"{output}: {in_bytes(len(text))}"])


@runtime_group.command("config", short_help="Print how C and C++ programs are built.")
@click.option("--cflags", is_flag=True, help="Options that compile C and C++ against the headers.")
@click.option("--libs", is_flag=True, help="Options that link with the runtime library.")
@click.option("--includedir", is_flag=True, help="The folder of the headers.")
@click.option("--libdir", is_flag=True, help="The folder of the library.")
@click.option("--cmakedir", is_flag=True, help="The folder of the CMake package, for -Dtilewright_DIR.")
@click.option("--pkgconfigdir", is_flag=True, help="The folder of tilewright.pc, for PKG_CONFIG_PATH.")
@click.option("--javadir", is_flag=True, help="The folder of the sources of the Java interface.")
@shown
def runtime_config(form: Form, **asked: bool) -> None:
    """Print how a C or C++ program is built with the runtime of this machine; without options, everything.

    \b
    c++ -std=c++17 host.cc -o host $(tilewright runtime config --cflags --libs)
    cmake -B build -Dtilewright_DIR=$(tilewright runtime config --cmakedir)
    """
    from tilewright.runtime import libinfo

    answers = {
        "cflags": " ".join(libinfo.compile_options()),
        "libs": " ".join(libinfo.link_options()),
        "includedir": libinfo.find_include_path()[0],
        "libdir": str(Path(libinfo.find_lib_path()[0]).parent),
        "cmakedir": libinfo.cmake_folder(),
        "pkgconfigdir": libinfo.pkgconfig_folder(),
        "javadir": str(Path(libinfo.find_source_path()) / "java"),
    }
    chosen = {name: text for name, text in answers.items() if asked[name]}
    rows = [{"what": name, "answer": text} for name, text in (chosen or answers).items()]
    form.show(
        chosen or answers,
        rows,
        lambda: [" ".join(chosen.values())] if chosen else [f"{name}: {text}" for name, text in answers.items()],
    )
