"""Trained networks on an emulated Cortex-M7: cifar-10-model, quantised here, and the models of pymicro-wakeword.

Of the first: how often int8 agrees with the float network on pictures; the time from the model's bytes to a result on the board, with an
empty compile cache; instructions, before and after tuning by the clocks of emulated boards (--tune), beside CMSIS-NN (--cmsis-nn). Outputs
are compared with LiteRT's reference kernels on pictures and on random data, bit by bit. No package has CIFAR-10's test pictures; parts of
photographs stand for them.

Needs `pip install unicorn capstone ai-edge-litert ziglang scikit-image`, `pip install --no-deps cifar-10-model pymicro-wakeword`, and QEMU
as `make build/qemu-system/.done` unpacks it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.micro import trained
from benchmarks.micro.micro_sessions import with_qemu
from benchmarks.options import write_json
from tilewright import micro, relay
from tilewright.micro.board import board
from tilewright.relay.backend import Executor, Runtime
from tilewright.tuning.record import load

BOARD = "mps2_an500"
BOARDS = 2
"""Emulated boards that measure at once."""
GROWTH = 2048
"""Bytes by which the code may become larger when tuned: less than CMSIS-NN's program takes more."""
STEPS = 6
"""Steps of audio that the models of wake words take, one after the other: they keep what came before."""


def on_board(model: bytes, **options: Any) -> tuple[Any, micro.MicroExecutor, dict[str, float]]:
    """(session, model, seconds) of a TFLite model that was compiled, and loaded onto the emulated board; of the seconds, also those that
    processors worked, without the emulator's."""
    begun, spent = time.perf_counter(), sum(os.times()[:4])
    mod, params = relay.frontend.from_tflite(model, **options)
    lib = relay.build(mod, board(BOARD).target("llvm"), params=params, executor=Executor("aot"), runtime=Runtime("crt"))
    built = time.perf_counter()
    session = micro.Session(BOARD)
    session.__enter__()
    executor = micro.MicroExecutor(micro.create_micro_mod(lib, session))
    seconds = {"compile": built - begun, "load": time.perf_counter() - built}
    return session, executor, seconds | {"processor": sum(os.times()[:4]) - spent}


def classification(count: int, archive: Path | None, trials: int = 0) -> dict[str, Any]:
    """The figures of cifar-10-model. trials: measurements of tuning, in all."""
    from benchmarks.micro.micro_networks import ours, peers
    from tests.frontend.tflite.ops.writer import litert

    path = trained.keras_file()
    weights = trained.folded_weights(path)
    net = trained.quantised(weights, trained.pictures(24, 0).pixels)
    model, shown = net.model(), trained.pictures(count, 1)
    floats = _float_classes(path, shown.pixels)
    answers = [litert(model, [trained.as_input(p)])[0].reshape(-1) for p in shown.pixels]
    classes = [int(a.argmax()) for a in answers]
    cats = [k for k, source in enumerate(shown.sources) if source == trained.CAT]
    known = [k for k, c in enumerate(floats) if c is not None]
    row: dict[str, Any] = {
        "pictures": count,
        "known": len(known),
        "agree": sum([classes[k] == floats[k] for k in known]),
        "cats": len(cats),
        "cats_of_int8": sum([trained.CLASSES[classes[k]] == "cat" for k in cats]),
        "cats_of_float": sum([floats[k] == trained.CLASSES.index("cat") for k in cats]),
    }
    random = np.random.default_rng(2)
    given = [trained.as_input(p) for p in shown.pixels[:3]]
    given += [random.integers(-128, 128, (1, 32, 32, 3)).astype(np.int8) for _ in range(3)]
    session, executor, row["seconds"] = on_board(model)
    try:
        begun = time.perf_counter()
        found = []
        for x in given:
            executor.set_input(0, x)
            executor.run()
            found.append(executor.get_output(0).numpy().reshape(-1))
            row["seconds"].setdefault("first result", time.perf_counter() - begun)
    finally:
        session.close()
    row["inputs"] = len(given)
    row["equal"] = all(
        [np.array_equal(y, litert(model, [x])[0].reshape(-1)) for x, y in zip(given, found, strict=True)]
    )
    row["ours"] = ours(model, given[0])[0]
    if trials:
        row["tuning"], plans = tuned(model, trials)
        row["tuned"], answer = ours(model, given[0], tuned=plans)
        row["equal"] &= bool(np.array_equal(answer, answers[0]))
    if archive is not None:
        row["peer"], answer = peers(net, given[0], archive)
        row["peer_differs"] = int((answer != answers[0]).sum())
    return row


def tuned(model: bytes, trials: int) -> tuple[dict[str, Any], Path]:
    """(figures, log) of tuning a model on emulated boards: seconds of each kernel by the board's clock, before and after."""
    mod, params = relay.frontend.from_tflite(model)
    path = Path(os.environ["TILEWRIGHT_CACHE_DIR"]) / "plans.jsonl"
    config = micro.generate_config(BOARD, instruction_shift=6, timeout=60)
    begun = time.perf_counter()
    found = micro.tune_kernels(mod, params, config, path, trials, BOARDS, processes=1, code_growth=GROWTH)
    measured = len(load(path)[0])
    kernels = {p.task.name: (p.untuned, p.fastest) for p in found}
    return {"seconds": time.perf_counter() - begun, "measurements": measured, "kernels": kernels}, path


def _float_classes(path: Path, pixels: np.ndarray) -> list[int | None]:
    """The classes that the float network finds, on this machine; None where it finds none, since all of its results are 0."""
    import tilewright as tvm
    from tilewright.contrib import graph_executor

    mod, params = relay.frontend.from_keras(str(path), shape=None, layout="NHWC")
    mod = relay.transform.InferType()(mod)
    name = mod["main"].params[0].name_hint
    mod, params = relay.frontend.from_keras(str(path), shape={name: (1, 32, 32, 3)}, layout="NHWC")
    runner = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    found: list[int | None] = []
    for picture in pixels:
        runner.run(**{name: picture[None].astype("float32")})
        results = runner.get_output(0).numpy()
        found.append(int(results.argmax()) if results.max() > 0 else None)
    return found


def wake_word(path: Path) -> dict[str, Any]:
    """The figures of a model of wake words: its variables go from step to step."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    model = path.read_bytes()
    peer = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    peer.allocate_tensors()
    (given,), (made,) = peer.get_input_details(), peer.get_output_details()
    random, equal = np.random.default_rng(0), []
    state = list(relay.frontend.tflite.initial_variables(model).values())
    session, executor, seconds = on_board(model, variables="carried")
    try:
        for _ in range(STEPS):
            x = random.integers(-128, 128, given["shape"]).astype(np.int8)
            peer.set_tensor(given["index"], x)
            peer.invoke()
            for k, value in enumerate([x, *state]):
                executor.set_input(k, value)
            executor.run()
            y, *state = [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]
            equal.append(np.array_equal(y, peer.get_tensor(made["index"])))
    finally:
        session.close()
    return {"model": path.stem, "steps": STEPS, "equal": all(equal), "seconds": seconds}


def main(argv: list[str] | None = None) -> int:
    """Prints the figures. Status 1 if outputs differ from LiteRT's."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks micro_trained", description=__doc__)
    parser.add_argument("--pictures", type=int, default=180, help="parts of photographs to classify")
    parser.add_argument("--cmsis-nn", type=Path, metavar="ARCHIVE", help="cmsis-nn-7.0.0.tar.xz, the peer's source")
    parser.add_argument(
        "--tune", type=int, default=0, metavar="N", help="also tuned, by N measurements on emulated boards"
    )
    parser.add_argument("--only", choices=("classification", "wake_words"), help="one of both parts")
    options = with_qemu(parser, argv)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE_DIR"] = folder
        if options.only != "wake_words":
            row = results["classification"] = classification(options.pictures, options.cmsis_nn, options.tune)
            print(f"cifar-10-model: of {row['pictures']} pictures, the float network finds a class for {row['known']}, int8 the same for"
                  f" {row['agree']}; of {row['cats']} of a cat,"
                  f" int8 calls {row['cats_of_int8']} one, float {row['cats_of_float']}")  # fmt: skip
            print(f"  {BOARD}: {', '.join([f'{what} {s:.2f} s' for what, s in row['seconds'].items()])};"
                  f" LiteRT's bits on {row['inputs']} inputs: {row['equal']}")  # fmt: skip
            for what in ("instructions", "cycles", "flash", "ram"):
                for when in [w for w in ("ours", "tuned") if w in row]:
                    ratio = f", {row[when][what] / row['peer'][what]:.2f} of CMSIS-NN's" if "peer" in row else ""
                    print(f"  {what}{' when tuned' if when == 'tuned' else ''}: {row[when][what]:.0f}{ratio}")
            if "tuning" in row:
                print(
                    f"  {row['tuning']['measurements']} measurements on {BOARDS} boards in {row['tuning']['seconds']:.0f} s"
                )
                for name, (before, after) in row["tuning"]["kernels"].items():
                    print(f"    {name}: {before * 1e3:.3f} ms by the board's clock, {after * 1e3:.3f} when tuned")
        if options.only != "classification":
            results["wake_words"] = [wake_word(path) for path in trained.wake_word_models()]
            for row in results["wake_words"]:
                print(f"{row['model']}: {', '.join([f'{what} {s:.2f} s' for what, s in row['seconds'].items()])};"
                      f" LiteRT's bits in {row['steps']} steps: {row['equal']}")  # fmt: skip
    write_json(options, results)
    rows = [*([results["classification"]] if "classification" in results else []), *results.get("wake_words", [])]
    return 0 if all([row["equal"] for row in rows]) else 1
