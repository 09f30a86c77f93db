"""The runtime as one file; `make test-hosts` compiles and runs it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright.deploy.amalgamation import amalgamation, local_names, loose_names
from tilewright.deploy.machines import machine_of
from tilewright.deploy.native_build import Sources, runtime_sources
from tilewright.support.errors import TVMError

ONE = """#include "all.h"
#include <vector>
#define STEP 1
namespace tw {
namespace {
struct State { int count = STEP; };  // State
template <typename T>
T twice(T v) { return v + v; }
const char* const text = "twice";
}  // namespace
static int step(State& s) { return twice(s.count); }
int one() { State s; return step(s); }
struct Shared { int twice() const; };
int Shared::twice() const { return tw::twice(1); }
}  // namespace tw
"""
TWO = """#include "all.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#define STEP 2
namespace tw {
namespace {
struct State { long count = STEP; };
long twice(State* s) { return s->count * 2; }
}
long two() { State s; return twice(&s) + one(); }
}
"""


def test_local_names() -> None:
    assert local_names(ONE) == {"State", "twice", "text", "step"}
    assert loose_names(ONE) == {"State", "text", "Shared"} and local_names(TWO) == {"State", "twice"}


def test_two_sources_with_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name, text in {"all.h": "#pragma once\nnamespace tw { int one(); }\n", "one.cc": ONE, "two.cc": TWO}.items():
        (tmp_path / "src" / name).write_text(text)
    text = amalgamation(machine_of("x86_64-linux-gnu"), Sources(tmp_path, tmp_path / "include"))
    assert text.count("int one();") == 1 and "all.h" not in text and text.count("#include <vector>") == 1
    assert "int Shared::twice() const { return tw::twice_of_one(1); }" in text and '= "twice"' in text
    assert "long two() { State_of_two s; return twice_of_two(&s) + one(); }" in text and text.count("#undef STEP") == 2
    assert "#pragma GCC visibility push(default)\n#include <immintrin.h>\n#pragma GCC visibility pop" in text


def test_the_file_contains_all_sources() -> None:
    machine = machine_of("aarch64-linux-gnu")
    text = amalgamation(machine)
    assert text == amalgamation(machine) and not re.search(r'#include "', text)
    assert text.count("// ==== ") == len([f for f in runtime_sources(machine) if f.parent.name != "libcxx"])
    with pytest.raises(TVMError, match="the runtime for wasm32 is a module of its own"):
        amalgamation(machine_of("wasm32"))
