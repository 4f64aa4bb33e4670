"""SIMD vectors for Numba: a `Vector` lives in one register and each operation is one LLVM instruction.

Numba has no vector type, and its loop vectoriser gives up on register-tiled products and on exponentials. Here a
`Vector` is an extension type whose data model is an LLVM vector of LANES float32; generic LLVM vectors lower to
AVX-512, AVX2, SSE and NEON alike, so only the number of lanes and the tile shape depend on the machine.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, overload, register_model

from engine.kernels.policy import inline, target_features

_FEATURES = target_features()
if "avx512f" in _FEATURES:
    LANES, TILE_ROWS, TILE_VECTORS = 16, 12, 2  # 24 of 32 registers accumulate
elif "avx2" in _FEATURES or "avx" in _FEATURES:
    LANES, TILE_ROWS, TILE_VECTORS = 8, 6, 2  # 12 of 16
elif "neon" in _FEATURES:
    LANES, TILE_ROWS, TILE_VECTORS = 4, 6, 4  # 24 of 32
else:
    LANES, TILE_ROWS, TILE_VECTORS = 4, 6, 2  # 12 of 16
PANEL = LANES * TILE_VECTORS  # columns of a product that one tile computes

_FLOAT = ir.FloatType()
_INT = ir.IntType(32)
_FLOATS = ir.VectorType(_FLOAT, LANES)
_INTS = ir.VectorType(_INT, LANES)


class Vector(types.Type):
    """The Numba type of one SIMD register of LANES float32."""

    def __init__(self) -> None:
        """One instance, `vector`, serves all."""
        super().__init__(name=f"Vector(float32 x {LANES})")


vector: Any = Vector()


@register_model(Vector)
class _VectorModel(PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _FLOATS)


def _call(builder: Any, name: str, result: Any, arguments: Any, **flags: Any) -> Any:
    kind = ir.FunctionType(result, [a.type for a in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments, **flags)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    view = cgutils.create_struct_proxy(kind)(context, builder, value=array)
    return builder.gep(view.data, [index])


def _load(builder: Any, pointer: Any, llvm_type: Any = _FLOATS) -> Any:
    value = builder.load(builder.bitcast(pointer, llvm_type.as_pointer()))
    value.align = 4  # rows start anywhere
    return value


def _store(builder: Any, value: Any, pointer: Any) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer())).align = 4


def _splat(builder: Any, scalar: Any) -> Any:
    empty = ir.Constant(_FLOATS, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(_INT, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(_INTS, [0] * LANES))


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """The LANES floats of a flat float32 array that begin at `index`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _load(builder, _pointer(context, builder, signature.args[0], *arguments))

    return vector(array, types.intp), codegen


@intrinsic
def store(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a vector to a flat float32 array from `index` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _store(builder, arguments[2], _pointer(context, builder, signature.args[0], *arguments[:2]))
        return context.get_dummy_value()

    return types.void(array, types.intp, value), codegen


@intrinsic
def splat(typing: Any, scalar: Any) -> Any:
    """A vector whose lanes all hold `scalar` (float32)."""
    return vector(types.float32), lambda context, builder, signature, arguments: _splat(builder, arguments[0])


def _lane_operation(method: str) -> Any:
    @intrinsic
    def operation(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, method)(*arguments)

        return vector(vector, vector), codegen

    return operation


def _lane_function(name: str, arity: int) -> Any:
    full_name = f"llvm.{name}.v{LANES}f32"

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, full_name, _FLOATS, arguments)

    @intrinsic
    def unary(typing: Any, a: Any) -> Any:
        return vector(vector), codegen

    @intrinsic
    def binary(typing: Any, a: Any, b: Any) -> Any:
        return vector(vector, vector), codegen

    @intrinsic
    def ternary(typing: Any, a: Any, b: Any, c: Any) -> Any:
        return vector(vector, vector, vector), codegen

    return (unary, binary, ternary)[arity - 1]


_add, _subtract = _lane_operation("fadd"), _lane_operation("fsub")
_multiply, _divide = _lane_operation("fmul"), _lane_operation("fdiv")
fma = _lane_function("fma", 3)  # a * b + c, rounded once
maximum = _lane_function("maxnum", 2)
absolute = _lane_function("fabs", 1)
copy_sign = _lane_function("copysign", 2)  # magnitude of the first, sign of the second
_round_even = _lane_function("rint", 1)


def _overload(symbol: Callable[..., Any], operation: Any) -> None:
    @overload(symbol)
    def _(a, b):
        if isinstance(a, Vector) and isinstance(b, Vector):
            return lambda a, b: operation(a, b)
        return None


_overload(operator.add, _add)
_overload(operator.sub, _subtract)
_overload(operator.mul, _multiply)
_overload(operator.truediv, _divide)


@intrinsic
def reduce_add(typing: Any, value: Any) -> Any:
    """Sum of the lanes."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(_FLOAT, 0.0)
        name = f"llvm.vector.reduce.fadd.v{LANES}f32"
        return _call(builder, name, _FLOAT, [zero, arguments[0]], fastmath=("reassoc",))

    return types.float32(vector), codegen


@intrinsic
def reduce_max(typing: Any, value: Any) -> Any:
    """Largest lane."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, f"llvm.vector.reduce.fmax.v{LANES}f32", _FLOAT, arguments)

    return types.float32(vector), codegen


@intrinsic
def _times_power_of_two(typing: Any, mantissa: Any, exponent: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shift = builder.shl(builder.fptosi(arguments[1], _INTS), ir.Constant(_INTS, [23] * LANES))
        return builder.bitcast(builder.add(builder.bitcast(arguments[0], _INTS), shift), _FLOATS)

    return vector(vector, vector), codegen


_LOWEST = np.float32(-87.0)  # below it e**x is no longer a normal float32
_LOG2_E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(-0.693359375), np.float32(2.12194440e-4)
_EXP_TERMS = tuple(np.float32(1 / f) for f in (720, 120, 24, 6, 2, 1, 1))  # Taylor, on |r| <= ln(2) / 2


@inline
def exp(x):
    """e**x for x <= 0 to a relative error of about 2e-7; below -87, where it is under 2e-38, e**-87."""
    x = maximum(x, splat(_LOWEST))
    n = _round_even(x * splat(_LOG2_E))
    r = fma(n, splat(_LN2_LOW), fma(n, splat(_LN2_HIGH), x))
    p = splat(_EXP_TERMS[0])
    p = fma(p, r, splat(_EXP_TERMS[1]))
    p = fma(p, r, splat(_EXP_TERMS[2]))
    p = fma(p, r, splat(_EXP_TERMS[3]))
    p = fma(p, r, splat(_EXP_TERMS[4]))
    p = fma(p, r, splat(_EXP_TERMS[5]))
    p = fma(p, r, splat(_EXP_TERMS[6]))
    return _times_power_of_two(p, n)


_HALF, _ONE, _ZERO = np.float32(0.5), np.float32(1), np.float32(0)
_SQRT_HALF = np.float32(0.70710678)
_ERF_P = np.float32(0.3275911)
_ERF_A = tuple(np.float32(a) for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592))


@inline
def gelu(x):
    """x * (1 + erf(x / sqrt 2)) / 2, erf by Abramowitz and Stegun 7.1.26 (absolute error under 2e-7)."""
    z = absolute(x * splat(_SQRT_HALF))
    t = splat(_ONE) / fma(z, splat(_ERF_P), splat(_ONE))
    p = splat(_ERF_A[0])
    p = fma(p, t, splat(_ERF_A[1]))
    p = fma(p, t, splat(_ERF_A[2]))
    p = fma(p, t, splat(_ERF_A[3]))
    p = fma(p, t, splat(_ERF_A[4]))
    erf = splat(_ONE) - p * t * exp(splat(_ZERO) - z * z)
    return splat(_HALF) * x * (splat(_ONE) + copy_sign(erf, x))


def make_tile(rows: int, packed: bool) -> Any:
    """An intrinsic that multiplies `rows` rows of A by one packed panel of B with all sums held in registers.

    It is `tile(A, a, lda, B, b, C, c, depth)` on flat float32 arrays: for all j < PANEL, C[c + i*PANEL + j] becomes the
    sum over k < depth of A[i, k] * B[b + k*PANEL + j]. A[i, k] is at a + k*rows + i if `packed`, else at a + i*lda + k.
    """

    @intrinsic
    def tile(typing: Any, A: Any, a: Any, lda: Any, B: Any, b: Any, C: Any, c: Any, depth: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            A, a, lda, B, b, C, c, depth = arguments
            a_start = _pointer(context, builder, signature.args[0], A, a)
            b_start = _pointer(context, builder, signature.args[3], B, b)
            c_start = _pointer(context, builder, signature.args[5], C, c)
            index = depth.type
            sums = [[cgutils.alloca_once(builder, _FLOATS) for _ in range(TILE_VECTORS)] for _ in range(rows)]
            for i in range(rows):
                for j in range(TILE_VECTORS):
                    builder.store(ir.Constant(_FLOATS, [0.0] * LANES), sums[i][j])
            row_starts = [builder.gep(a_start, [builder.mul(lda, index(i))]) for i in range(rows)]
            with cgutils.for_range(builder, depth) as loop:
                k = loop.index
                b_row = builder.gep(b_start, [builder.mul(k, index(PANEL))])
                b_vectors = [_load(builder, builder.gep(b_row, [index(j * LANES)])) for j in range(TILE_VECTORS)]
                a_column = builder.gep(a_start, [builder.mul(k, index(rows))])
                for i in range(rows):
                    at = builder.gep(a_column, [index(i)]) if packed else builder.gep(row_starts[i], [k])
                    scalar = _splat(builder, builder.load(at))
                    for j in range(TILE_VECTORS):
                        total = builder.load(sums[i][j])
                        total = _call(builder, f"llvm.fma.v{LANES}f32", _FLOATS, [scalar, b_vectors[j], total])
                        builder.store(total, sums[i][j])
            for i in range(rows):
                for j in range(TILE_VECTORS):
                    at = builder.gep(c_start, [index(i * PANEL + j * LANES)])
                    _store(builder, builder.load(sums[i][j]), at)
            return context.get_dummy_value()

        ints = types.intp
        return types.void(A, ints, ints, B, ints, C, ints, ints), codegen

    return tile
