"""What `make test-hosts` adds: other standards and compilers, one program with the runtime in it, orders of loading, memory, Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosts import CHECKED, EXAMPLES, HERE, PRINTED, build_examples, compile_cpp, run
from tilewright.deploy.native_build import native_sources
from tilewright.runtime import libinfo

ZIG = [sys.executable, "-m", "ziglang", "c++"]
SANITIZED = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
MEMCHECK = [
    "valgrind",
    "-q",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
    "--error-exitcode=9",
]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_examples(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.parametrize("compiler", [None, ZIG], ids=["gcc", "zig"])
def test_standards_and_compilers(standard: str, compiler: list[str] | None, tmp_path: Path) -> None:
    options = [f"-std={standard}", "-O2", *libinfo.link_options()]
    for name in (*[f"{c}.cc" for c in CHECKED], *[f"{EXAMPLES}/cpp/{p}.cc" for p in PRINTED if p != "c_api"]):
        compile_cpp(HERE / name, tmp_path / Path(name).stem, *options, compiler=compiler)
    for name in CHECKED:
        assert run([tmp_path / name]) == "fine\n"


@pytest.mark.parametrize("name", CHECKED)
def test_sanitizers(name: str, tmp_path: Path) -> None:
    options = ["-std=c++17", "-O1", *SANITIZED, *libinfo.link_options()]
    program = compile_cpp(HERE / f"{name}.cc", tmp_path / name, *options)
    assert run([program], ASAN_OPTIONS="detect_leaks=1") == "fine\n"


def test_memory(examples: Path, tmp_path: Path) -> None:
    """Valgrind knows no AVX-512."""
    assert shutil.which("valgrind"), "apt-get install valgrind"
    run([sys.executable, EXAMPLES / "cpp" / "models.py", tmp_path, "--target", "llvm -mcpu=x86-64-v2"])
    for name, text in PRINTED.items():
        assert run([*MEMCHECK, examples / name, tmp_path], TVM_NUM_THREADS="1") == text


def test_the_makefile(tmp_path: Path) -> None:
    """With pkg-config, as a program of one's own would be built."""
    variables = [f"BUILD={tmp_path}", f"TILEWRIGHT={sys.executable} -m tilewright", f"PYTHON={sys.executable}"]
    run(["make", "-C", EXAMPLES / "cpp", *variables])
    for name, text in PRINTED.items():
        assert run([tmp_path / name, tmp_path / "models"]) == text


def test_all_in_one(examples: Path, tmp_path: Path) -> None:
    """CMake: a program that needs no file of the package, and one that is linked with the library."""
    source = EXAMPLES / "cpp" / "all_in_one"
    run(["cmake", "-S", source, "-B", tmp_path / "build", f"-Dtilewright_DIR={libinfo.cmake_folder()}"])
    run(["cmake", "--build", tmp_path / "build", "--parallel", "2"])
    program = tmp_path / "build" / "all_in_one"
    assert "libtilewright" not in run(["ldd", program])
    assert run([program, examples / "models"]) == PRINTED["graph_executor"]
    assert run([tmp_path / "build" / "with_library", examples / "models"]) == PRINTED["aot"]


@pytest.mark.parametrize("compiler", [None, ZIG], ids=["gcc", "zig"])
def test_the_runtime_as_one_file(compiler: list[str] | None, examples: Path, tmp_path: Path) -> None:
    source = tmp_path / "tilewright_runtime.cc"
    run([sys.executable, "-m", "tilewright", "runtime", "source", "-o", source])
    options = ["-std=gnu++17", "-O1", "-rdynamic", str(source), "-ldl", "-lpthread"]
    for name in ("graph_executor", "virtual_machine"):
        program = compile_cpp(EXAMPLES / "cpp" / f"{name}.cc", tmp_path / name, *options, compiler=compiler)
        assert run([program, examples / "models"]) == PRINTED[name]


def test_a_linked_plugin_in_both_orders(tmp_path: Path) -> None:
    plugin = EXAMPLES / "cpp" / "plugin.cc"
    path = compile_cpp(plugin, tmp_path / "plugin.so", "-std=c++17", "-fPIC", "-shared", *libinfo.link_options())
    load, call = f"ctypes.CDLL({str(path)!r})", "print(tvm.get_global_func('plugin.apply')(lambda v: v + 1, 1, 2))"
    for order in (f"{load}; import tilewright as tvm", f"import tilewright as tvm; {load}; {load}"):
        assert run([sys.executable, "-c", f"import ctypes; {order}; {call}"]) == "3\n"


def test_a_plugin_of_a_server(tmp_path: Path) -> None:
    """The option --load-library of servers of remote calls."""
    plugin = EXAMPLES / "cpp" / "plugin.cc"
    path = compile_cpp(plugin, tmp_path / "plugin.so", "-std=c++17", "-fPIC", "-shared")
    code = f"""
from tilewright import rpc
server = rpc.Server("127.0.0.1", 9190, load_library={str(path)!r})
print(rpc.connect("127.0.0.1", server.port).get_function("plugin.apply")(lambda v: v + 1, 1, 2))
server.terminate()
"""
    assert run([sys.executable, "-c", code]).splitlines()[-1] == "3"


def java_home() -> Path:
    """A JDK with java.lang.foreign in its final form."""
    known = [os.environ.get("JAVA_HOME", ""), *sorted(map(str, Path("/usr/lib/jvm").glob("*")), reverse=True)]
    for home in [Path(k) for k in known if k]:
        if (home / "bin" / "javac").exists():
            said = subprocess.run([home / "bin" / "javac", "-version"], capture_output=True, text=True, check=True)
            if int((said.stdout + said.stderr).split()[1].split(".")[0]) >= 22:
                return home
    pytest.fail("Java needs a JDK of version 22 or later: set JAVA_HOME")


def test_java(examples: Path, tmp_path: Path) -> None:
    home = java_home()
    sources = sorted((native_sources().root / "java").rglob("*.java"))
    lint = ["-Xlint:all,-restricted", "-Werror", "--release", "22"]
    run(
        [
            home / "bin" / "javac",
            *lint,
            "-d",
            tmp_path,
            *sources,
            EXAMPLES / "java" / "Deploy.java",
            HERE / "Classic.java",
        ]
    )
    (library,) = libinfo.find_lib_path()
    java = [
        home / "bin" / "java",
        "-cp",
        tmp_path,
        "--enable-native-access=ALL-UNNAMED",
        f"-Dtilewright.library={library}",
    ]
    assert run([*java, "Deploy", examples / "models"]) == (
        "[1.0, 12.0, 23.0, 34.0] ahead of time\n[1.0, 12.0, 23.0, 34.0] from three files\na1\n42.0\nValueError: no ink\n"
        "ValueError: input `x` must have shape (2, 2), got (3,)\n"
    )
    assert run([*java, "Classic"]) == "fine\n"
