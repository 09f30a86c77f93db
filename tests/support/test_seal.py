"""Exported libraries say at their head how long they are and what their checksum is: damage is found before any of their code runs."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from struct import unpack_from

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.runtime.linking.object_file import SEAL
from tilewright.support.linker import cross_linker, write_library

COPY = len(SEAL)
"""Bytes of the copy of the seal at the end of a file."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A compiled model, y = relu(x w'), in each form."""
    x, w = relay.var("x", shape=(2, 8)), relay.const(np.ones((4, 8), "float32"))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    folder = tmp_path_factory.mktemp("sealed")
    lib = relay.build(mod, "llvm")
    for suffix in (".so", ".tar", ".o"):
        lib.export_library(str(folder / f"model{suffix}"))
    return {suffix: folder / f"model{suffix}" for suffix in (".so", ".tar", ".o")}


RUN = """
import sys
import numpy as np
import tilewright as tvm
from tilewright.contrib import graph_executor
for path in sys.argv[1:]:
    try:
        module = tvm.runtime.load_module(path)
    except (ValueError, tvm.TVMError) as error:
        print(str(error).replace("\\n", " "))
        continue
    executor = graph_executor.GraphModule(module["default"](tvm.cpu()))
    executor.run(x=np.ones((2, 8), "float32"))
    print("right" if (executor.get_output(0).numpy() == 8).all() and module.implements_function("default") else "WRONG")
"""


def outcomes(files: list[Path]) -> list[str]:
    """Of loading and running files, in a process of its own: a message, or "right". Anything else fails."""
    done = subprocess.run([sys.executable, "-c", RUN, *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-800:])
    found = done.stdout.splitlines()
    assert len(found) == len(files) and "WRONG" not in found, found
    return found


def zeroed_tail(data: bytes, n: int) -> bytes:
    return data[:-n] + bytes(n)


SAID = (
    "is damaged: ",
    "is cut off: ",
    "is not a library: ",
    "is not an object: ",
    "was made for ",
    "is not an archive",
    "holds no objects",
)


def refused(found: list[str]) -> list[bool]:
    """Which were refused, all of them with a message that says that the file is at fault."""
    for text in found:
        assert text == "right" or any(words in text for words in SAID), text
    return [text != "right" for text in found]


def written(folder: Path, contents: list[bytes], suffix: str) -> list[Path]:
    files = [folder / f"{i}{suffix}" for i in range(len(contents))]
    for file, data in zip(files, contents, strict=True):
        file.write_bytes(data)
    return files


def loaded_end(data: bytes) -> int:
    """Where what the system's loader maps ends in a library."""
    if data[4] == 2:
        (at,), (count,), size, form = unpack_from("<Q", data, 32), unpack_from("<H", data, 56), 56, "<I4xQ16xQ"
    else:
        (at,), (count,), size, form = unpack_from("<I", data, 28), unpack_from("<H", data, 44), 32, "<II8xI"
    segments = [unpack_from(form, data, at + size * i) for i in range(count)]
    return max([offset + length for kind, offset, length in segments if kind == 1])


def test_a_zeroed_tail_is_found(libraries: dict[str, Path], tmp_path: Path) -> None:
    """`truncate -s -N` and back: what a file system leaves after a crash."""
    data = libraries[".so"].read_bytes()
    inside = len(data) - loaded_end(data)
    harmless = [1, 31, COPY, COPY + 1, 200, inside - 1, inside]
    harmful = [inside + 512, 4096, 8192, len(data) - 4096, len(data) - 64, len(data)]
    found = refused(outcomes(written(tmp_path, [zeroed_tail(data, n) for n in harmless + harmful], ".so")))
    assert found == [False] * len(harmless) + [True] * len(harmful)


def test_a_record_that_was_emptied_is_found(libraries: dict[str, Path], tmp_path: Path) -> None:
    """The place of a seal that none filled is not damage; the copy at the end tells the two apart."""
    data = libraries[".so"].read_bytes()
    at = data.index(SEAL[:16])
    emptied = data[:at] + SEAL + data[at + COPY :]
    assert refused(outcomes(written(tmp_path, [emptied, emptied[:-COPY]], ".so"))) == [True, False]


@pytest.mark.parametrize("suffix", [".so", ".tar", ".o"])
def test_flipped_bits(libraries: dict[str, Path], tmp_path: Path, suffix: str) -> None:
    """Anywhere: refused, or right all the same."""
    data, rng = libraries[suffix].read_bytes(), random.Random(suffix)
    places = [*range(0, 64, 3), *rng.sample(range(64, 1024), 40), *rng.sample(range(len(data)), 60)]
    contents = []
    for at in places:
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        contents.append(bytes(changed))
    found = refused(outcomes(written(tmp_path, contents, suffix)))
    assert sum(found) > len(found) // 2


@pytest.mark.parametrize("suffix", [".so", ".tar", ".o"])
def test_cut_longer_and_overwritten(libraries: dict[str, Path], tmp_path: Path, suffix: str) -> None:
    data, rng = libraries[suffix].read_bytes(), random.Random(suffix)
    contents = [data[:-n] for n in (1, COPY - 1, COPY, COPY + 1, 100, 1000, len(data) // 2, len(data) - 20)]
    contents += [data + extra for extra in (b"x", bytes(5000), rng.randbytes(77), data)]
    for size in (8, 512, 4096):
        for at in (0, 512, *range(0, len(data) - size, len(data) // 6)):
            start = at // size * size
            contents += [data[:start] + filler + data[start + size :] for filler in (bytes(size), rng.randbytes(size))]
    found = refused(outcomes(written(tmp_path, contents, suffix)))
    assert found[:3] == [False] * 3 or suffix != ".so"
    assert found[3:8] == [True] * 5 and found[8:12] == [False] * 4 and sum(found[12:]) > len(found[12:]) // 2


def test_another_file_of_the_same_length(libraries: dict[str, Path], tmp_path: Path) -> None:
    """The copy of an older build over it, up to some place."""
    data = libraries[".so"].read_bytes()
    w = relay.const(np.full((4, 8), 2, "float32"))
    x = relay.var("x", shape=(2, 8))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    relay.build(mod, "llvm").export_library(str(tmp_path / "other.so"))
    other = (tmp_path / "other.so").read_bytes()
    assert len(other) == len(data) and other != data
    differ = [i for i in range(4096, loaded_end(data)) if data[i] != other[i]]
    mixed = [other[:at] + data[at:] for at in (differ[1], differ[len(differ) // 2], differ[-1])]
    assert refused(outcomes(written(tmp_path, mixed, ".so"))) == [True] * 3


TOOLS: dict[str, list[str]] = {
    "strip": ["strip"],
    "strip -s": ["strip", "-s"],
    "strip -g": ["strip", "-g"],
    "objcopy": ["objcopy"],
    "objcopy --strip-all": ["objcopy", "--strip-all"],
    "llvm-strip": ["llvm-strip"],
    "llvm-objcopy": ["llvm-objcopy"],
}


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_that_keep_what_is_loaded(libraries: dict[str, Path], tmp_path: Path, tool: str) -> None:
    """What they write is checked as before: right as it is, and refused where it is damaged then."""
    if shutil.which(TOOLS[tool][0]) is None:
        pytest.skip(f"{TOOLS[tool][0]} is not installed")
    path = tmp_path / "tool.so"
    shutil.copy(libraries[".so"], path)
    subprocess.run([*TOOLS[tool], str(path)], check=True)
    data = path.read_bytes()
    assert SEAL[:16] in data and not data.endswith(libraries[".so"].read_bytes()[-COPY:])
    assert outcomes([path]) == ["right"]
    changed = bytearray(data)
    changed[loaded_end(data) - 100] ^= 4
    assert refused(
        outcomes(written(tmp_path, [bytes(changed), zeroed_tail(data, len(data) - loaded_end(data) + 512)], ".so"))
    ) == [True, True]


def changed_inside(data: bytes) -> bytes:
    at = loaded_end(data) - 9
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def note_overwritten(data: bytes) -> bytes:
    return data.replace(SEAL[:16], bytes(16), 1)


MESSAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "checksum": (changed_inside, "is damaged: its checksum does not agree; copy or compile it again"),
    "note": (note_overwritten, "is damaged: a note at its head cannot be read; copy or compile it again"),
    "gone": (
        lambda data: data.replace(b"Tilewright", b"tilewright", 2),
        "is damaged: the seal at its head is gone; copy or compile it again",
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages(libraries: dict[str, Path], tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.so"
    damage, text = MESSAGES[kind]
    path.write_bytes(damage(libraries[".so"].read_bytes()))
    for load in (tvm.runtime.load_module, tvm.get_global_func("runtime.ModuleLoadFromFile")):
        with pytest.raises(ValueError) as caught:
            load(str(path))
        assert str(caught.value) == f"{path} {text}"


def test_archives_begin_with_their_seal(libraries: dict[str, Path], tmp_path: Path) -> None:
    with tarfile.open(libraries[".tar"]) as tar:
        assert tar.getnames()[0] == "tilewright.seal"
        tar.extractall(tmp_path, filter="data")
    data = bytearray(libraries[".tar"].read_bytes())
    data[512] ^= 1
    (tmp_path / "model.tar").write_bytes(data)
    with pytest.raises(ValueError, match="its first member, the seal, cannot be read"):
        tvm.runtime.load_module(str(tmp_path / "model.tar"))


@pytest.mark.parametrize("suffix", [".tar", ".o"])
def test_objects_are_linked_by_others_without_the_seal(libraries: dict[str, Path], tmp_path: Path, suffix: str) -> None:
    """Who links them makes another file, which is loaded as any other library is."""
    path = libraries[suffix]
    objects = [path]
    if suffix == ".tar":
        with tarfile.open(path) as tar:
            tar.extractall(tmp_path, filter="data")
        objects = sorted(tmp_path.glob("*.o"))
    made = tmp_path / "made.so"
    tvm.contrib.cc.create_shared(str(made), [str(o) for o in objects])
    assert SEAL[:16] not in made.read_bytes()
    assert outcomes([made]) == ["right"]


def test_linkers_of_callers(libraries: dict[str, Path], tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 8))
    mod = tvm.IRModule.from_expr(
        relay.Function([x], relay.nn.relu(relay.sum(x, 1, keepdims=True) * relay.const(np.ones(4, "float32"))))
    )
    path = tmp_path / "own.so"
    relay.build(mod, "llvm").export_library(str(path), fcompile=tvm.contrib.cc.create_shared)
    assert outcomes([path]) == ["right"]
    data = bytearray(path.read_bytes())
    data[loaded_end(bytes(data)) - 100] ^= 1
    path.write_bytes(data)
    assert refused(outcomes([path])) == [True]


def test_libraries_with_generated_source(tmp_path: Path) -> None:
    """What the compiler of a language links, which strips it."""
    if tvm.contrib.cc.get_cc() is None:
        pytest.skip("no C compiler")
    path = tmp_path / "source.so"
    tvm.runtime.c_source_module("int answer(void) { return 42; }").export_library(str(path))
    check = tvm.get_global_func("runtime.ModuleLoadFromFile")
    check(str(path))
    data = path.read_bytes()
    at = loaded_end(data) - 4
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(ValueError, match="its checksum does not agree"):
        check(str(path))


@pytest.mark.parametrize("arch", ["aarch64", "armv7"])
def test_libraries_for_other_machines_are_sealed(tmp_path: Path, arch: str) -> None:
    if cross_linker() is None:
        pytest.skip("no linker for other machines")
    x = relay.var("x", shape=(8,))
    path = tmp_path / "model.so"
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.tanh(x))), f"llvm -mtriple={arch}-linux-gnu")
    lib.export_library(str(path))
    check = tvm.get_global_func("runtime.CheckSeal")
    check(str(path))
    data = bytearray(path.read_bytes())
    assert data[-COPY:] != SEAL and bytes(data).count(bytes(data[-COPY:])) == 2
    data[loaded_end(bytes(data)) - 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="its checksum does not agree"):
        check(str(path))


def test_no_constructor_of_a_damaged_library_runs(tmp_path: Path) -> None:
    """The checksum comes before the system's loader."""
    (tmp_path / "loud.c").write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void loud(void) { exit(7); }\nint tilewright_number = 5;\n"
    )
    if tvm.contrib.cc.get_cc() is None:
        pytest.skip("no C compiler")
    made = tmp_path / "loud.o"
    subprocess.run([tvm.contrib.cc.get_cc(), "-fPIC", "-c", str(tmp_path / "loud.c"), "-o", str(made)], check=True)
    x = relay.var("x", shape=(2, 8))
    path = tmp_path / "loud.so"
    relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x))), "llvm").export_library(
        str(path), addons=[str(made)], fcompile=tvm.contrib.cc.create_shared
    )
    data = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    at = loaded_end(data) - 4
    path.write_bytes(data[:at] + b"\6" + data[at + 1 :])
    assert refused(outcomes([path])) == [True]


def test_pieces(tmp_path: Path) -> None:
    """A large file is read by several threads; its last bit counts."""
    path = tmp_path / "large.tar"
    content = random.Random(0).randbytes(1000) + bytes(40 << 20)
    write_library({"tilewright.seal": SEAL, "x.o": content}, path)
    check, size = tvm.get_global_func("runtime.CheckSeal"), path.stat().st_size
    check(str(path))  # not sealed yet
    tvm.get_global_func("runtime.SealFile")(str(path))
    check(str(path))
    for at in (1 << 20, (1 << 20) - 1, 33 << 20, size - 1):
        with path.open("rb+") as file:
            file.seek(at)
            old = file.read(1)
            file.seek(at)
            file.write(bytes([old[0] ^ 1]))
            file.flush()
            with pytest.raises(ValueError, match="its checksum does not agree"):
                check(str(path))
            file.seek(at)
            file.write(old)
    check(str(path))
