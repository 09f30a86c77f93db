"""Static libraries, system libraries with prefixes, and the classic functions that compile and link for `export_library`."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, runtime, te
from tilewright.contrib import cc, ndk, tar, utils
from tilewright.relay.backend import Executor, Runtime
from tilewright.runtime import libinfo
from tilewright.runtime.linking.archive_file import members
from tilewright.runtime.linking.symbol_file import symbol_file
from tilewright.support.errors import TVMError
from tilewright.support.object_kind import COFF, ELF, MACH_O, ObjectKind

SYSTEM = Runtime("cpp", {"system-lib": True})


def model(scale: float, prefix: str = "", target: str = "llvm", **how: Any) -> Any:
    """x of (2, 3) -> softmax(x @ w), w = scale * [0, 1, ..., 5]."""
    x = relay.var("x", shape=(2, 3))
    w = relay.const(scale * np.arange(6, dtype="float32").reshape(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.nn.softmax(relay.nn.dense(x, w))))
    return relay.build(mod.with_attr("system_lib_prefix", prefix) if prefix else mod, target, **how)


def expected(scale: float) -> Any:
    e = np.exp(np.array([[3, 12], [3, 12]]) * scale)
    return e / e.sum(1, keepdims=True)


def add(name: str, number: float, **how: Any) -> Any:
    a = te.placeholder((4,), name="a")
    func = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + number, name="b")])
    mod = tvm.IRModule({tvm.ir.GlobalVar(name): func.with_attr("global_symbol", name)})
    prefix = how.pop("prefix", "")
    return tvm.build(mod.with_attr("system_lib_prefix", prefix) if prefix else mod, **{"target": "llvm", **how})


PROGRAM = r"""
#include <tilewright/host.h>
#include <cstdio>
using namespace tilewright;

static float second(const char* prefix) {
  Module library = Function::global("runtime.SystemLib")(std::string(prefix)).module();
  Module executor = library["default"](cpu()).module();
  executor["set_input"]("x", Tensor({2, 3}, std::vector<float>{1, 1, 1, 1, 1, 1}));
  executor["run"]();
  return executor["get_output"](0).tensor().data<float>()[1];
}

int main() {
  Tensor a({4}, std::vector<float>{1, 2, 3, 4}), b({4}, std::vector<float>{0, 0, 0, 0});
  Function::global("runtime.SystemLib")(std::string("third_")).module()["add"](a, b);
  printf("%.6f %.6f %.1f\n", second("first_"), second("second_"), b.data<float>()[3]);
}
"""


def test_three_libraries_in_one_program(tmp_path: Path) -> None:
    """Two models with the same kernels, one through C, and functions of tvm.build: each under its prefix, registered at the start."""
    model(0.1, "first_").export_library(tmp_path / "first.a")
    model(0.2, "second_", "c", executor=Executor("graph"), runtime=SYSTEM).export_library(tmp_path / "second.a")
    add("add", 10, prefix="third_").export_library(tmp_path / "third.a", fcompile=cc.create_staticlib)
    (tmp_path / "main.cc").write_text(PROGRAM)
    libraries = [str(tmp_path / f"{name}.a") for name in ("first", "second", "third")]
    whole = ["-Wl,--whole-archive", *libraries, "-Wl,--no-whole-archive"]
    cc.create_executable(tmp_path / "main", str(tmp_path / "main.cc"), [*whole, *libinfo.host_options()])
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    values = [float(v) for v in done.stdout.split()]
    assert values == pytest.approx([expected(0.1)[0, 1], expected(0.2)[0, 1], 14], abs=1e-5)


def test_a_static_library_is_loaded_as_others(tmp_path: Path) -> None:
    model(0.1).export_library(tmp_path / "m.a")
    executor = runtime.load_module(tmp_path / "m.a")["default"](tvm.cpu())
    executor["set_input"]("x", np.ones((2, 3), "float32"))
    executor["run"]()
    np.testing.assert_allclose(executor["get_output"](0).numpy(), expected(0.1), rtol=1e-5)
    (tmp_path / "bad.a").write_bytes((tmp_path / "m.a").read_bytes()[:-70])
    with pytest.raises(TVMError, match=r"bad.a is not a static library: it is cut off or damaged at byte \d+"):
        runtime.load_module(tmp_path / "bad.a")


FORMS = {"x86_64-linux-gnu": ELF, "armv7-linux-gnueabihf": ELF, "aarch64-apple-macos": MACH_O, "x86_64-pc-windows-msvc": COFF,
         "i686-pc-windows-gnu": COFF, "riscv64-linux-gnu": ELF}  # fmt: skip


@pytest.mark.parametrize("triple", FORMS)
def test_form_of_each_system(triple: str, tmp_path: Path) -> None:
    """Another archiver reads what we write, and all symbols but those of the C library have the prefix."""
    path = tmp_path / ("m.lib" if "windows" in triple else "m.a")
    model(0.1, "mine_", triple).export_library(path)
    objects = members(path.read_bytes())
    assert {k.container for data in objects.values() if (k := ObjectKind.of(data))} == {FORMS[triple]}
    symbols = [s for data in objects.values() for s in symbol_file(data).exported]
    assert {"mine___tilewright_metadata", "mine___tilewright_run"} <= set(symbols)
    assert all(["mine_" in s for s in symbols]), symbols
    listed = subprocess.run(
        [sys.executable, "-m", "ziglang", "ar", "t", path], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split() == list(objects)
    if FORMS[triple] == ELF:
        # Only linkers of GNU make something of .ctors.
        assert b".init_array\0" in objects["registration.o"] and b".ctors" not in objects["registration.o"]
        linked = tmp_path / "m.so"
        whole = ["-shared", "--whole-archive", str(path), "-o", str(linked)]
        subprocess.run([sys.executable, "-m", "ziglang", "ld.lld", *whole], check=True)
        assert "mine___tilewright_run" in symbol_file(linked.read_bytes()).symbols


@pytest.mark.parametrize("first", ["", "import tvm_ffi"], ids=["alone", "tvm_ffi"])
def test_libraries_that_register_themselves(tmp_path: Path, first: str) -> None:
    """-system-lib and Runtime: loading registers; names are found with the prefix, then without; beside another runtime too."""
    add("plus_one", 1, target="llvm -system-lib").export_library(tmp_path / "one.so")
    add("two_plus", 2, runtime=SYSTEM, prefix="two_").export_library(tmp_path / "two.so")
    model(0.3, "net_", runtime=SYSTEM).export_library(tmp_path / "net.so")
    model(0.3, "src_", "c", runtime=SYSTEM).export_library(tmp_path / "src.tar")
    program = f"""
{first}
import numpy as np
from tilewright import runtime
for name in ("one.so", "two.so", "net.so", "src.tar"):
    runtime.load_module({str(tmp_path)!r} + "/" + name)
b = runtime.empty((4,), "float32")
runtime.system_lib()["plus_one"](runtime.array(np.ones(4, "float32")), b)
assert b.numpy()[0] == 2
two = runtime.system_lib("two_")
two["plus"](runtime.array(np.ones(4, "float32")), b)
assert b.numpy()[0] == 3 and two.implements_function("two_plus") and two.implements_function("plus_one")
for prefix in ("net_", "src_"):
    m = runtime.system_lib(prefix)["default"](runtime.cpu(0))
    m["set_input"]("x", np.ones((2, 3), "float32")); m["run"]()
    print(m["get_output"](0).numpy()[0, 1])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [float(v) for v in done.stdout.split()] == pytest.approx([expected(0.3)[0, 1]] * 2, abs=1e-5)


def test_what_fcompile_is_given(tmp_path: Path) -> None:
    lib, seen = add("f", 1), []

    def fcompile(path: str, files: list[str], **options: Any) -> None:
        seen.append(([Path(f).name for f in files], [Path(f).read_bytes()[:4] for f in files], options))

    lib.export_library(tmp_path / "x.so", fcompile=fcompile, flavour=3)
    assert seen[-1][0][:2] == ["seal.o", "lib0_0.o"] and seen[-1][2] == {"flavour": 3}
    fcompile.object_format = "ll"  # type: ignore[attr-defined]
    lib.export_library(tmp_path / "x.txt", fcompile=fcompile)
    assert seen[-1][0] == ["lib0_0.ll", "target.o"] and seen[-1][1][0] != b"\x7fELF"
    fcompile.object_format = "java"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="takes files of the format 'java', which the module's code is not written in"):
        lib.export_library(tmp_path / "x.txt", fcompile=fcompile)
    del fcompile.object_format  # type: ignore[attr-defined]
    fcompile.need_system_lib = True  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="needs a system library: build with Runtime"):
        lib.export_library(tmp_path / "x.txt", fcompile=fcompile)
    add("f", 1, runtime=SYSTEM).export_library(tmp_path / "x.txt", fcompile=fcompile)
    assert "registration.o" in seen[-1][0]
    (tmp_path / "mine.o").write_bytes(b"more")
    lib.export_library(
        tmp_path / "x.tar", fcompile=tar.tar, addons=[str(tmp_path / "mine.o")],
        fpack_imports=lambda m, system, prefix, place: str(tmp_path / "mine.o"), workspace_dir=tmp_path,
    )  # fmt: skip
    with tarfile.open(tmp_path / "x.tar") as held:
        assert held.getnames() == ["lib0_0.o", "target.o", "mine.o"]


def test_cross_compilers(tmp_path: Path) -> None:
    """A command or a function; its options, its files, the machine that it compiles for."""
    zig = f"{sys.executable} -m ziglang cc -target aarch64-linux-gnu"
    (tmp_path / "more.c").write_text("int more(void) { return 7; }\n")
    cross = cc.cross_compiler(
        zig, ["-O1", "-nostdlib"], add_files=[str(tmp_path / "more.c")], get_target_triple=lambda: "aarch64-linux-gnu"
    )
    assert (cross.output_format, cross.get_target_triple(), cross.cc) == ("so", "aarch64-linux-gnu", zig)  # type: ignore[attr-defined]
    add("f", 1, target="aarch64-linux-gnu").export_library(tmp_path / "f.so", fcompile=cross)
    kind = ObjectKind.of((tmp_path / "f.so").read_bytes())
    assert kind is not None and kind.machine_name == "aarch64"
    assert {"__tvm_ffi_f", "more"} <= set(symbol_file((tmp_path / "f.so").read_bytes()).symbols)
    with pytest.raises(ValueError, match=r"f.so was made for aarch64, but this machine is|wrong ELF class|another"):
        runtime.load_module(tmp_path / "f.so")
    static = cc.cross_compiler(cc.create_staticlib)
    assert static.output_format == "a"  # type: ignore[attr-defined]
    add("f", 1, target="aarch64-linux-gnu").export_library(tmp_path / "f.a", fcompile=static)
    assert "lib0_0.o" in members((tmp_path / "f.a").read_bytes())
    assert cc.get_target_by_dump_machine("no-such-compiler")() is None
    own = cc.get_target_by_dump_machine(cc.get_cc())()
    assert own is not None and own.count("-") >= 2


def test_the_linker_is_given(tmp_path: Path) -> None:
    """export_library(cc=, options=) without fcompile."""
    compiler = cc.get_cc()
    assert compiler is not None
    add("f", 1).export_library(tmp_path / "f.so", cc=compiler, options=["-Wl,-soname,mine.so"])
    assert b"mine.so\0" in (tmp_path / "f.so").read_bytes()
    out = runtime.empty((4,), "float32")
    runtime.load_module(tmp_path / "f.so")["f"](runtime.array(np.ones(4, "float32")), out)
    assert out.numpy()[0] == 2


def test_android(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    lib = add("f", 1, target="aarch64-linux-android")
    with pytest.raises(TVMError, match="linking with the NDK needs its compiler: set TVM_NDK_CC"):
        lib.export_library(tmp_path / "f.so", fcompile=ndk.create_shared)
    monkeypatch.setenv(
        "TVM_NDK_CC",
        f"{sys.executable} -m ziglang cc -target aarch64-linux-gnu -nostdlib -Wno-unused-command-line-argument",
    )
    lib.export_library(tmp_path / "f.so", fcompile=ndk.create_shared, options=["-L."])
    assert "__tvm_ffi_f" in symbol_file((tmp_path / "f.so").read_bytes()).symbols
    lib.export_library(tmp_path / "f.a", fcompile=ndk.create_staticlib)
    assert cc.get_global_symbol_section_map(tmp_path / "f.a")["__tvm_ffi_f"] == "T"


def test_archives_under_the_classic_names(tmp_path: Path) -> None:
    for name in ("a.o", "b.o"):
        (tmp_path / name).write_bytes(name.encode())
    tar.tar(tmp_path / "x.tar", [str(tmp_path / "a.o"), str(tmp_path / "b.o"), str(tmp_path / "a.o")])
    tar.untar(tmp_path / "x.tar", tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["2_a.o", "a.o", "b.o"]
    found = tar.normalize_file_list_by_unpacking_tars(utils.tempdir(), [str(tmp_path / "a.o"), str(tmp_path / "x.tar")])
    assert [Path(f).name for f in found] == ["a.o", "2_a.o", "a.o", "b.o"]
    cc.create_staticlib(tmp_path / "x.a", [str(tmp_path / "x.tar")])
    assert sorted(members((tmp_path / "x.a").read_bytes())) == ["2_a.o", "a.o", "b.o"]


def test_a_static_library_in_another_module(tmp_path: Path) -> None:
    """load_static_library: an object of somebody else's, linked into what is exported."""
    add("f", 1).save(str(tmp_path / "f.o"))
    static = runtime.load_static_library(tmp_path / "f.o", ["f"])
    assert (static.type_key, static.is_dso_exportable, static.is_runnable, static.get_property_mask()) == (
        "static_library",
        True,
        False,
        4,
    )
    assert static.implements_function("f")
    with pytest.raises(ValueError, match=r"static library .*f.o cannot be called before it is linked"):
        static["f"]()
    whole = add("g", 2)
    whole.import_module(static)
    whole.export_library(tmp_path / "both.so")
    both, out = runtime.load_module(tmp_path / "both.so"), runtime.empty((4,), "float32")
    both["f"](runtime.array(np.ones(4, "float32")), out)
    assert out.numpy()[0] == 2 and both.implements_function("g")
    whole.clear_imports()
    assert whole.imported_modules == [] and whole.get_property_mask() == 6


def test_parameters_in_files(tmp_path: Path) -> None:
    runtime.save_param_dict_to_file({"w": np.arange(3, dtype="float32")}, tmp_path / "w.params")
    assert runtime.load_param_dict_from_file(tmp_path / "w.params")["w"].numpy().tolist() == [0, 1, 2]


def test_what_is_linked_for_loading_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed has nothing to clean."""
    add("add_one", 1).export_library(tmp_path / "lib.tar")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    source = runtime.c_source_module(
        "#include <tilewright/packed.h>\nTW_PACKED_FUNC(none) { return 0; }", "c", ["none"]
    )
    loaded, out = runtime.load_module(tmp_path / "lib.tar"), runtime.empty((4,))
    assert not list((tmp_path / "temporary").iterdir())
    loaded["add_one"](runtime.array(np.zeros(4, "float32")), out)
    assert out.numpy().tolist() == [1] * 4
    with pytest.raises(AttributeError, match="the module has no function `add_ona`; did you mean `add_one`"):
        loaded["add_ona"]
    source["none"]()
    assert not list((tmp_path / "temporary").iterdir())


def test_temporary_folders_and_locks(tmp_path: Path) -> None:
    with utils.TempDirectory.set_keep_for_debug():
        kept = utils.tempdir(tmp_path / "kept")
    gone = utils.tempdir()
    utils.TempDirectory.remove_tempdirs()
    assert kept.path.is_dir() and not gone.path.exists()
    lock = utils.filelock(tmp_path / "lock")
    other = "import sys; from tilewright.contrib import utils; utils.FileLock(sys.argv[1]); print('held')"
    with subprocess.Popen(
        [sys.executable, "-c", other, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    ) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        lock.release()
        assert process.communicate(timeout=60)[0] == "held\n"
