"""Programs of CMSIS-NN 7.0.0 for lists of layers: the peer of kernels on microcontrollers. Its source is built here only."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.micro.tiny_networks import Layer, Network, Tensor
from tilewright.micro.board import Board
from tilewright.micro.device_runtime import compile_files, helpers, runtime_objects
from tilewright.micro.export.firmware import in_memories
from tilewright.micro.linking.link import Image, link
from tilewright.relay.frontend.tflite.ops.quantized import multiplier

FLAGS = (
    "-O3",
    "-ffreestanding",
    "-Dmemcpy=__builtin_memcpy",
    "-Dmemset=__builtin_memset",
    "-ffunction-sections",
    "-fdata-sections",
    "-g0",
    "-fno-math-errno",
    "-std=c11",
)
LEFT = 20
"""By how many bits TFLite's addition moves its operands to the left."""


class Program(NamedTuple):
    """A program: its image, the function `run` in it, and the least RAM that its tensors need, with buffers of single layers."""

    image: Image
    ram: int


def sources(archive: Path) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    """(C files on int8, headers by path) of CMSIS-NN."""
    files, headers = [], {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            found = tar.extractfile(member) if member.isfile() else None
            if found is None:
                continue
            _, _, path = member.name.partition("/")
            if path.startswith("Include/"):
                headers[path.removeprefix("Include/")] = found.read().decode()
            elif path.startswith("Source/") and path.endswith(".c") and "LSTM" not in path and "SVD" not in path:
                if (
                    not path.removesuffix(".c").endswith(("s16", "s4", "u8", "_q15"))
                    or "mat_mult_kernel_s8_s16" in path
                    or ("row_offset_s8_s16" in path)
                ):
                    files.append((path.rpartition("/")[2], found.read()))
    return files, headers


def _array(name: str, kind: str, values: Iterable[int]) -> str:
    return f"static const {kind} {name}[] = {{{', '.join([str(int(v)) for v in values])}}};"


def _dims(n: int, h: int, w: int, c: int) -> str:
    """Dimensions: a constant of the program (`_definitions`), which takes no stack."""
    return f"&dims_{n}_{h}_{w}_{c}"


def _definitions(texts: Iterable[str]) -> list[str]:
    """The constants with the dimensions that texts name."""
    named = dict.fromkeys([found for text in texts for found in re.findall(r"&dims((?:_\d+){4})", text)])
    return [f"static const cmsis_nn_dims dims{n} = {{{', '.join(n[1:].split('_'))}}};" for n in named]


def _whole(t: Tensor) -> str:
    return _dims(1, *t.shape)


def layer_text(k: int, layer: Layer, at: dict[int, str]) -> tuple[list[str], str, str]:
    """(definitions, call, expression of the bytes of its buffer) of a layer. at: addresses of tensors, in C."""
    x, y = layer.inputs[0], layer.output
    activation = f"{{{layer.low}, 127}}"
    stride = f"{{{layer.stride[1]}, {layer.stride[0]}}}"
    padding = f"{{{layer.padding[1]}, {layer.padding[0]}}}"
    source, target = at[x.number], at[y.number]
    if layer.kind in ("conv", "depthwise"):
        pairs = [multiplier(float(x.scale * s / y.scale)) for s in layer.scales]
        text = [
            _array(f"w{k}", "int8_t", layer.weights.reshape(-1)), _array(f"b{k}", "int32_t", layer.bias),
            _array(f"q{k}", "int32_t", [q for q, _ in pairs]), _array(f"s{k}", "int32_t", [s for _, s in pairs]),
        ]  # fmt: skip
        deep = layer.kind == "depthwise"
        kh, kw = layer.window
        multiple = "1, " if deep else ""
        name = "dw_conv" if deep else "conv"
        function = "arm_depthwise_conv_wrapper_s8" if deep else "arm_convolve_wrapper_s8"
        filters = _dims(1 if deep else y.shape[2], kh, kw, x.shape[2])
        text.append(
            f"static const cmsis_nn_{name}_params p{k} = {{{-x.zero}, {y.zero}, {multiple}{stride}, {padding}, {{1, 1}}, {activation}}};"
        )
        text.append(f"static const cmsis_nn_per_channel_quant_params c{k} = {{(int32_t*)q{k}, (int32_t*)s{k}}};")
        call = (
            f"{function}(&context, &p{k}, &c{k},"
            f" {_whole(x)}, {source}, {filters}, w{k}, {_dims(1, 1, 1, y.shape[2])}, b{k}, {_whole(y)}, {target})"
        )
        return text, call, f"{function}_get_buffer_size(&p{k}, {_whole(x)}, {filters}, {_whole(y)})"
    if layer.kind == "dense":
        q, s = multiplier(float(np.float32(x.scale) * np.float32(layer.scales[0])) / y.scale)
        text = [_array(f"w{k}", "int8_t", layer.weights.reshape(-1)), _array(f"b{k}", "int32_t", layer.bias)]
        text.append(f"static const cmsis_nn_fc_params p{k} = {{{-x.zero}, 0, {y.zero}, {activation}}};")
        text.append(f"static const cmsis_nn_per_tensor_quant_params c{k} = {{{q}, {s}}};")
        terms, units = layer.weights.shape[1], y.shape[2]
        call = (
            f"arm_fully_connected_s8(&context, &p{k}, &c{k}, {_dims(1, 1, 1, terms)},"
            f" {source}, {_dims(terms, 1, 1, units)}, w{k}, {_dims(1, 1, 1, units)}, b{k}, {_dims(1, 1, 1, units)}, {target})"
        )
        return text, call, "0"
    if layer.kind in ("max_pool", "average_pool"):
        text = [f"static const cmsis_nn_pool_params p{k} = {{{stride}, {padding}, {activation}}};"]
        function = "arm_max_pool_s8" if layer.kind == "max_pool" else "arm_avgpool_s8"
        call = (
            f"{function}(&context, &p{k}, {_whole(x)}, {source}, {_dims(1, *layer.window, 1)}, {_whole(y)}, {target})"
        )
        size = "0" if layer.kind == "max_pool" else f"arm_avgpool_s8_get_buffer_size({y.shape[1]}, {x.shape[2]})"
        return text, call, size
    if layer.kind == "add":
        other = layer.inputs[1]
        widest = 2 * max(x.scale, other.scale)
        numbers = []
        for t in (x, other):
            q, s = multiplier(t.scale / widest)
            numbers.append(f"{-t.zero}, {q}, {s}")
        q, s = multiplier(widest / ((1 << LEFT) * y.scale))
        elements = int(np.prod(y.shape))
        call = (
            f"arm_elementwise_add_s8({source}, {at[other.number]}, {', '.join(numbers)}, {LEFT}, {target}, {y.zero}, {q}, {s},"
            f" {layer.low}, 127, {elements})"
        )
        return [], call, "0"
    if layer.kind == "softmax":
        real = min(x.scale * (1 << 26), (1 << 31) - 1)
        q, s = multiplier(real)
        least = -int(np.floor(31 * (1 << 26) / (1 << s)))
        return [], f"(arm_softmax_s8({source}, 1, {x.shape[2]}, {q}, {s}, {least}, {target}), 0)", "0"
    raise ValueError(f"there is no layer {layer.kind!r} of CMSIS-NN")


def placed(layers: Sequence[Layer], sizes: Sequence[int], given: set[int]) -> tuple[dict[int, int], int]:
    """(places of tensors by number, bytes of all) in one memory, by first fit, the largest first. sizes: of the buffers of layers, which
    are numbered below zero. given: tensors that lie elsewhere."""
    lives: dict[int, list[int]] = {}
    extents: dict[int, int] = {}
    for k, layer in enumerate(layers):
        for t in (*layer.inputs, layer.output):
            if t.number not in given:
                lives.setdefault(t.number, [k, k])[1] = k
                extents[t.number] = -(-int(np.prod(t.shape)) // 16) * 16
        if sizes[k]:
            lives[-1 - k], extents[-1 - k] = [k, k], -(-sizes[k] // 16) * 16
    found: dict[int, int] = {}
    for n in sorted(lives, key=lambda n: -extents[n]):
        others = sorted(
            [
                (found[m], found[m] + extents[m])
                for m in found
                if lives[m][0] <= lives[n][1] and lives[n][0] <= lives[m][1]
            ]
        )
        at = 0
        for start, end in others:
            if at + extents[n] <= start:
                break
            at = max(at, end)
        found[n] = at
    return found, max([found[n] + extents[n] for n in found], default=0)


def _source(net: Network, places: dict[int, int], total: int) -> str:
    first, last = net.input.number, net.last.number
    at = {n: f"(memory + {p})" for n, p in places.items()} | {first: "input", last: "output"}
    texts, calls, sizes = [], [], []
    for k, layer in enumerate(net.layers):
        text, call, size = layer_text(k, layer, at)
        texts += text
        if -1 - k in places:
            calls.append(f"  context.buf = memory + {places[-1 - k]};")
        calls.append(f"  if ({call} != 0) return {k + 1};")
        sizes.append(f"  if (layer == {k}) return {size};")
    shape, result = int(np.prod(net.input.shape)), int(np.prod(net.last.shape))
    return "\n".join([
        '#include "arm_nnfunctions.h"', f"int8_t input[{shape}] __attribute__((aligned(16)));",
        f"int8_t output[{result}] __attribute__((aligned(16)));",
        f"static int8_t memory[{max(total, 16)}] __attribute__((aligned(16)));", *_definitions([*calls, *sizes]), *texts,
        "int32_t buffer_size(int32_t layer);", "int32_t buffer_size(int32_t layer) {", *sizes, "  return 0;", "}",
        "int32_t run(void);", "int32_t run(void) {", "  cmsis_nn_context context = {memory, 0};", *calls, "  return 0;", "}", "",
    ])  # fmt: skip


def program(board: Board, net: Network, archive: Path) -> Program:
    """The program of a network. archive: CMSIS-NN's source."""
    from benchmarks.micro.emulator import Emulator

    files, headers = sources(archive)
    peer = compile_files(board, files, FLAGS, headers)

    def linked(text: str, root: str) -> Image:
        own = compile_files(board, [("network.c", text.encode())], FLAGS, headers)
        return link(
            [*own, *peer, *runtime_objects(board, ("src/memory.c",))],
            [root],
            in_memories(board),
            {},
            partial(helpers, board),
        )

    given = {net.input.number, net.last.number}
    unplaced = {t.number: 0 for layer in net.layers for t in (*layer.inputs, layer.output)}
    first = Emulator(board, linked(_source(net, unplaced, 16), "buffer_size"))
    sizes = [first.call("buffer_size", [k])[0] for k in range(len(net.layers))]
    places, total = placed(net.layers, sizes, given)
    image = linked(_source(net, places, total), "run")
    return Program(image, total + int(np.prod(net.input.shape)) + int(np.prod(net.last.shape)))


__all__ = ["Program", "program"]
