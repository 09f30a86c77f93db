"""Damage to model files: bytes, the structure of ONNX graphs, external data, the parts of PyTorch's and Keras's archives."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

HUGE = (1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 62) + 1, (1 << 63) - 1)
ODD = (0, -1, -2, -(1 << 31), -(1 << 63), 2, 3, 7, 13, 255)
NAMES = ("", "x", "y", "\x00", "../x", "é 1", "a" * 5000)
LOCATIONS = (
    "../outside.bin", "/etc/hostname", "..", ".", "", "weights.bin/", "./././weights.bin", "sub/../../outside.bin", "link.bin",
    "linked/outside.bin", "nul\x00l", "\\..\\outside.bin", "weights.bin" + "x" * 5000, "fifo",
)  # fmt: skip


def in_bytes(data: bytes, rng: random.Random) -> bytes:
    """A part cut off, bits turned, bytes replaced, doubled or left out."""
    spoiled = bytearray(data)
    at = rng.randrange(len(spoiled))
    kind = rng.choice(["cut", "turn", "turn", "turn", "replace", "double", "omit"])
    if kind == "cut":
        del spoiled[at:]
    elif kind == "turn":
        for _ in range(rng.choice([1, 1, 2, 5, 20])):
            spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
    elif kind == "replace":
        spoiled[at : at + 4] = bytes(rng.randrange(256) for _ in range(4))
    elif kind == "double":
        spoiled[at:at] = spoiled[max(0, at - 30) : at]
    else:
        del spoiled[at : at + rng.randrange(1, 20)]
    return bytes(spoiled)


Step = Callable[[Any, random.Random], None]
steps: list[Step] = []


def _step(f: Step) -> Step:
    steps.append(f)
    return f


def in_graph(model: Any, rng: random.Random) -> None:
    """One to three changes of an ONNX model's structure, in place."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(steps)(model, rng)


def number(rng: random.Random) -> int:
    """An integer that few expect."""
    return rng.choice([rng.choice(HUGE), rng.choice(ODD), rng.randrange(-3, 20)])


def real(rng: random.Random) -> float:
    """A number that few expect."""
    return rng.choice([float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e38, 1e-45, rng.uniform(-3, 3)])


def all_graphs(graph: Any) -> list[Any]:
    """A graph and those inside it."""
    found = [graph]
    for node in graph.node:
        for a in node.attribute:
            for g in [*([a.g] if a.HasField("g") else []), *a.graphs]:
                found += all_graphs(g)
    return found


def some_node(model: Any, rng: random.Random) -> Any:
    nodes = [n for g in all_graphs(model.graph) for n in g.node] + [n for f in model.functions for n in f.node]
    return rng.choice(nodes) if nodes else None


@_step
def swap_attributes(model: Any, rng: random.Random) -> None:
    """Values of two attributes, of one node or of two."""
    a, b = some_node(model, rng), some_node(model, rng)
    if a is None or not a.attribute or not b.attribute:
        return
    p, q = rng.choice(a.attribute), rng.choice(b.attribute)
    one, other = p.SerializeToString(), q.SerializeToString()
    names = p.name, q.name
    p.ParseFromString(other)
    q.ParseFromString(one)
    p.name, q.name = names


@_step
def odd_attribute(model: Any, rng: random.Random) -> None:
    """An attribute of another value, another type, another name, or none."""
    node = some_node(model, rng)
    if node is None:
        return
    a = rng.choice(node.attribute) if node.attribute and rng.random() < 0.8 else node.attribute.add(name="axis", type=2)
    kind = rng.randrange(6)
    if kind == 0:
        a.type = rng.randrange(15)
    elif kind == 1:
        a.name = rng.choice([*NAMES, "axis", "axes", "pads", "kernel_shape", "perm", "to", "mode"])
    elif kind == 2:
        node.attribute.remove(a)
    elif kind == 3:
        a.s = rng.choice([b"", b"\xff\xfe", b"SAME_UPPER", b"VALID", b"reflect", b"linear", b"nearest", b"x" * 3000])
        a.type = 3
    elif len(a.ints) or kind == 4:
        values = [number(rng) if rng.random() < 0.5 else v for v in a.ints]
        del a.ints[:]
        a.ints.extend(values[: rng.randrange(len(values) + 1)] + [number(rng)] * rng.randrange(3))
        a.type = 7
    else:
        a.i, a.f = number(rng), real(rng)


@_step
def cycle(model: Any, rng: random.Random) -> None:
    """A node reads what a later one makes, itself, or what nobody does."""
    node, other = some_node(model, rng), some_node(model, rng)
    if node is None or not node.input:
        return
    made = rng.choice([*other.output, *node.output, "nobody"])
    node.input[rng.randrange(len(node.input))] = made


@_step
def move_nodes(model: Any, rng: random.Random) -> None:
    """Nodes in another order, twice, or left out."""
    graph = rng.choice(all_graphs(model.graph))
    nodes = [type(n).FromString(n.SerializeToString()) for n in graph.node]
    kind = rng.randrange(3)
    if not nodes:
        return
    if kind == 0:
        rng.shuffle(nodes)
    elif kind == 1:
        nodes.insert(rng.randrange(len(nodes) + 1), rng.choice(nodes))
    else:
        nodes.pop(rng.randrange(len(nodes)))
    del graph.node[:]
    graph.node.extend(nodes)


@_step
def odd_operator(model: Any, rng: random.Random) -> None:
    """A node of another operator, or another number of inputs and outputs."""
    from onnx import defs

    node = some_node(model, rng)
    if node is None:
        return
    kind = rng.randrange(5)
    if kind < 2:
        node.op_type = rng.choice([s.name for s in defs.get_all_schemas()])
    elif kind == 2 and node.input:
        del node.input[rng.randrange(len(node.input)) :]
    elif kind == 3:
        node.input.append(rng.choice([*node.input, ""]))
    else:
        node.output.extend([rng.choice([*node.output, "more", ""])])


@_step
def claimed_size(model: Any, rng: random.Random) -> None:
    """A weight that claims another shape or type, or loses a part of its values."""
    tensors = [t for g in all_graphs(model.graph) for t in g.initializer]
    tensors += [a.t for g in all_graphs(model.graph) for n in g.node for a in n.attribute if a.HasField("t")]
    if not tensors:
        return
    t = rng.choice(tensors)
    kind = rng.randrange(4)
    if kind == 0 and len(t.dims):
        t.dims[rng.randrange(len(t.dims))] = number(rng)
    elif kind == 1:
        t.dims.extend([number(rng)] * rng.choice([1, 1, 40]))
    elif kind == 2:
        t.data_type = rng.randrange(30)
    else:
        t.raw_data = t.raw_data[: len(t.raw_data) // 2]


@_step
def claimed_input(model: Any, rng: random.Random) -> None:
    """An input, output or inner value that claims another shape or type."""
    infos = [*model.graph.input, *model.graph.input, *model.graph.output, *model.graph.value_info]
    if not infos:
        return
    info = rng.choice(infos)
    kind = rng.randrange(4)
    if kind == 0:
        info.type.tensor_type.elem_type = rng.randrange(30)
    elif kind == 1:
        info.type.tensor_type.shape.dim.add(dim_value=number(rng))
    elif info.type.tensor_type.shape.dim:
        d = rng.choice(info.type.tensor_type.shape.dim)
        if kind == 2:
            d.dim_value = number(rng)
        else:
            d.dim_param = rng.choice(["", "n", "?", "-1", "n * 2", "\x00"])
    else:
        info.type.ClearField("value")


@_step
def odd_names(model: Any, rng: random.Random) -> None:
    """Names of tensors, nodes, inputs that are empty, equal or strange."""
    named = [*model.graph.input, *model.graph.output, *model.graph.initializer, *model.graph.node]
    if named:
        rng.choice(named).name = rng.choice([*NAMES, *[i.name for i in model.graph.input]])


@_step
def odd_header(model: Any, rng: random.Random) -> None:
    """Another opset, another domain, no opset, another format."""
    kind = rng.randrange(4)
    if kind == 0 and model.opset_import:
        rng.choice(model.opset_import).version = rng.choice([*range(30), number(rng)])
    elif kind == 1 and model.opset_import:
        rng.choice(model.opset_import).domain = rng.choice(["", "ai.onnx.ml", "com.microsoft", "x"])
    elif kind == 2:
        del model.opset_import[:]
    else:
        model.ir_version = number(rng)


@_step
def nested(model: Any, rng: random.Random) -> None:
    """A branch in a branch in a branch."""
    from onnx import TensorProto, helper

    inner = helper.make_graph(list(model.graph.node)[:1], "g", [], [helper.make_tensor_value_info("q", 1, None)])
    for _ in range(rng.choice([3, 8, 15])):
        value = helper.make_tensor("c", TensorProto.BOOL, [], [True])
        known = helper.make_node("Constant", [], ["c"], value=value)
        node = helper.make_node(
            "If", ["c"], ["q"], then_branch=inner, else_branch=inner if rng.random() < 0.1 else None
        )
        inner = helper.make_graph([known, node], "g", [], [helper.make_tensor_value_info("q", 1, None)])
    model.graph.node.extend(inner.node)


@_step
def recursive_function(model: Any, rng: random.Random) -> None:
    """A function of the model that calls itself, or one whose name is an operator's."""
    from onnx import helper

    name = rng.choice(["Relu", "Add", "F"])
    call = helper.make_node(name, ["a"], ["b"], domain=rng.choice(["", "own"]))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model.functions.extend([helper.make_function(call.domain, name, ["a"], ["b"], [call], opsets)])
    model.opset_import.extend([helper.make_opsetid("own", 1)])
    if model.graph.node and model.graph.node[0].input:
        call.input[0] = model.graph.node[0].input[0]
        model.graph.node.insert(0, call)


def in_external_data(path: Path, rng: random.Random) -> None:
    """A model with external data: other places, other sizes, a file cut short; beside the folder lies what must not be read."""
    import onnx

    (path.parent.parent / "outside.bin").write_bytes(b"\x00" * 100_000)
    for name, target in (("link.bin", "../outside.bin"), ("linked", "..")):
        os.symlink(target, path.parent / name)
    os.mkfifo(path.parent / "fifo")
    model = onnx.load(str(path), load_external_data=False)
    tensors = [t for t in model.graph.initializer if t.external_data]
    if not tensors or rng.random() < 0.15:
        data = path.parent / "weights.bin"
        data.write_bytes(data.read_bytes()[: rng.randrange(100)])
        return
    t = rng.choice(tensors)
    entries = {e.key: e for e in t.external_data}
    kind = rng.randrange(5)
    if kind == 0:
        entries["location"].value = rng.choice(LOCATIONS)
    elif kind < 3:
        text = [str(number(rng)), "1e3", "", "x", " 64 ", "0x10", "9" * 5000]
        entries[rng.choice(["offset", "length"])].value = rng.choice(text)
    elif kind == 3:
        t.external_data.remove(rng.choice(list(entries.values())))
    else:
        claimed_size(model, rng)
    path.write_bytes(model.SerializeToString())


def in_archive(data: bytes, rng: random.Random) -> bytes:
    """An archive of PyTorch's with one part changed and packed again, so that its checksums are right."""
    source = zipfile.ZipFile(io.BytesIO(data))
    names = source.namelist()
    weights = [n for n in names if "/data/" in n or n.endswith((".pkl", ".bin", ".h5"))]
    texts = [n for n in names if n.endswith((".json", ".py"))]
    chosen = rng.choice(texts if texts and rng.random() < 0.7 else weights or names)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as made:
        for name in names:
            content = source.read(name)
            if name == chosen:
                if rng.random() < 0.1:
                    continue
                content = in_json(content, rng) if name.endswith(".json") else in_text(content, rng)
            made.writestr(name, content)
    return out.getvalue()


def in_text(content: bytes, rng: random.Random) -> bytes:
    """Code with a number or a name replaced; other parts with damaged bytes."""
    if not content:
        return b"x"
    words = content.split(b" ")
    if rng.random() < 0.5 and len(words) > 3:
        k = rng.randrange(len(words))
        words[k] = rng.choice([rng.choice(words), str(number(rng)).encode(), b"torch.add", b"self", b"(", b"[]"])
        return b" ".join(words)
    return in_bytes(content, rng)


def in_json(content: bytes, rng: random.Random) -> bytes:
    """JSON with a value replaced by another one of it, or an odd one."""
    try:
        tree = json.loads(content)
    except ValueError:
        return in_bytes(content, rng)
    places: list[tuple[Any, Any]] = []

    def walk(x: Any) -> None:
        for key, value in x.items() if isinstance(x, dict) else enumerate(x):
            places.append((x, key))
            if isinstance(value, (dict, list)):
                walk(value)

    if not isinstance(tree, (dict, list)):
        return in_bytes(content, rng)
    walk(tree)
    for _ in range(rng.choice([1, 1, 2])):
        if not places:
            break
        holder, key = rng.choice(places)
        other, at = rng.choice(places)
        try:
            old = holder[key]
            new: Any = rng.choice([None, other[at], number(rng), "", [], {}, real(rng), "torch.ops.aten.relu.default"])
            if isinstance(old, str) and rng.random() < 0.7:
                texts = [h[k] for h, k in places if isinstance(h, dict) and isinstance(h.get(k), str)]
                new = rng.choice(texts or [""])
            elif isinstance(old, int) and rng.random() < 0.7:
                new = number(rng)
            holder[key] = json.loads(json.dumps(new))
        except (KeyError, IndexError):  # what was replaced held it
            continue
    return json.dumps(tree).encode()
