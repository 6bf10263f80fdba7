"""Eight numbers side by side in compiled code, as one value with the usual operators.

LLVM turns loops over arrays into such code by itself, but it keeps sums in memory unless it can
prove that no two arrays overlap, checks that before each loop, and uses half of the width that
processors with AVX-512 have. Where a loop is as short as a row of a table, this costs more than the
arithmetic does. Values of this type stay in registers; on other processors, LLVM splits them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import cgutils, imputils, types
from numba.core.typing import templates

# Numba is only partly typed.
_cgutils: Any = cgutils
_imputils: Any = imputils
_templates: Any = templates
intrinsic: Any = extending.intrinsic

#: Numbers in a value.
N_LANES = 8

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_DOUBLES, _INTEGERS = ir.VectorType(ir.DoubleType(), N_LANES), ir.VectorType(_I64, N_LANES)


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__("Lanes")


_make: Any = _Lanes
_LANES = _make()


@extending.register_model(_Lanes)
class _LanesModel(extending.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLES)  # type: ignore[no-untyped-call]


def _wide(builder: Any, value: Any) -> Any:
    """Return a number in all lanes, and lanes as they are."""
    if value.type == _DOUBLES:
        return value
    none = ir.Constant(_DOUBLES, ir.Undefined)
    first = builder.insert_element(none, value, _I32(0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(_I32, N_LANES), None))


def _operator(function: Callable[..., Any], name: str) -> None:
    """Let an operator take lanes, also beside a number; products may be rounded with their sums."""
    kinds = (_LANES, _LANES), (_LANES, types.float64), (types.float64, _LANES)
    # Unlike an overload, a template costs other functions no time while they are compiled.
    cases = [_templates.signature(_LANES, *both) for both in kinds]
    _templates.infer_global(function)(
        type("_Typed", (_templates.ConcreteTemplate,), {"cases": cases})
    )

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        both = (_wide(builder, value) for value in args)
        return getattr(builder, name)(*both, flags=("contract",))

    for both in kinds:
        _imputils.lower_builtin(function, *both)(emit)


for _function, _name in (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"):
    _operator(_function, _name)


def _function_of_llvm(name: str) -> Any:
    @intrinsic
    def apply(context: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(_DOUBLES, [_DOUBLES])
            full = f"{name}.v{N_LANES}f64"
            return builder.call(_cgutils.get_or_insert_function(builder.module, kind, full), args)

        return _LANES(_LANES), emit

    return apply


magnitude = _function_of_llvm("llvm.fabs")
square_root = _function_of_llvm("llvm.sqrt")


@intrinsic
def spread(context: Any, number: Any) -> Any:
    """Return a number in all lanes."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _wide(builder, args[0])

    return _LANES(types.float64), emit


def _bounded(sign: str) -> Any:
    @intrinsic
    def apply(context: Any, value: Any, bound: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value, bound = (_wide(builder, one) for one in args)
            return builder.select(builder.fcmp_ordered(sign, value, bound), bound, value)

        return _LANES(_LANES, types.float64), emit

    return apply


# The smaller, or larger, of each number and a bound; NaN stays NaN.
at_most, at_least = _bounded(">"), _bounded("<")


@intrinsic
def times_power(context: Any, value: Any, exponent: Any) -> Any:
    """Return value * 2 ** n, where the lowest bits of ``exponent`` are the integer n + 1023."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[1], _INTEGERS)
        moved = builder.shl(bits, ir.Constant(_INTEGERS, [52] * N_LANES))
        return builder.fmul(args[0], builder.bitcast(moved, _DOUBLES))

    return _LANES(_LANES, _LANES), emit


@intrinsic
def where_set(context: Any, bits: Any, number: Any) -> Any:
    """Return a number in the lanes whose bits, the lowest eight, are set, and 0 in the others."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flags = ir.VectorType(ir.IntType(1), N_LANES)
        mask = builder.bitcast(builder.trunc(args[0], ir.IntType(8)), flags)
        zeros = ir.Constant(_DOUBLES, [0.0] * N_LANES)
        return builder.select(mask, _wide(builder, args[1]), zeros)

    return _LANES(types.uint64, types.float64), emit


def _place(context: Any, builder: Any, signature: Any, args: Any, lanes: Any = _DOUBLES) -> Any:
    """Return the address of eight numbers of a flat array."""
    array = _cgutils.create_struct_proxy(signature.args[0])(context, builder, value=args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), lanes.as_pointer())


@intrinsic
def load(context: Any, array: Any, start: Any) -> Any:
    """Return eight numbers of a flat array from a place on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, signature, args), align=8)

    return _LANES(array, types.intp), emit


@intrinsic
def load_singles(context: Any, array: Any, start: Any) -> Any:
    """Return eight numbers of a flat array in single precision from a place on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrow = ir.VectorType(ir.FloatType(), N_LANES)
        place = _place(context, builder, signature, args, narrow)
        return builder.fpext(builder.load(place, align=4), _DOUBLES)

    return _LANES(array, types.intp), emit


@intrinsic
def store(context: Any, array: Any, start: Any, value: Any) -> Any:
    """Write eight numbers to a flat array from a place on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _place(context, builder, signature, args), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _LANES), emit
