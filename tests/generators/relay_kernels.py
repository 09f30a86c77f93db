"""Random relay networks of one to three operators on small tensors, whose kernels are tuned."""

from __future__ import annotations

import random
from collections.abc import Callable

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay.transform import infer_types

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 17, 20, 24, 31, 32, 33)


class Network:
    """Grows an expression operator by operator; operands are inputs of the network, or constants where an operator likes these."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[relay.Var] = []
        first = self.rng.choice([*[self.convolution] * 4, *[self.product] * 4, self.batched, self.plain, self.integers])
        x = first()
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            x = rng.choice([self.elementwise, self.elementwise, self.reduction, self.movement, self.windows])(x)
        self.result = x

    def module(self) -> IRModule:
        return IRModule.from_expr(relay.Function(self.inputs, self.result))

    def size(self, most: int = 33) -> int:
        return self.rng.choice([n for n in SIZES if n <= most])

    def input(self, *shape: int, dtype: str = "float32") -> relay.Var:
        self.inputs.append(relay.var(f"x{len(self.inputs)}", shape=shape, dtype=dtype))
        return self.inputs[-1]

    def shape(self, x: relay.Expr) -> tuple[int, ...]:
        found = infer_types(x)
        assert isinstance(found, relay.TensorType)
        return found.concrete_shape

    def dtype(self, x: relay.Expr) -> str:
        found = infer_types(x)
        assert isinstance(found, relay.TensorType)
        return str(found.dtype)

    # ---- first operators

    def plain(self) -> relay.Expr:
        return self.input(*[self.size(16) for _ in range(self.rng.choice([1, 2, 3, 4]))])

    def integers(self) -> relay.Expr:
        """Products of int8, summed in int32."""
        m, n, k = self.size(16), self.size(), self.size()
        kinds = ("uint8", "int8") if self.rng.random() < 0.5 else ("int8", "int8")
        if self.rng.random() < 0.5:
            a, b = self.input(m, k, dtype=kinds[0]), self.input(n, k, dtype=kinds[1])
            return relay.nn.dense(a, b, out_dtype="int32")
        c, f, h = self.size(17), self.size(20), self.rng.choice([3, 5, 6, 9])
        data, weight = self.input(1, c, h, h, dtype=kinds[0]), self.input(f, c, 3, 3, dtype=kinds[1])
        return relay.nn.conv2d(data, weight, padding=(1, 1), out_dtype="int32")

    def product(self) -> relay.Expr:
        m, n, k = self.size(17), self.size(), self.size()
        if self.rng.random() < 0.5:
            return relay.nn.dense(self.input(m, k), self.input(n, k))
        left, right = self.rng.random() < 0.3, self.rng.random() < 0.5
        a = self.input(k, m) if left else self.input(m, k)
        return relay.nn.matmul(a, self.input(n, k) if right else self.input(k, n), transpose_a=left, transpose_b=right)

    def batched(self) -> relay.Expr:
        batch, m, n, k = self.size(4), self.size(12), self.size(20), self.size(20)
        return relay.nn.batch_matmul(self.input(batch, m, k), self.input(batch, n, k))

    def convolution(self) -> relay.Expr:
        rng, c, f = self.rng, self.size(17), self.size(20)
        groups = 1
        if rng.random() < 0.3:
            groups = rng.choice([g for g in range(1, c + 1) if c % g == 0])
            f = groups * rng.choice([1, 1, 2, 3])
        kernel = (rng.choice([1, 1, 2, 3, 3, 5]), rng.choice([1, 3, 3, 4]))
        dilation = rng.choice([1, 1, 1, 2])
        least = [dilation * (k - 1) + 1 for k in kernel]
        data = self.input(rng.choice([1, 1, 1, 2]), c, *[n + rng.choice([0, 1, 2, 4, 5, 8]) for n in least])
        if rng.random() < 0.12:
            return relay.nn.conv2d_transpose(
                data, self.input(c, f, *kernel), channels=f, kernel_size=kernel, strides=(rng.choice([1, 2]),) * 2
            )
        return relay.nn.conv2d(
            data,
            self.input(f, c // groups, *kernel),
            strides=(rng.choice([1, 1, 2, 3]),) * 2,
            padding=rng.choice([(0, 0), (1, 1), (1, 0, 0, 1)]),
            dilation=(dilation, dilation),
            groups=groups,
        )

    # ---- operators that follow

    def elementwise(self, x: relay.Expr) -> relay.Expr:
        shape, rng = self.shape(x), self.rng
        if self.dtype(x) != "float32":
            return rng.choice([relay.nn.relu(x), relay.cast(x, "float32"), x + self.input(*shape, dtype=self.dtype(x))])
        unary: list[Callable[[relay.Expr], relay.Expr]] = [
            relay.nn.relu,
            relay.tanh,
            relay.sigmoid,
            relay.exp,
            relay.abs,
            lambda e: relay.clip(e, -0.5, 0.75),
            lambda e: relay.nn.leaky_relu(e, 0.1),
        ]
        broadcast = [n if rng.random() < 0.6 else 1 for n in shape]
        binary = rng.choice([relay.add, relay.multiply, relay.maximum, relay.subtract])
        return rng.choice(unary)(x) if rng.random() < 0.5 else binary(x, self.input(*broadcast))

    def reduction(self, x: relay.Expr) -> relay.Expr:
        rank = len(self.shape(x))
        axis, keep = self.rng.randrange(rank), self.rng.random() < 0.5
        if self.dtype(x) != "float32":
            return relay.sum(x, axis=axis, keepdims=keep)
        if self.rng.random() < 0.35:
            return self.rng.choice([relay.nn.softmax, relay.nn.log_softmax])(x, axis=rank - 1)
        return self.rng.choice([relay.sum, relay.max, relay.mean])(x, axis=axis, keepdims=keep)

    def movement(self, x: relay.Expr) -> relay.Expr:
        shape, rng = self.shape(x), self.rng
        kind = rng.randrange(4)
        if kind == 0 and shape:
            return relay.transpose(x, rng.sample(range(len(shape)), len(shape)))
        if kind == 1 and shape:
            other = self.input(*shape[:-1], self.size(7), dtype=self.dtype(x))
            return relay.concatenate([x, other], axis=len(shape) - 1)
        if kind == 2 and shape:
            return relay.nn.pad(x, [(rng.choice([0, 1]), rng.choice([0, 2])) for _ in shape])
        return relay.reshape(x, (-1,))

    def windows(self, x: relay.Expr) -> relay.Expr:
        shape = self.shape(x)
        if len(shape) != 4 or min(shape[2:]) < 2 or self.dtype(x) != "float32":
            return self.elementwise(x)
        pool = self.rng.choice([relay.nn.max_pool2d, relay.nn.avg_pool2d])
        if self.rng.random() < 0.25:
            return relay.nn.global_avg_pool2d(x)
        return pool(x, pool_size=(2, 2), strides=(self.rng.choice([1, 2]),) * 2)
