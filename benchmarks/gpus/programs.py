"""The cases as programs of relay, and their compilation."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpus.cases import Case


def inputs(case: Case) -> dict[str, tuple[int, ...]]:
    """The shapes of a case's inputs by name; weights, which a compiler may lay out ahead, begin with "w"."""
    s = case.sizes
    if case.kind == "gemm":
        batch = (s["batch"],) if "batch" in s else ()
        return {"a": (*batch, s["m"], s["k"]), "b": (*batch, s["k"], s["n"])}
    if case.kind == "conv2d":
        kernel = (s["kernel"], s["kernel"], s["channels"], s["filters"])
        return {"x": (s["batch"], s["height"], s["height"], s["channels"]), "w": kernel}
    if case.kind == "depthwise":
        kernel = (s["kernel"], s["kernel"], s["channels"], 1)
        return {"x": (s["batch"], s["height"], s["height"], s["channels"]), "w": kernel}
    if case.kind == "attention":
        kept = (s["batch"], s["groups"], s["keys"], s["width"])
        return {"q": (s["batch"], s["heads"], s["queries"], s["width"]), "k": kept, "v": kept}
    shape = tuple(s.values())
    if case.kind == "add":
        return {"x": shape, "y": shape}
    if case.kind in ("layer_norm", "rms_norm"):
        last = {"w": shape[-1:], "w_bias": shape[-1:]} if case.kind == "layer_norm" else {"w": shape[-1:]}
        return {"x": shape, **last}
    return {"x": shape}


def program(case: Case, weights: dict[str, np.ndarray]) -> Any:
    """The module of a case, in relay; weights: values of the inputs that begin with "w". Sums of narrow floats are in float32."""
    import tilewright as tvm
    from tilewright import relay

    given = {
        name: relay.const(weights[name], case.dtype)
        if name in weights
        else relay.var(name, shape=shape, dtype=case.dtype)
        for name, shape in inputs(case).items()
    }
    made = _RULES.get(case.kind, _elementwise)(relay, case, **given)
    return tvm.IRModule.from_expr(relay.Function([v for v in given.values() if isinstance(v, relay.Var)], made))


def _narrow(relay: Any, case: Case, value: Any) -> Any:
    return value if case.dtype == "float32" else relay.cast(value, case.dtype)


def _gemm(relay: Any, case: Case, a: Any, b: Any) -> Any:
    if "batch" in case.sizes:
        return _narrow(relay, case, relay.nn.batch_matmul(a, b, out_dtype="float32", transpose_b=False))
    return _narrow(relay, case, relay.nn.matmul(a, b, out_dtype="float32"))


def _conv2d(relay: Any, case: Case, x: Any, w: Any) -> Any:
    s = case.sizes
    kernel, stride = s["kernel"], s["stride"]
    made = relay.nn.conv2d(
        x, w, strides=(stride, stride), padding=(kernel // 2,) * 4, channels=s["filters"], kernel_size=(kernel, kernel),
        data_layout="NHWC", kernel_layout="HWIO", out_dtype="float32",
    )  # fmt: skip
    return _narrow(relay, case, made)


def _depthwise(relay: Any, case: Case, x: Any, w: Any) -> Any:
    s = case.sizes
    kernel, stride = s["kernel"], s["stride"]
    made = relay.nn.conv2d(
        x, w, strides=(stride, stride), padding=(kernel // 2,) * 4, groups=s["channels"], channels=s["channels"],
        kernel_size=(kernel, kernel), data_layout="NHWC", kernel_layout="HWOI", out_dtype="float32",
    )  # fmt: skip
    return _narrow(relay, case, made)


def _attention(relay: Any, case: Case, q: Any, k: Any, v: Any) -> Any:
    s = case.sizes
    b, h, queries, keys, width = s["batch"], s["heads"], s["queries"], s["keys"], s["width"]
    if s["groups"] != h:
        k, v = [relay.repeat(t, h // s["groups"], axis=1) for t in (k, v)]
    q, k, v = [relay.reshape(t, (b * h, -1, width)) for t in (q, k, v)]
    scores = relay.nn.batch_matmul(q, k, out_dtype="float32") * relay.const(np.float32(width**-0.5))
    if s["causal"]:
        seen = relay.less_equal(
            relay.reshape(relay.arange(relay.const(keys), dtype="int32"), (1, 1, keys)),
            relay.reshape(relay.arange(relay.const(queries), dtype="int32"), (1, queries, 1)),
        )
        scores = relay.where(seen, scores, relay.const(np.float32(-1e30)))
    shares = _narrow(relay, case, relay.nn.softmax(scores, axis=-1))
    made = relay.nn.batch_matmul(shares, v, out_dtype="float32", transpose_b=False)
    return _narrow(relay, case, relay.reshape(made, (b, h, queries, width)))


def _elementwise(relay: Any, case: Case, x: Any, y: Any = None, w: Any = None, w_bias: Any = None) -> Any:
    if case.kind == "add":
        return relay.add(x, y)
    if case.kind == "relu":
        return relay.nn.relu(x)
    if case.kind == "transpose":
        return relay.transpose(x, (1, 0))
    wide = relay.cast(x, "float32")
    if case.kind == "gelu":
        made = wide * relay.const(0.5) * (relay.const(1.0) + relay.erf(wide * relay.const(float(0.5**0.5))))
    elif case.kind == "softmax":
        made = relay.nn.softmax(wide, axis=-1)
    elif case.kind == "row_sum":
        made = relay.sum(wide, axis=1)
    elif case.kind == "layer_norm":
        made = relay.nn.layer_norm(wide, relay.cast(w, "float32"), relay.cast(w_bias, "float32"), axis=-1, epsilon=1e-5)
    else:
        squares = relay.mean(wide * wide, axis=-1, keepdims=True)
        made = wide * relay.rsqrt(squares + relay.const(1e-5)) * relay.cast(w, "float32")
    return _narrow(relay, case, made)


_RULES = {"gemm": _gemm, "conv2d": _conv2d, "depthwise": _depthwise, "attention": _attention}


def model_name(case: Case) -> str:
    """The name of a case's model in benchmarks.models."""
    batch = case.sizes["batch"]
    return case.kind if batch == 1 else f"{case.kind}_b{batch}"


def weights_of(case: Case) -> dict[str, np.ndarray]:
    """The values of a case's weights; the same in every process."""
    random = np.random.default_rng(0)
    return {
        name: random.standard_normal(shape, dtype=np.float32).astype(
            "float16" if case.dtype == "bfloat16" else case.dtype
        )
        for name, shape in inputs(case).items()
        if name.startswith("w")
    }


def build(case: Case, target: str) -> Any:
    """The compiled library of a case; from the compile cache, where it was compiled before."""
    import tilewright as tvm
    from tilewright import relay

    if case.group == "models":
        from benchmarks import models

        name = model_name(case)
        shapes = {key: value.shape for key, value in models.inputs(name).items()}
        mod, params = relay.frontend.from_onnx(models.make(name), shape=shapes)
        with tvm.transform.PassContext(opt_level=3, config={"relay.build.precision": case.dtype}):
            return relay.build(mod, target=target, params=params, executor="graph")
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(program(case, weights_of(case)), target=target, executor="graph")


def compiled_ahead(case: Case, target: str) -> str:
    """Compiles a case into the compile cache, in a process of its own; returns what went wrong, or ""."""
    try:
        build(case, target)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""
