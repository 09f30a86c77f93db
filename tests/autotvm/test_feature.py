"""What cost models see of a program."""

from __future__ import annotations

import numpy as np

from tests.autotvm import templates
from tilewright.autotvm import feature
from tilewright.tir import For, SeqStmt


def test_loops_and_buffers() -> None:
    task = templates.task(128)
    s, args = task.instantiate(
        task.config_space.knob2point([5, 1]) and task.config_space.get(task.config_space.knob2point([5, 1]))
    )
    found = feature.get_itervar_feature(s, args)
    assert [loop[0][1] for loop in found] == ["i_outer", "j_outer", "i_inner", "j_inner", "k", "i_inner", "j_inner"]
    k = {part[0]: part[1:] for part in found[4]}
    # extent, depth, iterations outside and inside, serial
    assert k["_attr_"] == [128, 2, 4 * 64 * 128, 128 * 32 * 2, 1, 0, 0, 0, 0]
    assert k["_arith_"] == [1, 1, 0]
    # stride, touched, iterations for each element, touched by one iteration
    assert k["A_0"] == [1, 32 * 128, 2, 32] and k["B_0"] == [128, 128 * 2, 32, 2] and k["C_0"] == [0, 64, 128, 64]
    logs = feature.get_itervar_feature_flatten(s, args)
    assert np.allclose(logs[:2], [np.log2(5), 0]) and len(logs) == len(feature.get_flatten_name(found))
    assert feature.get_flatten_name(found)[:2] == ["i_outer._attr_.length", "i_outer._attr_.nest_level"]
    assert len(feature.flatten_itervar_feature(found)) == len(logs)


def test_curves_of_buffers() -> None:
    task = templates.task(128)
    s, args = task.instantiate(task.config_space.get(task.config_space.knob2point([5, 1])))
    curves = np.array(feature.get_buffer_curve_sample_flatten(s, args, sample_n=24)).reshape(-1, 24)
    assert curves.shape[0] == 5 and (np.diff(curves) >= 0).all()
    # All of a matrix in the end.
    assert curves[:, -1].tolist() == [14.0] * 5


def test_lowered_statements() -> None:
    task = templates.task(16)
    s, args = task.instantiate(task.config_space.get(0))
    assert isinstance(feature.ana_lower(s, args), (For, SeqStmt))
    assert len(feature.ana_lower(s, args, simple_mode=False).functions) == 1
