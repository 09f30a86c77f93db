"""Convolutions with transformed weights: Winograd's on channel blocks and over three axes, and matrix products of patches."""

from __future__ import annotations

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OUT_ELEMWISE, OpCard, TypeRuleError, need
from tilewright.relay.cards.relations import dims, is_any, known_extent, may_equal, tensor, tensor_type
from tilewright.relay.op.convolution.attributes import Over2D, Over3D
from tilewright.relay.op.convolution.windows import need_steps_of_one, np_conv, pads, window


def _in_tiles(depth: int) -> bool:
    """Whether Winograd's tiles also cover the depth of a kernel."""
    from tilewright.topi.nn.winograd3d import transforms_depth

    return transforms_depth(depth)


class winograd3d_weight_transform(OpCard, key="nn.contrib_conv3d_winograd_weight_transform"):
    """Weights (O, I, D, K, K) for Winograd's convolution with tiles of `tile_size`: (tile, tile, tile, O, I) if the depth D is from
    3 to 7 and equal to K, else (tile, tile, D, O, I)."""

    tile_size: int
    fuse = OUT_ELEMWISE
    tolerance = 1e-4
    samples = [(((2, 3, 3, 3, 3),), {"tile_size": 2}), (((2, 3, 1, 3, 3),), {"tile_size": 4})]

    def infer(self, weight: TensorType) -> Type:
        t = tensor(weight, 0, 5)
        o, i, depth, kh, kw = dims(t)
        known = all([isinstance(v, int) for v in (o, i, depth, kh, kw)])
        fit = known and kh == kw and (depth == kh or not _in_tiles(known_extent(depth)))
        need(
            fit,
            "the weights must be known to be (O, I, D, K, K), D being K where it lies in 3 to 7",
            f"they are {t}",
            0,
        )
        n = self.tile_size + known_extent(kh) - 1
        return tensor_type((n, n, n if _in_tiles(known_extent(depth)) else depth, o, i), t.dtype)

    def compute(self, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv3d_winograd_weight_transform(weight, self.tile_size)

    def ref(self, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.winograd import winograd_transform_matrices

        _, _, g = winograd_transform_matrices(self.tile_size, weight.shape[-1])
        if _in_tiles(weight.shape[2]):
            return np.asarray(np.einsum("ax,by,cz,oixyz->abcoi", g, g, g, weight), weight.dtype)
        return np.asarray(np.einsum("by,cz,oixyz->bcxoi", g, g, weight), weight.dtype)


class winograd_conv3d(Over3D, key="nn.contrib_conv3d_winograd_without_weight_transform"):
    """conv3d with stride 1 and weights from nn.contrib_conv3d_winograd_weight_transform."""

    out_dtype: str = ""
    tile_size: int
    first = ("tile_size",)
    tolerance = 1e-3
    samples = [
        (((1, 2, 4, 5, 6), (4, 4, 4, 3, 2)), {"tile_size": 2, "padding": (1, 1, 1), "kernel_size": (3, 3, 3)}),
        (((1, 2, 3, 6, 5), (4, 4, 2, 3, 2)), {"tile_size": 2, "padding": (0, 1, 1), "kernel_size": (2, 3, 3)}),
    ]

    def _kernel(self, weight: TensorType) -> tuple[int, int]:
        """(depth, height and width) of the kernel before the transformation."""
        places, _, third, _, _ = dims(weight)
        k = known_extent(places) - self.tile_size + 1
        if (size := self.size()) is not None:
            return size[0], k
        depth = k if third == places else known_extent(third)
        return depth, k

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0, 5), tensor(weight, 1, 5)
        need(all([isinstance(v, int) for v in dims(w)]), "the weights' extents must be known", f"they are {w}", 1)
        need(self.groups == 1, "Winograd's convolution has no groups", f"there are {self.groups}")
        need_steps_of_one(self, 3)
        places, _, third, o, i = dims(w)
        need(may_equal(dims(d)[1], i), "the weights' input channels must be the data's", f"{i} is not {dims(d)[1]}", 1)
        depth, k = self._kernel(w)
        sizes = [depth, k, k]
        whole = self.size() in (None, sizes) and third == (places if _in_tiles(depth) else depth)
        need(k > 0 and whole, "the tile must fit the kernel", f"weights {w} for tiles of {self.tile_size}", 1)
        return tensor_type((dims(d)[0], o, *self.windows().counts(dims(d)[2:], sizes)), self.out_dtype or d.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        depth, _ = self._kernel(tensor_type(weight.shape, weight.dtype))
        return topi.nn.conv3d_winograd_ncdhw_without_weight_transform(
            data, weight, list(self.padding), depth, self.tile_size, self.out_dtype or None
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.winograd import winograd_transform_matrices

        depth, k = self._kernel(tensor_type(weight.shape, "float32"))
        a, b, _ = winograd_transform_matrices(self.tile_size, k)
        m, places = self.tile_size, weight.shape[0]
        deep = _in_tiles(depth)
        before, after = pads(self.padding, 3)
        window_ = (depth, k, k)
        shape = [data.shape[2 + j] + before[j] + after[j] - window_[j] + 1 for j in range(3)]
        room = [(before[j], after[j] + (m if j or deep else 0)) for j in range(3)]
        padded = np.pad(data.astype(np.float64), [(0, 0), (0, 0), *room])
        steps = [-(-shape[0] // m) if deep else shape[0], -(-shape[1] // m), -(-shape[2] // m)]
        out = np.zeros((data.shape[0], weight.shape[3], *[s * (m if j or deep else 1) for j, s in enumerate(steps)]))
        for z, y, x in np.ndindex(*steps):
            first = z * m if deep else z
            part = padded[
                :, :, first : first + (places if deep else depth), y * m : y * m + places, x * m : x * m + places
            ]
            full = [
                (0, n - v) for n, v in zip((places if deep else depth, places, places), part.shape[2:], strict=True)
            ]
            part = np.pad(part, [(0, 0), (0, 0), *full])
            if deep:
                met = np.einsum("za,yb,xc,nizyx,abcoi->noabc", b, b, b, part, weight, optimize=True)
                tile = np.einsum("az,by,cx,noabc->nozyx", a, a, a, met, optimize=True)
            else:
                met = np.einsum("yb,xc,nizyx,bczoi->nobc", b, b, part, weight, optimize=True)
                tile = np.einsum("by,cx,nobc->noyx", a, a, met, optimize=True)[:, :, None]
            at = slice(first, first + tile.shape[2])
            out[:, :, at, y * m : y * m + m, x * m : x * m + m] = tile
        return out[:, :, : shape[0], : shape[1], : shape[2]].astype(self.out_dtype or data.dtype)


class strassen_conv2d_NCHWc(OpCard, key="nn.contrib_conv2d_strassen_NCHWc"):
    """conv2d of 1 x 1 on channel blocks by Strassen's algorithm: data (1, C/b, H, W, b), weights of `topi.nn.strassen.strassen_weights`:
    (1, O/block, H, W, block) for `out_layout` NCHW<block>c."""

    out_layout: str = "NCHW16c"
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        (((1, 2, 4, 5, 8), (14, 8, 4)), {"out_layout": "NCHW8c"}),
        (((1, 2, 3, 3, 4), (7, 4, 4)), {"out_layout": "NCHW4c"}),
    ]

    @property
    def block(self) -> int:
        return int("".join([c for c in self.out_layout if c.isdigit()]))

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0, 5), tensor(weight, 1, 3)
        known = all([isinstance(v, int) for v in (*dims(d), *dims(w))])
        need(known, "all extents must be known", f"data is {d}, weights are {w}", 0)
        images, outer, height, width, b = map(known_extent, dims(d))
        need(images == 1, "data must be one image", f"there are {images}", 0)
        panels, half, nr = map(known_extent, dims(w))
        need(panels % 7 == 0, "weights must be packed as (panels * 7, C // 2, nr)", f"they are {w}", 1)
        need(2 * half == outer * b, "the channels must be equal", f"they are {outer * b} and {2 * half}", 1)
        filters = 2 * panels // 7 * nr
        need(filters % self.block == 0, "the blocks must divide the filters", f"{self.block} and {filters}")
        return tensor_type((images, filters // self.block, height, width, self.block), self.out_dtype or d.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_strassen_NCHWc(data, weight, self.block, self.out_dtype or None)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.strassen import np_product

        _, outer, height, width, b = data.shape
        rows = data[0].transpose(1, 2, 0, 3).reshape(height * width, outer * b)
        result = np_product(rows, weight).reshape(height, width, -1, self.block)
        return result.transpose(2, 0, 1, 3)[None].astype(self.out_dtype or data.dtype)


class winograd_conv2d_NCHWc(OpCard, key="nn.contrib_conv2d_winograd_NCHWc"):
    """conv2d with stride 1 on channel blocks: data (N, C/b, H, W, b), weights (tile * tile, O/panel, C, panel) of
    `topi.nn.winograd_blocked.winograd_weights`: (N, O/block, OH, OW, block) for `out_layout` NCHW<block>c."""

    tile_size: int
    padding: tuple[int, ...] = (0, 0)
    data_layout: str = "NCHW16c"
    out_layout: str = "NCHW16c"
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    tolerance = 1e-4
    samples = [
        (((1, 2, 6, 7, 4), (16, 1, 8, 8)), {"tile_size": 2, "padding": (1, 1), "out_layout": "NCHW4c"}),
        (((2, 1, 9, 5, 4), (36, 1, 4, 4)), {"tile_size": 4, "padding": (1, 0, 0, 2), "out_layout": "NCHW4c"}),
    ]

    def _block(self) -> int:
        return int(self.out_layout[4:-1])

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0, 5), tensor(weight, 1, 4)
        need(all([isinstance(v, int) for v in dims(w)]), "the weights' extents must be known", f"they are {w}", 1)
        places, panels, channels, panel = w.concrete_shape
        tile = round(places**0.5)
        n, outer, h, wd, b = dims(d)
        fit = tile * tile == places and tile > self.tile_size
        need(fit, "the tiles must fit the weights", f"weights {w} for tiles of {self.tile_size}", 1)
        need(
            is_any(outer) or is_any(b) or may_equal(outer * b, channels),
            "the weights' input channels must be the data's",
            f"{channels} and {d}",
            1,
        )
        whole = panels * panel % self._block() == 0
        need(whole, "the filters must be whole blocks", f"{panels * panel} in {self.out_layout}", 1)
        kernel = tile - self.tile_size + 1
        before, after = pads(self.padding)
        out = [window(v, kernel, before[k], after[k], 1, 1) for k, v in enumerate((h, wd))]
        block = self._block()
        return tensor_type((n, panels * panel // block, *out, block), self.out_dtype or d.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        from tilewright.topi.nn.winograd_blocked import conv2d_winograd_NCHWc

        return conv2d_winograd_NCHWc(
            data, weight, list(self.padding), self.tile_size, self._block(), self.out_dtype or None
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.winograd_blocked import matrices

        m, tile, block = self.tile_size, round(weight.shape[0] ** 0.5), self._block()
        a, b, _ = matrices(m, tile - m + 1)
        n, outer, height, width, inner = data.shape
        before, after = pads(self.padding)
        oh, ow = (v + before[k] + after[k] - tile + m for k, v in enumerate((height, width)))
        rows, columns = -(-oh // m), -(-ow // m)
        room = [(before[0], rows * m + tile - height), (before[1], columns * m + tile - width)]
        plain = data.transpose(0, 1, 4, 2, 3).reshape(n, outer * inner, height, width).astype(np.float64)
        padded = np.pad(plain, [(0, 0), (0, 0), *room])
        by_place = weight.transpose(0, 2, 1, 3).reshape(tile, tile, outer * inner, -1)
        out = np.zeros((n, by_place.shape[3], rows * m, columns * m))
        for y, x in np.ndindex(rows, columns):
            part = padded[:, :, y * m : y * m + tile, x * m : x * m + tile]
            met = np.einsum("ai,bj,ncij,abco->noab", b, b, part, by_place, optimize=True)
            out[:, :, y * m : y * m + m, x * m : x * m + m] = np.einsum("ia,jb,noab->noij", a, a, met)
        blocks = out[:, :, :oh, :ow].reshape(n, -1, block, oh, ow).transpose(0, 1, 3, 4, 2)
        return np.ascontiguousarray(blocks).astype(self.out_dtype or data.dtype)


# ---- products of patches


class gemm_weight_transform(OpCard, key="nn.contrib_conv2d_gemm_weight_transform"):
    """Weights (KH, KW, I, O) as tiles of a matrix with KH * KW * I rows and O columns, padded with zeros: (O / tile_N, rows /
    tile_K, tile_N, tile_K)."""

    tile_N: int
    tile_K: int
    fuse = OUT_ELEMWISE
    samples = [(((3, 3, 2, 5),), {"tile_N": 4, "tile_K": 4}), (((1, 1, 8, 4),), {"tile_N": 4, "tile_K": 4})]

    def infer(self, weights: TensorType) -> Type:
        t = tensor(weights, 0, 4)
        need(all([isinstance(v, int) for v in dims(t)]), "the weights' extents must be known", f"they are {t}", 0)
        kh, kw, i, o = t.concrete_shape
        return tensor_type((-(-o // self.tile_N), -(-kh * kw * i // self.tile_K), self.tile_N, self.tile_K), t.dtype)

    def compute(self, weights: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_gemm_weight_transform(weights, self.tile_N, self.tile_K)

    def ref(self, weights: np.ndarray) -> np.ndarray:
        rows = weights.reshape(-1, weights.shape[-1])
        k, n = rows.shape
        full = np.pad(rows, [(0, -k % self.tile_K), (0, -n % self.tile_N)])
        blocks = full.reshape(-1, self.tile_K, full.shape[1] // self.tile_N, self.tile_N)
        return np.ascontiguousarray(blocks.transpose(2, 0, 3, 1))


class gemm_conv2d(Over2D, key="nn.contrib_conv2d_gemm_without_weight_transform"):
    """conv2d of data (N, H, W, C) with weights from nn.contrib_conv2d_gemm_weight_transform. `channels` and `kernel_size` are those
    of the original weights."""

    data_layout: str = "NHWC"
    kernel_layout: str = "HWIO"
    out_dtype: str = ""
    samples = [
        (((1, 6, 5, 2), (2, 5, 4, 4)), {"channels": 5, "kernel_size": (3, 3), "padding": (1, 1)}),
        (((1, 7, 6, 3), (1, 3, 4, 4)), {"channels": 4, "kernel_size": (2, 2), "strides": (2, 1)}),
    ]

    def made_of(self) -> tuple[list[int], int]:
        """(the kernel's extents, the number of filters)."""
        channels, size = self.channels, self.size()
        if channels is None or size is None:
            rule = "channels and kernel_size must be given, as the weights no longer tell them"
            raise TypeRuleError(rule, f"they are {channels} and {size}")
        return size, channels

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0, 4), tensor(weight, 1, 4)
        need(self.data_layout == "NHWC", "the data must be NHWC", f"they are {self.data_layout}", 0)
        need(self.groups == 1, "products of patches have no groups", f"there are {self.groups}")
        size, channels = self.made_of()
        n, h, wd, c = dims(d)
        kh, kw = size
        wide, high, tile_n, tile_k = dims(w)
        known = all([isinstance(v, int) for v in (c, wide, high, tile_n, tile_k)])
        need(known, "the channels and the weights' tiles must be known", f"they are {c} and {w}", 1)
        fit = -(-channels // tile_n) == wide and -(-kh * kw * c // tile_k) == high
        need(fit, "the tiles must hold a kernel of kernel_size, the data's channels and channels", f"they are {w}", 1)
        return tensor_type((n, *self.windows().counts((h, wd), size), channels), self.out_dtype or d.dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_gemm_without_weight_transform(
            data, weight, self.strides, list(self.padding), self.dilation, *self.made_of(), self.out_dtype or None
        )

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        (kh, kw), _ = self.made_of()
        wide, high, tile_n, tile_k = weight.shape
        rows = weight.transpose(1, 3, 0, 2).reshape(high * tile_k, wide * tile_n)
        kernel = rows[: kh * kw * data.shape[3], : self.channels].reshape(kh, kw, data.shape[3], -1)
        x, w = (t.astype(self.out_dtype or data.dtype) for t in (data, kernel))
        windows = self.windows()
        images, filters = x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1)
        out = np_conv(images, filters, windows.strides, windows.padding, windows.dilation, 1)
        return np.ascontiguousarray(out.transpose(0, 2, 3, 1))


class nnpack_weight_transform(OpCard, key="nn.contrib_conv2d_winograd_nnpack_weight_transform"):
    """Weights (O, I, 3, 3) in Winograd's form, for tiles of 8 x 8: (O, I, 8, 8)."""

    convolution_algorithm: int
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    tolerance = 1e-4
    samples = [(((2, 3, 3, 3),), {"convolution_algorithm": 3})]

    def infer(self, weight: TensorType) -> Type:
        t = tensor(weight, 0, 4)
        o, i, kh, kw = dims(t)
        known = isinstance(o, int) and isinstance(i, int) and (kh, kw) == (3, 3)
        need(known, "the weights must be known to be (O, I, 3, 3)", f"they are {t}", 0)
        return tensor_type((o, i, 8, 8), self.out_dtype or t.dtype)

    def compute(self, weight: te.Tensor) -> te.Tensor:
        return topi.nn.conv2d_winograd_nnpack_weight_transform(weight, 3, self.out_dtype or None)

    def ref(self, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.winograd import winograd_transform_matrices

        _, _, g = winograd_transform_matrices(6, 3)
        return np.asarray(np.einsum("ar,oirs,bs->oiab", g, weight, g), self.out_dtype or weight.dtype)
