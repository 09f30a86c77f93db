from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    for i in T.serial(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            A[vi] = A[vi] + 1.0


assert f.script(show_meta=False).startswith("# from tvm.script import tir as T")
assert "@tir.prim_func" in f.script(tir_prefix="tir") or "tir.Buffer" in f.script(tir_prefix="tir")
assert "\n        with" in f.script(indent_spaces=4) and "\n    for" in f.script(indent_spaces=4)
assert "\n  for" in f.script(indent_spaces=2)
assert "vi = T.axis.spatial(4, i)" in f.script(syntax_sugar=True)
loop = f.body.block.body
assert str(loop).splitlines()[-1].strip() == "A[vi] = A[vi] + T.float32(1)" or "A[vi]" in str(loop)
marked = f.script(obj_to_underline=[loop.body])
assert "^^^^" in marked
noted = f.script(obj_to_annotate={loop: "the only loop"})
assert "# the only loop" in noted
assert f.body.block.name_hint == "root"
