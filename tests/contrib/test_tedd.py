"""Pictures of schedules of tensor expressions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.contrib import tedd


def schedule() -> te.Schedule:
    a = te.placeholder((16, 8), name="A")
    b = te.compute((16, 8), lambda i, j: a[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((16,), lambda i: te.sum(b[i, k], axis=k), name="C")
    d = te.compute((16,), lambda i: c[i] + 1.0, name="D")
    s = te.create_schedule(d.op)
    s[b].compute_inline()
    outer, inner = s[d].split(d.op.axis[0], 4)
    s[d].parallel(outer)
    s[d].vectorize(inner)
    s[c].compute_at(s[d], outer)
    return s


def test_flow_of_data() -> None:
    text = tedd.viz_dataflow_graph(schedule(), output_dot_string=True)
    assert text is not None and text.startswith('digraph "Dataflow Graph" {') and text.count(" -> ") == 3
    assert '"stage_0" -> "stage_1";' in text and "ComputeOp\\nC\\n[16]" in text


def test_tree_of_loops(tmp_path: Path) -> None:
    tedd.viz_schedule_tree(schedule(), dot_file_path=str(tmp_path / "tree.dot"))
    text = (tmp_path / "tree.dot").read_text()
    assert '"axis_3_1" -> "stage_2" [style="bold"];' in text and '"root" -> "stage_3";' in text
    assert '"root" -> "stage_1";' not in text and 'style="dashed"' in text
    assert "i.outer (kParallelized)" in text and "range(min=0, ext=4)" in text


def test_relations_of_axes() -> None:
    text = tedd.viz_itervar_relationship_graph(schedule(), output_dot_string=True)
    assert text is not None and 'label="Split"' in text and '"axis_3_0" -> "relation_3_0";' in text
    assert '"relation_3_0" -> "axis_3_1";' in text and '"relation_3_0" -> "axis_3_2";' in text
    assert 'subgraph "cluster_3" { label="D";' in text


def test_schedules_as_json() -> None:
    found = json.loads(tedd.dump_json(schedule(), True))
    stages = found["stages"]
    assert [s["name"] for s in stages] == ["A", "B", "C", "D"] and stages[2]["attach_to"] == [3, 1]
    assert [a["name"] for a in tedd.leaf_itervars(stages[3])] == ["i.outer", "i.inner"]


def test_pictures_need_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "graphviz", None)
    with pytest.raises(tvm.TVMError, match="pass show_svg=False and a dot_file_path"):
        tedd.viz_dataflow_graph(schedule(), show_svg=True)
