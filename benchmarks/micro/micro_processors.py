"""Networks of int8 on several microcontrollers, by LLVM and as C, with their instructions for products of bytes and without.

Instructions of a run are counted by Unicorn, or, for processors that it does not have (Helium), by the clock of an emulated board: under
QEMU with -icount it advances with instructions. Outputs are compared with LiteRT's reference kernels, bit by bit. "plain" is code for the
same processor without the DSP extension or without vectors. Needs `pip install unicorn capstone ai-edge-litert ziglang`, and
`make build/qemu-system/.done` for Helium.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.micro.micro_sessions import with_qemu
from benchmarks.micro.tiny_networks import NETWORKS
from benchmarks.options import write_json
from tilewright import micro, relay
from tilewright.micro.board import Board, board
from tilewright.micro.errors import LinkError
from tilewright.micro.executor import MicroExecutor
from tilewright.micro.export import firmware
from tilewright.micro.export.sources import model_files
from tilewright.relay.backend import Executor, Runtime
from tilewright.target import Target

BOARDS = ("raspberry_pi_pico", "mps2_an386", "mps2_an500", "mps2_an505", "mps3_an547")
WITHOUT = {"mps3_an547": "-mve.fp,-mve,-dsp"}
"""What plain code does without; elsewhere it is the DSP extension."""
SHIFT = 5
"""The emulated clock advances 2**5 ns an instruction."""


def target_of(found: Board, kind: str, plain: bool) -> Target:
    """The target of a board; plain: without its instructions for products of bytes."""
    own = found.target(kind)
    return Target(f"{own} -mattr={WITHOUT.get(found.name, '-dsp')}") if plain else own


def in_unicorn(found: Board, lib: Any, sample: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """(figures, output) of a model that was built for firmware."""
    from benchmarks.micro.emulator import Emulator

    files = model_files(lib)
    image = firmware.build(found, files).image
    emulator = Emulator(found, image)
    given, made = files.interface.inputs[0], files.interface.outputs[0]
    emulator.write(f"input_{given.member}", sample.tobytes())
    status, counts = emulator.call("main")
    if status:
        raise RuntimeError(f"the program ends with {status}")
    flash = sum([image.sizes.get(k, 0) for k in ("text", "rodata", "data")])
    figures = {"instructions": counts.instructions, "flash": flash, "by_function": dict(counts.by_function)}
    return figures, np.frombuffer(emulator.read(f"output_{made.member}", made.size), np.int8)


def in_qemu(found: Board, lib: Any, sample: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """The same of a model on an emulated board, kernel by kernel."""
    with micro.Session(micro.generate_config(found, instruction_shift=SHIFT, timeout=300)) as session:
        model = MicroExecutor(micro.create_micro_mod(lib, session))
        model.set_input(0, sample)
        rate = found.clock_hz * (1 << SHIFT) / 1e9
        by_function: dict[str, int] = {}
        for name, addresses in model.calls:
            session.submit(name, model.module[name].address, micro.tasks.KERNEL, addresses, model)
            session.synchronize()
            by_function[name] = by_function.get(name, 0) + round(session.ticks / rate)
        output = model.get_output(0).numpy().reshape(-1)
        flash = sum([model.module.image.sizes.get(k, 0) for k in ("text", "rodata", "data")])
    return {"instructions": sum(by_function.values()), "flash": flash, "by_function": by_function}, output


def run(model: bytes, sample: np.ndarray, found: Board, kind: str, plain: bool) -> tuple[dict[str, Any], np.ndarray]:
    """(figures, output) of a TFLite model on a board."""
    mod, params = relay.frontend.from_tflite(model)
    target = target_of(found, kind, plain)
    emulated = target.mcpu == "cortex-m55"
    executor = Executor("graph") if emulated else Executor("aot")
    lib = relay.build(mod, target, params=params, executor=executor, runtime=Runtime("crt"), mod_name="net")
    return (in_qemu if emulated else in_unicorn)(found, lib, sample)


def measured(name: str, found: Board, kind: str, plain: bool) -> dict[str, Any]:
    """The figures of a network on a board."""
    from tests.frontend.tflite.ops.writer import litert

    net = NETWORKS[name]()
    model, sample = net.model(), net.sample()
    figures, output = run(model, sample, found, kind, plain)
    wanted = litert(model, [sample])[0].reshape(-1)
    return {"network": name, "board": found.name, "kind": kind, "plain": plain, "products": net.multiplications,
            "equal": bool(np.array_equal(output, wanted)), **figures}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Prints a row for each network, board and kind of code. Status 1 if an output differs from LiteRT's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks micro_processors", description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=[*NETWORKS], default=[*NETWORKS], help="which ones")
    parser.add_argument("--boards", nargs="+", choices=BOARDS, default=list(BOARDS), help="of which processors")
    parser.add_argument("--kinds", nargs="+", choices=("llvm", "c"), default=["llvm", "c"], help="by which back ends")
    parser.add_argument("--plain", action="store_true", help="also code without instructions for products of bytes")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="also the N functions that take most")
    options = with_qemu(parser, argv)
    print(f"{'network':<12}{'board':<20}{'code':<12}{'instructions':>14}{'a product':>11}{'flash':>9}  as LiteRT")
    rows = []
    for name in options.networks:
        for which in options.boards:
            for kind in options.kinds:
                for plain in (False, True) if options.plain else (False,):
                    try:
                        row = measured(name, board(which), kind, plain)
                    except LinkError as error:
                        print(f"{name:<12}{which:<20}does not fit: {error}")
                        continue
                    rows.append(row)
                    code = f"{kind}{', plain' if plain else ''}"
                    each = row["instructions"] / row["products"]
                    word = "equal" if row["equal"] else "DIFFERENT"
                    print(
                        f"{name:<12}{which:<20}{code:<12}{row['instructions']:>14}{each:>11.2f}{row['flash']:>9}  {word}",
                        flush=True,
                    )
                    for function, count in sorted(row["by_function"].items(), key=lambda f: -f[1])[: options.functions]:
                        print(f"    {count:>12}  {function}")
    write_json(options, {"rows": rows})
    return 0 if all([row["equal"] for row in rows]) else 1
