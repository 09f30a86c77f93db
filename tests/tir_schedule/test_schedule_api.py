"""Schedule, Trace, ScheduleState and their kin under their classic names: what is not a primitive."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tir_schedule.examples import chain, matmul
from tilewright import tir
from tilewright.ir import IRModule
from tilewright.node import assert_structural_equal
from tilewright.support.errors import InternalError, ScheduleError
from tilewright.tir import schedule as S
from tilewright.tir.schedule import Instruction, InstructionKind, Schedule, Trace
from tilewright.tir.schedule.block_scope import CachedFlags
from tilewright.tir.schedule.testing import assert_structural_equal_ignore_global_symbol, verify_trace_roundtrip
from tilewright.tir.schedule.verify import verify

PUBLIC = (
    "Schedule ScheduleError BlockScope Dependency DepKind StmtSRef Instruction InstructionKind Trace ScheduleState "
    "ScheduleDebugMask BlockRV LoopRV ExprRV"
).split()


def test_public_names() -> None:
    assert [n for n in PUBLIC if not hasattr(S, n)] == []
    for name in (
        "Schedule",
        "ScheduleError",
        "ScheduleState",
        "StmtSRef",
        "BlockScope",
        "Trace",
        "BlockDependenceInfo",
    ):
        assert getattr(tir, name) is getattr(S, name)


def test_options_of_a_schedule() -> None:
    with pytest.raises(ValueError, match='debug_mask must be "all", "none" or a number from 0 to 3, but is \'some\''):
        Schedule(chain(), debug_mask="some")
    with pytest.raises(ValueError, match="error_render_level must be one of"):
        Schedule(chain(), error_render_level="loud")
    with pytest.raises(TypeError, match="takes a PrimFunc or an IRModule, but was given int"):
        Schedule(3)  # type: ignore[arg-type]
    assert Schedule(chain(), debug_mask="all").state.debug_mask == 3
    texts = {}
    for level in ("detail", "fast", "none"):
        s = Schedule(matmul(), error_render_level=level)
        with pytest.raises(ScheduleError) as caught:
            s.vectorize(s.get_loops("C")[2])
        texts[level] = str(caught.value)
    assert "^ loop k" in texts["detail"] and texts["detail"].startswith(texts["fast"])
    assert "\n" not in texts["fast"]
    assert texts["none"] == "vectorize: the primitive is refused (error_render_level is 'none')"


def test_checks_can_be_left_out() -> None:
    from .refusals import CARRIED

    s = Schedule(CARRIED(), enable_check=False)
    s.reorder(*reversed(s.split(s.get_loops("b")[0], [None, 7])))
    assert s.state.enable_check is False


def test_functions_of_a_module() -> None:
    both: Any = {"f": chain(), "main": matmul()}
    s = Schedule(IRModule(both))
    assert s.func_working_on is None
    s.work_on("f")
    assert s.func_working_on is not None and s.func_working_on.name_hint == "f"
    s.compute_inline("B")
    assert s.trace is not None and s.trace.as_python()[0] == 'b0 = sch.get_block(name="B", func_name="f")'
    assert s.get(s.get_block("C", func_name="main")).name_hint == "C"
    with pytest.raises(
        ScheduleError, match=r"^work_on: there is no function 'g' to schedule; the module has \['f', 'main'\]"
    ):
        s.work_on("g")


def test_seeds() -> None:
    def draw(s: Schedule) -> list[int]:
        loop = s.get_loops("C")[0]
        return [int(s.get(x)) for _ in range(4) for x in s.sample_perfect_tile(loop, 2)]

    assert draw(Schedule(matmul(64, 4, 4), seed=5)) == draw(Schedule(matmul(64, 4, 4), seed=5))
    s = Schedule(matmul(64, 4, 4), seed=5)
    t = Schedule(matmul(64, 4, 4), seed=s.fork_seed())
    assert draw(t) != draw(Schedule(matmul(64, 4, 4), seed=5)) or t.fork_seed() != s.fork_seed()
    s.seed(9)
    u = Schedule(matmul(64, 4, 4), seed=9)
    assert draw(s) == draw(u)


def test_handles_and_references() -> None:
    s = Schedule(matmul())
    block = s.get_block("C")
    loops = s.get_loops(block)
    ref = s.get_sref(block)
    assert ref.stmt is s.get(block) and s.get_sref(s.get(loops[0])) is s.get_sref(loops[0])
    assert s.get_sref(loops[1]).parent is s.get_sref(loops[0]) and s.get_sref(loops[0]).seq_index == -1
    factors = s.sample_perfect_tile(loops[0], 2, decision=[2, 4])
    assert [s.get(f) for f in factors] == [2, 4] and s.get(factors[0] * factors[1] + 1) == 9
    s.remove_rv(block)
    with pytest.raises(ScheduleError, match="a handle of this schedule is needed"):
        s.get(block)
    s.fuse(*loops[:2])
    with pytest.raises(ScheduleError, match=r"^get_sref: the loop or block of a handle no longer exists"):
        s.get(loops[0])
    assert S.StmtSRef.inline_mark() is not S.StmtSRef.root_mark()


def test_show(capsys: pytest.CaptureFixture[str]) -> None:
    s = Schedule(chain())
    s.unroll(s.get_loops("B")[0])
    s.show(black_format=True)
    assert s.trace is not None
    s.trace.show()
    out = capsys.readouterr().out
    assert "T.unroll(16)" in out and out.count("def apply_trace(sch: tir.Schedule) -> None:") == 2
    assert "# from tilewright import tir" in out


def test_without_a_trace() -> None:
    s = Schedule._create_non_traced(chain(), seed=1)
    s.unroll(s.get_loops("B")[0])
    assert s.trace is None


def sampled() -> Schedule:
    s = Schedule(matmul(16, 16, 16), seed=3)
    i, j, _ = s.get_loops("C")
    s.get_loops("C")
    s.split(i, s.sample_perfect_tile(i, 2))
    width = s.sample_categorical([2, 4, 8], [0.2, 0.3, 0.5])
    s.split(j, [None, width])
    s.enter_postproc()
    s.annotate("C", "width", width)
    return s


def test_decisions() -> None:
    s = sampled()
    assert s.trace is not None
    tile, width = [i for i in s.trace.insts if i.kind.is_sampling]
    assert s.trace.get_decision(width) in (0, 1, 2) and len(s.trace.get_decision(tile)) == 2
    other = s.trace.with_decision(width, 2, remove_postproc=True)
    assert other.get_decision(width) == 2 and len(other.insts) < len(s.trace.insts)
    t = Schedule(matmul(16, 16, 16), seed=1)
    other.apply_to_schedule(t, remove_postproc=True)
    assert int(t.get(t.get_loops("C")[3]).extent) == 8
    seen = []

    def provider(inst: Instruction, inputs: list[Any], attrs: list[Any], decision: Any) -> Any:
        seen.append((inst.kind.name, attrs, decision))
        return [4, 4] if inst is tile else 0

    u = Schedule(matmul(16, 16, 16))
    s.trace.apply_to_schedule(u, remove_postproc=False, decision_provider=provider)
    assert [x[0] for x in seen] == ["SamplePerfectTile", "SampleCategorical"]
    assert [int(u.get(x).extent) for x in u.get_loops("C")[:4]] == [4, 4, 8, 2]
    assert int(u.get(u.get_block("C")).annotations["width"]) == 2


def test_simplified_and_edited() -> None:
    s = sampled()
    assert s.trace is not None
    names = [i.kind.name for i in s.trace.simplified(remove_postproc=True).insts]
    assert names == ["GetBlock", "GetLoops", "SamplePerfectTile", "Split", "SampleCategorical", "Split"]
    kept = [i.kind.name for i in s.trace.simplified(remove_postproc=False).insts]
    assert kept[-1] == "Annotate" and "EnterPostproc" in kept
    trace = s.trace.copy()
    last = trace.pop()
    assert last is not None and last.kind.name == "Annotate" and len(trace.insts) == len(s.trace.insts) - 1
    trace.append(last)
    assert trace.as_python() == s.trace.as_python()
    made = Trace([], {})
    kind = InstructionKind.get("GetBlock")
    made.append(Instruction(kind, [], ["C", "main"], [S.BlockRV()]))
    assert made.as_python() == ['b0 = sch.get_block(name="C", func_name="main")']
    assert made.pop() is not None and made.pop() is None
    assert repr(last).startswith("sch.annotate(block_or_loop=_, ann_key=")


def test_the_form_in_json() -> None:
    s = Schedule(matmul(16, 16, 16), seed=3)
    i, _, _ = s.get_loops(s.get_block("C"))
    s.split(i, [None, s.sample_categorical([2, 4], [0.5, 0.5], decision=1)])
    s.annotate("C", "key", "value")
    assert s.trace is not None
    rows, decisions = json.loads(json.dumps(s.trace.as_json()))
    assert rows[:2] == [["GetBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]]
    assert rows[2] == ["SampleCategorical", [], [[2, 4], [0.5, 0.5]], ["v4"]]
    assert rows[3][:2] == ["Split", ["l1", None, "v4"]]
    assert rows[-1] == ["Annotate", ["b7", '"value"'], ["key"], []]
    assert decisions == [[2, 1]]


def test_what_is_known_of_blocks() -> None:
    s = Schedule(chain(), debug_mask="all")
    b, c, root = (s.get_sref(s.get_block(n)) for n in ("B", "C", "root"))
    assert s.state._get_cached_flags(c) == CachedFlags(True, True, True)
    scope = s.state.get_block_scope(root)
    (dep,) = scope.get_deps_by_src(b)
    assert dep.dst is c and dep.kind == S.DepKind.RAW and scope.get_deps_by_dst(c) == [dep]
    s.compute_at("B", s.get_loops("C")[0])
    assert s.state._get_cached_flags(c).region_cover
    info = S.BlockDependenceInfo(IRModule({"main": matmul()}))  # type: ignore[dict-item]
    assert len(info.sref2scope) == 2


def test_the_state_is_checked() -> None:
    s = Schedule(chain(), debug_mask="all")
    ref = s.get_sref(s.get_loops("B")[0])
    verify(s.state, 3)
    ref.parent, parent = None, ref.parent
    with pytest.raises(InternalError, match="the reference to i has another parent than the program"):
        s.get_loops("C")
    ref.parent = parent
    assert s.state.get_sref(s.get(s.get_block("B"))) is not None
    assert s.state.get_sref(chain().body.block) is None  # type: ignore[attr-defined]


def test_replacing_in_the_state() -> None:
    s = Schedule(chain())
    loop = s.get_loops("B")[0]
    ref = s.get_sref(loop)
    s.state.replace(ref, ref.stmt.replace(kind=tir.ForKind.UNROLLED), None)
    assert s.get(loop).kind == tir.ForKind.UNROLLED
    t = Schedule(chain())
    t.unroll(t.get_loops("B")[0])
    assert_structural_equal(s.mod["main"], t.mod["main"])


def test_helpers_of_tests_and_searches() -> None:
    s = sampled()
    again = verify_trace_roundtrip(s, matmul(16, 16, 16))
    assert str(again.mod) == str(s.mod)
    with pytest.raises(ValueError, match='text_format must be "python" or "json", but is \'yaml\''):
        verify_trace_roundtrip(s, matmul(16, 16, 16), text_format="yaml")
    with pytest.raises(ValueError, match="StructuralEqual check failed"):
        verify_trace_roundtrip(s, matmul(32, 16, 16), text_format="json")
    one, two = matmul(), matmul().with_attr("global_symbol", "other")
    assert_structural_equal_ignore_global_symbol(one, two)
    with pytest.raises(ValueError, match="StructuralEqual check failed"):
        assert_structural_equal_ignore_global_symbol(one, chain())
    t = Schedule(chain())
    assert S.analysis.has_block(t, "B") and not S.analysis.has_block(t, "X")
    assert S.analysis.is_output_block(t, "C") and not S.analysis.is_output_block(t, t.get_block("B"))


def test_what_can_be_decomposed() -> None:
    from .examples import padded

    s = Schedule(padded())
    assert s.can_decompose_padding("B", s.get_loops("B")[0]) and not s.can_decompose_padding("C", s.get_loops("C")[0])
