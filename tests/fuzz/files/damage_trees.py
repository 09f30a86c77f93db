"""Damage to models that are trees of fields: TensorFlow's messages, TFLite's tables, what a Keras file says of its layers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.files.damage import NAMES, in_bytes, in_json, number, real

Place = tuple[Any, str, Any]
"""(message, field, number or key within it or None)."""


def in_tensorflow(data: bytes, rng: random.Random, saved: bool) -> bytes:
    """A GraphDef or SavedModel with one to three fields changed."""
    from tilewright.formats.tensorflow_messages import message

    model = message("SavedModel" if saved else "GraphDef")()
    model.ParseFromString(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        in_message(model, rng)
    return bytes(model.SerializeToString())


def in_message(model: Any, rng: random.Random) -> None:
    """A protobuf message with one field changed, somewhere in it: another value, one of another place, twice, or none."""
    found = list(places(model))
    if not found:
        return
    holder, name, at = rng.choice(found)
    old = item(holder, name, at)
    alike = [v for v in [item(*p) for p in found] if type(v) is type(old)]
    values = getattr(holder, name)
    if isinstance(at, int) and hasattr(values, "extend") and rng.random() < 0.3:
        if rng.random() < 0.5:
            del values[at]
        else:
            values.extend([old])
    elif at is None and rng.random() < 0.15:
        holder.ClearField(name)
    elif hasattr(old, "CopyFrom"):
        new = type(old)()
        new.CopyFrom(rng.choice(alike))
        old.CopyFrom(new)
    else:
        new = other_value(old, alike, rng)
        try:
            if at is None:
                setattr(holder, name, new)
            else:
                values[at] = new
        except (ValueError, TypeError):  # a number too large for the field
            return


def places(message: Any) -> Iterator[Place]:
    """Every field that is set, at every depth."""
    for field, value in message.ListFields():
        kind = field.message_type
        keys: list[Any] = [None]
        if kind is not None and kind.GetOptions().map_entry:
            keys = sorted(value)
        elif hasattr(value, "extend"):
            keys = list(range(len(value)))
        for key in keys:
            yield message, field.name, key
            inner = item(message, field.name, key)
            if hasattr(inner, "ListFields"):
                yield from places(inner)


def item(message: Any, name: str, at: Any) -> Any:
    """What stands in a place."""
    value = getattr(message, name)
    return value if at is None else value[at]


def other_value(old: Any, alike: list[Any], rng: random.Random) -> Any:
    """Another value of a plain value's type: one of `alike`, or an odd one."""
    if alike and rng.random() < 0.5:
        return rng.choice(alike)
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return number(rng)
    if isinstance(old, float):
        return real(rng)
    if isinstance(old, bytes):
        return in_bytes(old, rng) if old else b"x"
    return rng.choice(NAMES)


def in_tflite(data: bytes, rng: random.Random) -> bytes:
    """A TFLite file with one to three fields of its tables changed."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(data, 0)
    for _ in range(rng.choice([1, 1, 2, 3])):
        in_table(model, rng)
    builder = flatbuffers.Builder(1024)
    try:
        builder.Finish(model.Pack(builder), b"TFL3")
    except Exception:  # a value that its field does not hold; flatbuffers has errors of many kinds for it
        return in_bytes(data, rng)
    return bytes(builder.Output())


def in_table(model: Any, rng: random.Random) -> None:
    """One field of an unpacked table changed, somewhere in it."""
    found: list[tuple[Any, Any]] = []

    def walk(holder: Any) -> None:
        for key, value in enumerate(holder) if isinstance(holder, list) else sorted(vars(holder).items()):
            found.append((holder, key))
            if isinstance(value, list) or hasattr(value, "__dict__"):
                walk(value)

    def get(holder: Any, key: Any) -> Any:
        return holder[key] if isinstance(holder, list) else getattr(holder, key)

    def put(holder: Any, key: Any, value: Any) -> None:
        if isinstance(holder, list):
            holder[key] = value
        else:
            setattr(holder, key, value)

    walk(model)
    holder, key = rng.choice(found)
    old = get(holder, key)
    if isinstance(holder, list) and rng.random() < 0.2:
        if rng.random() < 0.5:
            del holder[key]
        else:
            holder.append(old)
    elif isinstance(old, np.ndarray):
        put(holder, key, other_array(old, rng))
    elif old is None or isinstance(old, (list, dict)) or hasattr(old, "__dict__"):
        alike = [get(*p) for p in found if type(get(*p)) is type(old) and p[1] == key]
        put(holder, key, None if rng.random() < 0.3 else rng.choice(alike or [old]))
    else:
        alike = [get(*p) for p in found if type(get(*p)) is type(old)]
        put(holder, key, other_value(old, alike, rng))


def other_array(old: np.ndarray, rng: random.Random) -> np.ndarray:
    """Numbers of a vector changed, cut off or put twice."""
    new = old.copy()
    kind = rng.randrange(4)
    if kind == 0 or not new.size:
        return np.append(new, new[:1] if new.size else np.ones(1, new.dtype)).astype(new.dtype)
    if kind == 1:
        return new[: rng.randrange(len(new))]
    at = rng.randrange(len(new))
    if new.dtype.kind == "f":
        new[at] = np.float64(real(rng)).astype(new.dtype)
    else:
        new[at] = np.array(number(rng) & (1 << 8 * new.itemsize) - 1, f"u{new.itemsize}").view(new.dtype)
    return new


def in_h5(path: Path, rng: random.Random) -> None:
    """A Keras file of the older kind: what it says of its layers changed, or a weight of another shape or none."""
    import h5py

    with h5py.File(path, "r+") as file:
        if rng.random() < 0.6:
            text = in_json(bytes(str(file.attrs["model_config"]), "utf-8"), rng)
            file.attrs["model_config"] = text.decode(errors="replace")
            return
        sets: list[Any] = []
        file.visititems(lambda _, x: sets.append(x) if isinstance(x, h5py.Dataset) else None)
        if not sets:
            return
        chosen = rng.choice(sets)
        name, data, home = chosen.name, chosen[()], chosen.file
        del home[name]
        kind = rng.randrange(4)
        if kind == 0:
            home[name] = np.asarray(data)[..., :-1] if np.ndim(data) else data
        elif kind == 1:
            home[name] = np.asarray(data).astype(rng.choice(["float64", "int32", "S3"]))
        elif kind == 2:
            home[name] = np.asarray(data)[None]
