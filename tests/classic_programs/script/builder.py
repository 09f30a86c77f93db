from tvm.script.ir_builder import IRBuilder, base
from tvm.script.ir_builder import ir as I
from tvm.script.ir_builder import tir as T
from tvm.script.ir_builder.ir.frame import IRModuleFrame
from tvm.script.ir_builder.tir import frame

with IRBuilder() as ib:
    with T.prim_func():
        T.func_name("fill")
        A = T.arg("A", T.buffer((8,), "float32"))
        with T.serial(0, 8) as i:
            with T.block("fill"):
                vi = T.axis.spatial(8, i)
                T.buffer_store(A, 1.0, [vi])
func = ib.get()
assert 'def fill(A: T.Buffer((8,), "float32"))' in func.script()
with IRBuilder() as ib:
    with I.ir_module():
        I.module_attrs({"runtime": "cpp"})
        with T.prim_func():
            T.func_name("main")
            n = T.arg("n", T.int32())
            T.evaluate(n)
mod = ib.get()
assert mod.attrs["runtime"] == "cpp" and "main" in [g.name_hint for g in mod.get_global_vars()]

# Frames are of classes, and call back when they end.
ended = []
with IRBuilder() as ib:
    function = T.prim_func()
    assert isinstance(function, frame.PrimFuncFrame) and isinstance(function, base.IRBuilderFrame)
    function.add_callback(lambda: ended.append("function"))
    with function:
        T.func_name("f")
        A = T.arg("A", T.buffer((8,), "float32"))
        loop = T.serial(8)
        assert (
            isinstance(loop, frame.ForFrame)
            and isinstance(loop, frame.TIRFrame)
            and not isinstance(loop, frame.LetFrame)
        )
        loop.add_callback(lambda: ended.append("loop"))
        with loop as i:
            T.buffer_store(A, 0.0, [i])
assert ended == ["loop", "function"] and base.IRBuilder is IRBuilder and isinstance(I.ir_module(), IRModuleFrame)

# A store of some lanes.
with IRBuilder() as ib:
    with T.prim_func():
        A = T.arg("A", T.buffer((8,), "float32"))
        value, place = T.Broadcast(T.float32(1), 4), T.Ramp(0, 1, 4)
        T.buffer_store(A, value, [place], predicate=T.Broadcast(T.bool(True), 4))
assert ib.get().body.predicate.dtype == "boolx4"
