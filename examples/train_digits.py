"""Training: a small network learns scikit-learn's handwritten digits, with gradients taken and compiled by relay.

Run: python examples/train_digits.py [epochs]. The loss is a relay function; `relay.transform.gradient` answers its value and the
adjoints of the weights, and one compiled step of stochastic gradient descent with momentum answers the new weights.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.transform import gradient

BATCH, RATE, MOMENTUM = 32, 0.05, 0.9
WIDTHS = (64, 48, 10)


def weights(rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Random weights, and zeros for biases."""
    made: list[np.ndarray[Any, Any]] = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:], strict=False):
        made.append((rng.standard_normal((outputs, inputs)) * np.sqrt(2 / inputs)).astype("float32"))
        made.append(np.zeros(outputs, "float32"))
    return made


def variables() -> list[relay.Var]:
    """The weights as variables."""
    return [relay.var(f"w{i}", shape=w.shape) for i, w in enumerate(weights(np.random.default_rng(0)))]


def network(x: Any, w: list[Any]) -> Any:
    """Scores of the ten digits."""
    for i in range(0, len(w), 2):
        x = relay.nn.bias_add(relay.nn.dense(x, w[i]), w[i + 1])
        if i + 2 < len(w):
            x = relay.nn.relu(x)
    return x


def loss_function() -> relay.Function:
    """Mean cross entropy of a batch of pictures and labels."""
    x, labels = relay.var("x", shape=(BATCH, 64)), relay.var("labels", shape=(BATCH,), dtype="int32")
    w = variables()
    hot = relay.one_hot(labels, relay.const(1.0), relay.const(0.0), depth=10)
    loss = relay.negative(relay.sum(hot * relay.nn.log_softmax(network(x, w)))) / relay.const(float(BATCH))
    return relay.Function([x, labels, *w], loss)


def training_step() -> relay.Function:
    """(loss, new weights, new momenta) from a batch, weights and momenta."""
    function = gradient(loss_function(), mode="first_order")
    x, labels, *w = function.params
    momenta = [relay.var(f"m{i}", shape=p.checked_type.concrete_shape) for i, p in enumerate(w)]
    loss, adjoints = function.body.fields
    moved = [m * relay.const(MOMENTUM) + a for m, a in zip(momenta, adjoints.fields[2:], strict=True)]
    updated = [p - m * relay.const(RATE) for p, m in zip(w, moved, strict=True)]
    return relay.Function([x, labels, *w, *momenta], relay.Tuple([loss, *updated, *moved]))


def compiled(function: relay.Function) -> graph_executor.GraphModule:
    """The function as native code."""
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(function), target="llvm")
    return graph_executor.GraphModule(library["default"](tvm.cpu()))


def train(epochs: int, log: Any = print) -> tuple[list[np.ndarray[Any, Any]], float]:
    """The weights after so many passes over the training set, and their accuracy on the test set."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    data, target = load_digits(return_X_y=True)
    data, target = (data / 16).astype("float32"), target.astype("int32")
    x, x_test, y, y_test = train_test_split(data, target, test_size=0.25, random_state=0, stratify=target)
    rng = np.random.default_rng(0)
    step = compiled(training_step())
    state = weights(rng)
    state += [np.zeros_like(w) for w in state]
    for epoch in range(epochs):
        began, losses = time.perf_counter(), []
        order = rng.permutation(len(x))
        for at in range(0, len(x) - BATCH + 1, BATCH):
            batch = order[at : at + BATCH]
            for i, value in enumerate([x[batch], y[batch], *state]):
                step.set_input(i, value)
            step.run()
            losses.append(float(step.get_output(0).numpy()))
            state = [step.get_output(1 + i).numpy() for i in range(len(state))]
        log(f"epoch {epoch + 1:3}  loss {np.mean(losses):.4f}  {1e3 * (time.perf_counter() - began):.0f} ms")
    pictures = relay.var("x", shape=(len(x_test), 64))
    w = variables()
    scores = compiled(relay.Function([pictures, *w], network(pictures, w)))
    for i, value in enumerate([x_test, *state[: len(w)]]):
        scores.set_input(i, value)
    scores.run()
    accuracy = float((scores.get_output(0).numpy().argmax(1) == y_test).mean())
    log(f"accuracy on {len(x_test)} pictures not trained on: {100 * accuracy:.1f} %")
    return state[: len(w)], accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("epochs", nargs="?", type=int, default=20, help="passes over the training set (default: 20)")
    train(parser.parse_args().epochs)


if __name__ == "__main__":
    main()
