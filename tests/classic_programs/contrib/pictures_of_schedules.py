import tvm
from tvm import te
from tvm.contrib import tedd

A = te.placeholder((16, 16), name="A")
B = te.compute((16, 16), lambda i, j: A[i, j] * 2.0, name="B")
C = te.compute((16, 16), lambda i, j: B[i, j] + 1.0, name="C")
s = te.create_schedule(C.op)
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 4)
s[B].compute_at(s[C], yo)
s[C].vectorize(yi)
flow = tedd.viz_dataflow_graph(s, False, "", True)
tree = tedd.viz_schedule_tree(s, False, "", True)
relations = tedd.viz_itervar_relationship_graph(s, False, "", True)
for text in (flow, tree, relations):
    assert text.lstrip().startswith("digraph")
assert flow.count("->") >= 2
assert "kVectorized" in tree
assert relations.count("Split") >= 2
assert isinstance(tvm.lower(s, [A, C]), tvm.IRModule)
