"""What users of classic TVM rely on: one simplification a line, `before  =>  after  |  bounds of variables`.

Both sides are simplified and must come to one form.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tilewright import arith, tir
from tilewright.ir import Range
from tilewright.node import structural_equal

CASES = """
# floordiv/mod recombination
fld(x * 4 + y, 4)  =>  x  |  y=(0, 3)
flm(x * 4 + y, 4)  =>  y  |  y=(0, 3)
fld(x, 8) * 8 + flm(x, 8)  =>  x
flm(x, 8) + fld(x, 8) * 8  =>  x
x - fld(x, 8) * 8  =>  flm(x, 8)
fld(x, 8) * 8 - x  =>  -flm(x, 8)
fld(fld(x, 4), 3)  =>  fld(x, 12)
flm(flm(x, 12), 4)  =>  flm(x, 4)
fld(flm(x, 12), 4) * 4 + flm(x, 4)  =>  flm(x, 12)
flm(fld(x, 4), 3) * 4 + flm(x, 4)  =>  flm(x, 12)
fld(x * 8, 4)  =>  x * 2
fld(x * 4, 8)  =>  fld(x, 2)
flm(x * 4, 8)  =>  flm(x, 2) * 4
flm(x * 8, 4)  =>  c(0)
fld(x + 8, 4)  =>  fld(x, 4) + 2
flm(x + 8, 4)  =>  flm(x, 4)
fld(x - 8, 4)  =>  fld(x, 4) - 2
fld(x * 6 + y * 3 + z, 3)  =>  x * 2 + y + fld(z, 3)
flm(x * 6 + y * 3 + z, 3)  =>  flm(z, 3)
fld(x * 4 + y * 2 + z, 8)  =>  fld(x * 2 + y, 4)  |  z=(0, 1)
flm(x * 4 + y * 2 + z, 8)  =>  flm(x * 2 + y, 4) * 2 + z  |  z=(0, 1)
fld(x + flm(x, 2) - flm(x, 2), 2)  =>  fld(x, 2)
fld(x - flm(x, 8), 8)  =>  fld(x, 8)
fld(x - flm(x, 21), 21)  =>  fld(x, 21)
fld(-x, 4) * -4  =>  fld(-x, 4) * -4
fld(-x + 3, 4)  =>  fld(3 - x, 4)
fld(x, -4)  =>  fld(-x, 4)
flm(x, -4) * -1  =>  flm(-x, 4)
fld(x * y, y)  =>  x  |  y=(1, 100)
flm(x * y, y)  =>  c(0)  |  y=(1, 100)
fld(x * y + z, y)  =>  x  |  y=(5, 100), z=(0, 4)
fld(x * m * n, n)  =>  x * m  |  n=(1, 1000)
flm(x * n + y, n)  =>  y  |  n=(8, 1000), y=(0, 7)
fld(x * n + y, n) * n + flm(x * n + y, n)  =>  x * n + y  |  n=(1, 100)
fld(x * 64 + y, 32)  =>  x * 2 + fld(y, 32)
fld(x * 2 + 1, 2)  =>  x
flm(x * 2 + 1, 2)  =>  c(1)
fld(x * 128 + y * 4 + z, 512)  =>  fld(x, 4)  |  y=(0, 31), z=(0, 3)
flm(fld(x * 128 + y, 4), 32)  =>  fld(y, 4)  |  y=(0, 127)
fld(flm(x * 128 + y, 128), 4)  =>  fld(y, 4)  |  y=(0, 127)
flm(flm(x, 65536) * 4 + y, 4)  =>  flm(y, 4)
fld(flm(x, 512), 64)  =>  flm(fld(x, 64), 8)
fld(x + 1, 2) + fld(x, 2)  =>  x
fld(x, 2) * 2 + flm(x + 0, 2) - x  =>  c(0)
fld(x * 2 + y * 2, 4)  =>  fld(x + y, 2)
fld(x + 4 * y, 4) - y  =>  fld(x, 4)
x * 9 - fld(x * 9, 3) * 3  =>  c(0)
flm(x * 10, 5) + flm(x * 2, 2)  =>  c(0)
fld(min_(x, y) * 4, 4)  =>  min_(x, y)
fld(min_(x * 4, y * 4), 4)  =>  min_(x, y)
flm(x + y * 256, 256)  =>  flm(x, 256)
fld(x + 255, 256) * 256 >= x  =>  T
fld(x + 3, 4) * 4 >= x  =>  T
fld(x + 3, 4) * 4 < x + 4  =>  T
fld(n + 3, 4) * 4 >= n  =>  T
fld(x, 4) * 4 <= x  =>  T
fld(x, 4) * 4 + 4 > x  =>  T
fld(x, 4) * 4 > x - 4  =>  T
fld(x, 4) * 4 + 3 >= x  =>  T
fld(x, 16) * 16 + 15 < x  =>  F
fld(x, m) * m <= x  =>  T  |  m=(1, 1000)
fld(x, m) * m + m > x  =>  T  |  m=(1, 1000)
fld(x + m - 1, m) * m >= x  =>  T  |  m=(1, 1000)
flm(x, m) < m  =>  T  |  m=(1, 1000)
flm(x, m) >= 0  =>  T  |  m=(1, 1000)
flm(x, 4) < 4  =>  T
flm(x, 4) >= 0  =>  T
flm(x, 4) == 4  =>  F
fld(x, 8) <= fld(x, 4)  =>  T  |  x=(0, 10 ** 9)
fld(x, 4) <= x  =>  T  |  x=(0, 10 ** 9)
EQ(flm(x * 4, 4), 0)  =>  T

# truncated
tdiv(x * 4 + y, 4)  =>  x  |  x=(0, 1000), y=(0, 3)
tmod(x * 4 + y, 4)  =>  y  |  x=(0, 1000), y=(0, 3)
tdiv(x * 4, 4)  =>  x
tmod(x * 4, 4)  =>  c(0)
tmod(x * 4, 2)  =>  c(0)
tdiv(x, 8) * 8 + tmod(x, 8)  =>  x
tdiv(tdiv(x, 3), 4)  =>  tdiv(x, 12)
tdiv(tdiv(x, 2), 3)  =>  tdiv(x, 6)
tdiv(x * 8, 4)  =>  x * 2
tdiv(x * 4 + 8, 2)  =>  x * 2 + 4
tmod(x * 8 + y, 4)  =>  tmod(y, 4)  |  x=(0, 100), y=(0, 100)
tdiv(x, 1)  =>  x
tmod(x, 1)  =>  c(0)
tmod(x, -3)  =>  tmod(x, 3)  |  x=(0, 100)
tdiv(c(0), x)  =>  c(0)
tdiv(x * y, y)  =>  x  |  y=(1, 100)

# min/max
min_(x, x + 1)  =>  x
max_(x, x + 1)  =>  x + 1
min_(x + 2, x + 5)  =>  x + 2
min_(min_(x, 5), 3)  =>  min_(x, 3)
max_(min_(x, 5), 5)  =>  c(5)
min_(max_(x, y), x)  =>  x
max_(min_(x, y), max_(x, y))  =>  max_(x, y)
min_(max_(x, y), min_(x, y))  =>  min_(x, y)
min_(x, y) + max_(x, y)  =>  x + y
max_(x, y) - min_(x, y) - (max_(x, y) - min_(x, y))  =>  c(0)
max_(x + 1, y + 1) - 1  =>  max_(x, y)
min_(x * 4, y * 4)  =>  min_(x, y) * 4
max_(x * -4, y * -4)  =>  min_(x, y) * -4
min_(c(3) - x, c(8) - x)  =>  3 - x
x - min_(x, y)  =>  max_(x - y, 0)
x - max_(x, y)  =>  min_(x - y, 0)
min_(x, y) - x  =>  min_(y - x, 0)
max_(x, y) - x  =>  max_(y - x, 0)
min_(x - y, 0) + y  =>  min_(x, y)
max_(x - 5, 0) + 5  =>  max_(x, 5)
min_(min_(x, y), min_(y, z))  =>  min_(min_(x, y), z)
max_(max_(x, 4), max_(y, 7))  =>  max_(max_(x, y), 7)
min_(x, fld(x, 4) * 4)  =>  fld(x, 4) * 4
max_(x, fld(x, 4) * 4)  =>  x
min_(x, fld(x + 3, 4) * 4)  =>  x
max_(fld(x + 3, 4) * 4, x)  =>  fld(x + 3, 4) * 4
max_(fld(x, 4) * 4 + 3, x)  =>  fld(x, 4) * 4 + 3
min_(x * 32 + 31, 1023)  =>  x * 32 + 31  |  x=(0, 31)
min_(128, 1024 - x * 128)  =>  c(128)  |  x=(0, 7)
min_(100 - x * 16, 16) <= 16  =>  T
min_(100 - x * 16, 16) >= 1  =>  T  |  x=(0, 6)
min_(16, n - x * 16) <= n - x * 16  =>  T
max_(min_(x, 10), 0)  =>  min_(x, 10)  |  x=(0, 100)
max_(0, min_(x, 10))  =>  x  |  x=(0, 10)
min_(max_(x, 0), 9)  =>  x  |  x=(0, 9)
min_(x * 8, 64) * 2  =>  min_(x, 8) * 16
min_(x, 4) < 5  =>  T
max_(x, 4) > 3  =>  T
min_(x, y) <= max_(x, y)  =>  T
min_(x, y) <= y  =>  T
max_(x, y) >= y + 0  =>  T
min_(x, y) < x + 1  =>  T
LE(x, max_(x, y))  =>  T
min_(x, y) * 2 <= x + y  =>  T
max_(n, 1) >= 1  =>  T
max_(n, 0)  =>  n
min_(n, 0)  =>  c(0)
n >= 0  =>  T
n + m >= 0  =>  T
n * m >= 0  =>  T
n < 0  =>  F
min_(x + y, x + z)  =>  min_(y, z) + x
min_(x * m, y * m)  =>  min_(x, y) * m
max_(x // 8 * 8, x - 7)  =>  fld(x, 8) * 8

# comparisons
LT(x - 1, x)  =>  T
LT(x, x)  =>  F
LE(x, x)  =>  T
EQ(x, x)  =>  T
NE(x, x)  =>  F
LT(x + 1, y + 1)  =>  LT(x, y)
LT(x * 4, y * 4)  =>  LT(x, y)
LT(x * -2, y * -2)  =>  LT(y, x)
LT(x * 4, 10)  =>  LT(x, 3)
LE(x * 4, 10)  =>  LE(x, 2)
GE(x * 4, 10)  =>  GE(x, 3)
EQ(x * 4, 10)  =>  F
NE(x * 4, 10)  =>  T
EQ(x * 4, 8)  =>  EQ(x, 2)
EQ(x + 1, 5)  =>  EQ(x, 4)
EQ(x - y, 0)  =>  EQ(x, y)
EQ(3 - x, 1)  =>  EQ(x, 2)
EQ(x * 4 + y, 0)  =>  And(EQ(x, 0), EQ(y, 0))  |  y=(0, 3)
LT(fld(x, 4), 3)  =>  LT(x, 12)
GE(fld(x, 4), 3)  =>  GE(x, 12)
LE(fld(x, 4), 3)  =>  LT(x, 16)
GT(fld(x, 4), 3)  =>  GE(x, 16)
LT(fld(x + 2, 4), 1)  =>  LT(x, 2)
LT(x * 16 + y, 64)  =>  LT(x, 4)  |  y=(0, 15)
LE(x * 16 + y, 63)  =>  LT(x, 4)  |  y=(0, 15)
LT(x * 16 + y, 70)  =>  LT(x * 16 + y, 70)  |  y=(0, 15)
GE(x * 16 + y, 32)  =>  GE(x, 2)  |  y=(0, 15)
LT(x * 4 + y, n * 4)  =>  LT(x, n)  |  y=(0, 3)
LT(x * 16 + y * 4 + z, n * 16)  =>  LT(x, n)  |  y=(0, 3), z=(0, 3)
LT(x + y, 20)  =>  T  |  x=(0, 9), y=(0, 9)
LT(x * y, 100)  =>  T  |  x=(0, 9), y=(0, 9)
LT(fld(x * 32 + y, 64), 8)  =>  T  |  x=(0, 15), y=(0, 31)
LT(x, y + x)  =>  LT(0, y)
LE(x + y, x)  =>  LE(y, 0)
LT(-x, 0)  =>  LT(0, x)
LT(x - y, 0)  =>  LT(x, y)
GT(x * x, -1)  =>  T
GE(x * x, 0)  =>  T
LT(min_(x, 5), 5)  =>  LT(x, 5)
LT(max_(x, 5), 10)  =>  LT(x, 10)
LT(min_(x, 5), 3)  =>  LT(x, 3)
LT(max_(x, 5), 5)  =>  F
LE(min_(x, y), x)  =>  T
LT(x, min_(x, y))  =>  F
GT(max_(x, 12), 12)  =>  GT(x, 12)
EQ(min_(x, 5), 7)  =>  F
LE(max_(x, 5), 5)  =>  LE(x, 5)
EQ(max_(x, 5), 5)  =>  LE(x, 5)
EQ(min_(x, 5), 5)  =>  GE(x, 5)
EQ(min_(x, y), x)  =>  LE(x, y)

# logic
And(EQ(x, y), NE(x, y))  =>  F
And(x > 1, Not(x > 1))  =>  F
And(LE(x, y), LT(y, x))  =>  F
And(x < 1, 0 < x)  =>  F
And(x < 0, 1 < x)  =>  F
And(x < 1, LE(1, x))  =>  F
And(EQ(x, 1), NE(x, 2))  =>  EQ(x, 1)
Or(EQ(x, y), NE(x, y))  =>  T
Or(x > y, Not(x > y))  =>  T
Or(LE(x, y), LT(y, x))  =>  T
Or(x < 1, 0 < x)  =>  T
Or(x < 2, x > 0)  =>  T
Or(EQ(x, 1), NE(x, 2))  =>  NE(x, 2)
Or(NE(x, 1), EQ(x, 2))  =>  NE(x, 1)
And(NE(x, 1), EQ(x, 2))  =>  EQ(x, 2)
And(x < 5, x < 7)  =>  x < 5
Or(x < 5, x < 7)  =>  x < 7
And(x < 5, And(y < 3, x < 5))  =>  And(x < 5, y < 3)
Not(And(x < 5, y < 3))  =>  Or(x >= 5, y >= 3)
Not(Or(x < 5, y < 3))  =>  And(x >= 5, y >= 3)
Not(EQ(x, y))  =>  NE(x, y)
Not(NE(x, y))  =>  EQ(x, y)
Not(Not(x < y))  =>  x < y
Or(And(x < 5, y < 3), x < 5)  =>  x < 5
And(Or(x < 5, y < 3), x < 5)  =>  x < 5
And(Or(x < 5, y < 3), x >= 5)  =>  And(y < 3, x >= 5)
Or(And(x < 5, y < 3), x >= 5)  =>  Or(y < 3, x >= 5)
And(EQ(x, 4), EQ(flm(x, 2), 0))  =>  EQ(x, 4)
And(EQ(x, 4), LT(x, 10))  =>  EQ(x, 4)
And(EQ(x, 4), GT(x, 10))  =>  F
And(EQ(flm(x, 4), 0), EQ(flm(x, 2), 0))  =>  EQ(flm(x, 4), 0)
And(EQ(flm(x, 4), 0), EQ(flm(x, 2), 1))  =>  F
And(LT(x, y), LT(y, x))  =>  F
Or(LT(x, 10), LT(5, x))  =>  T
And(EQ(x, 3), EQ(x, 4))  =>  F
And(EQ(x, y), LT(x, y))  =>  F
And(LE(x, y), LE(y, x))  =>  EQ(x, y)
And(LE(x, y), NE(x, y))  =>  LT(x, y)
Or(LT(x, y), EQ(x, y))  =>  LE(x, y)
Or(LT(x, y), LT(y, x))  =>  NE(x, y)
And(x < 4, T)  =>  x < 4
And(x < 4, F)  =>  F
Or(x < 4, T)  =>  T
Or(x < 4, F)  =>  x < 4
Or(EQ(x, 0), Or(EQ(x, 1), EQ(x, 0)))  =>  Or(EQ(x, 0), EQ(x, 1))
likely(x < 64)  =>  T  |  x=(0, 63)
And(likely(x < 10), x < 10)  =>  likely(x < 10)
likely(likely(x < 4))  =>  likely(x < 4)
And(likely(x < 10), likely(x < 10))  =>  likely(x < 10)

# select/if
sel(x < 5, x, x)  =>  x
sel(T, x, y)  =>  x
sel(F, x, y)  =>  y
sel(x < 5, sel(x < 5, y, z), w)  =>  sel(x < 5, y, w)
sel(x < y, x, y)  =>  min_(x, y)
sel(x < 5, c(1), c(1))  =>  c(1)
sel(x >= 3, y, y)  =>  y
if_then_else(x < 5, min_(x, 5), y)  =>  if_then_else(x < 5, x, y)
sel(x < 5, c(0), c(0)) + x  =>  x
sel(x < 5, 1, 0) < 2  =>  T
sel(x < 5, y, z) - sel(x < 5, y, z)  =>  c(0)
max_(sel(x < 5, 1, 3), 4)  =>  c(4)
if_then_else(x < 0, y, z)  =>  z  |  x=(0, 5)
sel(x < 5, x, w) - sel(x < 5, y, z)  =>  sel(x < 5, x - y, w - z)
if_then_else(And(x >= 0, x < 8), if_then_else(x < 8, y, z), w)  =>  if_then_else(And(x >= 0, x < 8), y, w)
sel(EQ(x, 3), x, y)  =>  sel(EQ(x, 3), c(3), y)

# linear
x + x  =>  x * 2
x * 2 + x * 3  =>  x * 5
x + y - x  =>  y
x - (x - y)  =>  y
(x + 1) * 2 - 2 * x  =>  c(2)
(x + y) * 3 - 3 * y  =>  x * 3
(x + y) * (x - y) - x * x + y * y  =>  c(0)
(x + 1) * (y + 1) - x * y  =>  x + y + 1
x * y - y * x  =>  c(0)
x * (y + 1) - x * y  =>  x
(x + y) * z - x * z  =>  y * z
0 - x  =>  -x
x * 0  =>  c(0)
x * 1  =>  x
x * 3 * 4  =>  x * 12
x + 2 + 3  =>  x + 5
x - 2 + 5  =>  x + 3
5 - (x + 2)  =>  3 - x
(x * 2 + 4) * 3  =>  x * 6 + 12
x * -1 * -1  =>  x
x + y + (x - y)  =>  x * 2
n * m + m * n  =>  n * m * 2
(n + 1) * m - n * m - m  =>  c(0)
fld(n * m, m)  =>  n  |  m=(1, 100)
flm(n * m, m)  =>  c(0)  |  m=(1, 100)

# casts, bits
Cast('int32', Cast('int64', x))  =>  x
shl(x, c(2))  =>  x * 4
shr(x, c(2))  =>  fld(x, 4)
bit_and(x, c(7))  =>  flm(x, 8)
shr(shl(x, c(3)), c(3))  =>  x
bit_and(x, c(0))  =>  c(0)
bit_or(x, c(0))  =>  x
bit_xor(x, x)  =>  c(0)
bit_and(shl(x, c(3)), c(7))  =>  c(0)
abs(x)  =>  x  |  x=(0, 10)
Cast('int64', x) * 4 // 4  =>  Cast('int64', x)

# vectors
Rp(x, 1, 4) + Bc(y, 4)  =>  Rp(x + y, 1, 4)
Rp(x, 1, 4) + Rp(y, 2, 4)  =>  Rp(x + y, 3, 4)
Rp(x, 2, 4) * Bc(c(3), 4)  =>  Rp(x * 3, 6, 4)
Bc(x, 4) + Bc(y, 4)  =>  Bc(x + y, 4)
Bc(x, 4) - Rp(y, 1, 4)  =>  Rp(x - y, -1, 4)
fld(Rp(x * 8, 1, 8), Bc(c(8), 8))  =>  Bc(x, 8)
flm(Rp(x * 8, 1, 8), Bc(c(8), 8))  =>  Rp(0, 1, 8)
fld(Rp(x * 8, 2, 4), Bc(c(2), 4))  =>  Rp(x * 4, 1, 4)
flm(Rp(x, 4, 4), Bc(c(4), 4))  =>  Bc(flm(x, 4), 4)
fld(Rp(x, 4, 4), Bc(c(4), 4))  =>  Rp(fld(x, 4), 1, 4)
fld(Rp(x * 16 + 4, 1, 4), Bc(c(16), 4))  =>  Bc(x, 4)
flm(Rp(x * 16 + 4, 1, 4), Bc(c(16), 4))  =>  Rp(4, 1, 4)
min_(Rp(x, 1, 4), Rp(y, 1, 4))  =>  Rp(min_(x, y), 1, 4)
LT(Rp(0, 1, 4), Bc(c(4), 4))  =>  Bc(T, 4)
tdiv(Rp(x * 4, 1, 4), Bc(c(4), 4))  =>  Bc(x, 4)  |  x=(0, 100)
tmod(Rp(x * 4, 1, 4), Bc(c(4), 4))  =>  Rp(0, 1, 4)  |  x=(0, 100)
sel(Bc(x < 4, 4), Rp(0, 1, 4), Rp(0, 1, 4))  =>  Rp(0, 1, 4)
And(Bc(x < 4, 4), Bc(x < 4, 4))  =>  Bc(x < 4, 4)
Rp(x, 1, 4) - Rp(x, 1, 4)  =>  Bc(c(0), 4)
EQ(Bc(x, 4), Bc(x, 4))  =>  Bc(T, 4)
And(Bc(x < 4, 4), Bc(T, 4))  =>  Bc(x < 4, 4)
Not(Bc(x < 4, 4))  =>  Bc(x >= 4, 4)
Bc(x, 4) * Bc(y, 4)  =>  Bc(x * y, 4)
flm(Rp(x * 8 + y, 1, 4), Bc(c(8), 4))  =>  Rp(y, 1, 4)  |  y=(0, 4)
fld(Rp(x * 64 + y * 8, 1, 8), Bc(c(64), 8))  =>  Bc(x, 8)  |  y=(0, 7)
flm(fld(Rp(x * 64 + y * 8, 1, 8), Bc(c(8), 8)), Bc(c(8), 8))  =>  Bc(y, 8)  |  y=(0, 7)
GE(Rp(x, 1, 4), Bc(c(0), 4))  =>  Bc(T, 4)  |  x=(0, 10)
LT(Rp(x * 4, 1, 4), Bc(n * 4, 4))  =>  Bc(LT(x, n), 4)
max_(Bc(x, 4), Bc(y, 4))  =>  Bc(max_(x, y), 4)
LT(Bc(x, 4), Bc(y, 4))  =>  Bc(x < y, 4)
Cast('int64x4', Bc(x, 4))  =>  Bc(Cast('int64', x), 4)
min_(Rp(x, 1, 4), Bc(x + 3, 4))  =>  Rp(x, 1, 4)
Rp(x, 1, 4) * Bc(c(0), 4)  =>  Bc(c(0), 4)

# tiles with tails, fused loops, symbolic shapes
min_(32, n - fld(n, 32)*32) <= 32  =>  T
fld(n + 31, 32)*32 - n <= 31  =>  T
fld(n + 31, 32) >= fld(n, 32)  =>  T
n - fld(n, 32)*32  =>  flm(n, 32)
min_(x*32 + 32, n) - x*32 <= 32  =>  T
min_(x*32 + 32, n) - min_(x*32, n) <= 32  =>  T
max_(min_(n - x*32, 32), 0) <= 32  =>  T
fld(x*n*m + y*m + z, m)  =>  x*n + y  |  m=(10, 20), z=(0, 9), n=(1, 50)
flm(x*n*m + y*m + z, m)  =>  z  |  m=(10, 20), z=(0, 9), n=(1, 50)
fld(flm(x, n*m), m)*m + flm(x, m)  =>  fld(flm(x, n*m), m)*m + flm(x, m)  |  m=(1, 20), n=(1, 50)
(n + 1)*m - n*m  =>  m
fld(n*16 + 15, 16)  =>  n
flm(n*16 + 5, 16)  =>  c(5)
fld(x, 16)*16 + flm(x, 16) < n  =>  x < n
And(x*16 + y < n*16, y < 16)  =>  x < n  |  y=(0, 15)
fld(fld(x, 4)*4 + 3, 4)  =>  fld(x, 4)
flm(flm(x, 7) + 7, 7)  =>  flm(x, 7)
fld(flm(x, 16)*64 + y, 64)  =>  flm(x, 16)  |  y=(0, 63)
fld(x*7 + flm(y, 7), 7)  =>  x
fld(x*56*56 + y*56 + z, 3136)  =>  x  |  y=(0, 55), z=(0, 55)
flm(fld(x*56*56 + y*56 + z, 56), 56)  =>  y  |  y=(0, 55), z=(0, 55)
x*64 + y*16 + fld(z, 4)*4 + flm(z, 4)  =>  x*64 + y*16 + z
fld(x*2 + 1, 4)*4 + flm(x*2 + 1, 4)  =>  x*2 + 1
fld(tdiv(x, 2)*2, 2)  =>  tdiv(x, 2)
EQ(flm(x*4 + 2, 4), 2)  =>  T
EQ(flm(x, 4)*2, 6)  =>  EQ(flm(x, 4), 3)
tdiv(x, 4)*4 + tmod(x, 4) - x  =>  c(0)
min_(x, 7) + max_(x, 7) - x  =>  c(7)
max_(min_(x + y, 10), x + y)  =>  max_(x + y, min_(x + y, 10))
LT(min_(x, y), min_(x, y))  =>  F
LE(max_(x, max_(y, z)), 7)  =>  And(And(x <= 7, y <= 7), z <= 7)
GE(min_(x, y), 3)  =>  And(x >= 3, y >= 3)
sel(x < 5, y, z) + sel(x < 5, z, y)  =>  y + z
sel(x < 5, 3, 4) - sel(x < 5, 1, 2)  =>  c(2)
Not(And(x < 5, Or(y < 3, z > 2)))  =>  Or(x >= 5, And(y >= 3, z <= 2))
likely(And(x < 5, T))  =>  likely(x < 5)
x*x - x*x  =>  c(0)
(x + y)*(x + y) - x*x - y*y  =>  x*y*2
"""

_VARIABLES: dict[str, tir.Var] = {s: tir.Var(s, "int32") for s in "xyzw"}
_VARIABLES |= {s: tir.SizeVar(s, "int32") for s in "nm"}
_NAMES: dict[str, Any] = {
    **_VARIABLES,
    "c": lambda v: tir.const(v, "int32"),
    "const": tir.const,
    "T": tir.const(1, "bool"),
    "F": tir.const(0, "bool"),
    "fld": tir.floordiv,
    "flm": tir.floormod,
    "tdiv": tir.truncdiv,
    "tmod": tir.truncmod,
    "min_": tir.min,
    "max_": tir.max,
    "sel": tir.Select,
    "abs": tir.abs,
    "Cast": tir.Cast,
    "shl": tir.shift_left,
    "shr": tir.shift_right,
    "likely": tir.likely,
    "if_then_else": tir.if_then_else,
    "bit_and": tir.bitwise_and,
    "bit_or": tir.bitwise_or,
    "bit_xor": tir.bitwise_xor,
    "Rp": tir.Ramp,
    "Bc": tir.Broadcast,
    "tir": tir,
    **{name: getattr(tir, name) for name in ("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or", "Not")},
}
LINES = [line for line in CASES.splitlines() if "=>" in line]
LINES += [
    (
        "tdiv(tdiv(tmod(x*128 + y, 1296), 36)*2 + 1, 2)*36 + tdiv(tmod(x*128 + y, 36)*2 + 1, 2) - tmod(x*128 "
        "+ y, 1296) + 1  =>  c(1)  |  x=(0, 5), y=(0, 127)"
    ),
    (
        "fld(fld(flm(x*128 + y, 1296), 36)*2 + 1, 2)*36 + fld(flm(x*128 + y, 36)*2 + 1, 2) - flm(x*128 + y, "
        "1296) + 1  =>  c(1)  |  x=(0, 5), y=(0, 127)"
    ),
    (
        "fld(x*1024 + y, 65536) + fld(flm(x*1024 + y, 65536), 256) + fld(flm(x*1024 + y, 256), 16) + "
        "flm(x*1024 + y, 16) - fld(y, 256) - fld(flm(y, 256), 16) - flm(y, 16) - x*4  =>  fld(x, 64) + "
        "flm(x, 64)*4 - x*4  |  x=(0, 127), y=(0, 1023)"
    ),
    (
        "if_then_else(x*4 + y >= 466036, if_then_else(24512 <= flm(x*4 + y - 466036, 24528), flm(flm(x*4 + y "
        "- 466036, 24528) - 24512, 16), x), y)  =>  if_then_else(466036 <= x*4 + y, if_then_else(24512 <= "
        "flm(x*4 + y - 4, 24528), flm(x*4 + y - 4, 16), x), y)"
    ),
]


def expr(text: str) -> Any:
    value = eval(text, _NAMES)
    return value.asobject() if isinstance(value, tir.EqualOp) else value


@pytest.mark.parametrize("line", LINES)
def test_simplifies(line: str) -> None:
    sides, _, bounds = line.partition("  |  ")
    before, after = (expr(side) for side in sides.split("  =>  "))
    analyzer = arith.Analyzer()
    for name, low, high in re.findall(r"(\w)=\(([^,]*), ([^)]*)\)", bounds):
        analyzer.update(_VARIABLES[name], arith.ConstIntBound(eval(low), eval(high)))
    got, want = analyzer.simplify(before), analyzer.simplify(after)
    assert structural_equal(got, want), f"{before}\n-> {got}, not {want}"


EXTENDED = [
    ("And(x >= 0, And(x < 4, EQ(fld(x, 4), 0)))", "And(x >= 0, x < 4)"),
    ("And(LT(x, y), And(LT(y, z), LT(z, x)))", "F"),
    ("And(EQ(flm(x, 4), 0), EQ(flm(x + 4, 4), 0))", "EQ(flm(x, 4), 0)"),
    ("And(x < 8, Or(x < 16, y < 3))", "x < 8"),
]


@pytest.mark.parametrize("case", EXTENDED)
def test_constraints_of_branches(case: tuple[str, str]) -> None:
    analyzer = arith.Analyzer()
    analyzer.enabled_extensions = arith.Extension.ApplyConstraintsToBooleanBranches
    got = analyzer.simplify(expr(case[0]))
    assert structural_equal(got, arith.Analyzer().simplify(expr(case[1]))), got


def test_products_and_sums() -> None:
    x, y = _VARIABLES["x"], _VARIABLES["y"]
    analyzer = arith.Analyzer()
    for v in (x, y):
        analyzer.update(v, arith.ConstIntBound(128, 10**6))
    assert analyzer.can_prove((x + y) * 64 <= x * y)
    assert not analyzer.can_prove((x + y) * 65 < x * y)
    assert analyzer.can_prove(x * y > x)


def test_loops_over_symbolic_extents() -> None:
    """Indices of tiled loops stay inside of what they tile, whatever the size."""
    i, j, n, tile = tir.Var("i", "int32"), tir.Var("j", "int32"), tir.SizeVar("n", "int32"), 16
    analyzer = arith.Analyzer()
    analyzer.bind(i, Range(0, tir.floordiv(n + tile - 1, tile)))
    analyzer.bind(j, Range(0, tir.min(tile, n - i * tile)))
    assert analyzer.can_prove(i * tile < n)
    assert analyzer.can_prove(i * tile + j < n)
    assert analyzer.can_prove(i * tile + j >= 0)
    assert not analyzer.can_prove(i * tile + j < n - 1)
    assert analyzer.can_prove_equal(tir.floordiv(i * tile + j, tile), i)
    assert analyzer.can_prove_equal(tir.floormod(i * tile + j, tile), j)
