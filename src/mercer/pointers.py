"""Calls of compiled functions by address, so that a compiled loop takes any kernel or loss.

A loop that takes a Python function as an argument is recompiled for each function, in every
process. Here a function is compiled on its own (``numba.cfunc``, cached on disk), and the loop,
compiled once, receives its address as an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as typed_cgutils
from numba.core.errors import TypingError

cgutils: Any = typed_cgutils
_intrinsic: Any = extending.intrinsic  # numba is only partly typed
_WORD = ir.IntType(64)
_WORDS = (types.int64, types.uint64)


@_intrinsic
def call_pointer(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call the C function at ``address`` with 64-bit words; for use inside ``numba.njit`` only.

    Parameters
    ----------
    address : int64
        Address of a C function ``void (word, ..., word)``, for example ``cfunc.address``. It is
        trusted: a wrong address, or a wrong number of arguments, ends the process.
    arguments : tuple of 64-bit integers
        One word per argument: pointers as ``array.ctypes.data``, sizes as ``array.shape[0]``.

    Raises
    ------
    numba.core.errors.TypingError
        At compilation, if an argument is not a 64-bit integer. Floats go through a pointer.

    Notes
    -----
    Numba frees an array that the loop created itself after its last use, and ``ctypes.data`` does
    not count as one after it was read. Use such an array (return it, read an element) *after* the
    call, or let the caller own it. Arrays must be C-contiguous for the callee's indexing.

    Examples
    --------
    >>> import numpy as np
    >>> from numba import cfunc, njit, types
    >>> numbers = types.CPointer(types.float64)
    >>> @cfunc(types.void(numbers, types.int64))
    ... def double_in_place(x, n):
    ...     for i in range(n):
    ...         x[i] *= 2.0
    >>> @njit
    ... def apply(address, x):
    ...     call_pointer(address, (x.ctypes.data, x.shape[0]))
    >>> x = np.arange(3.0)
    >>> apply(double_in_place.address, x)
    >>> x
    array([0., 2., 4.])
    """
    entries: Any = arguments if isinstance(arguments, types.BaseTuple) else [None]
    if not all(t in _WORDS for t in entries):
        raise TypingError(
            f"`call_pointer` takes a tuple of 64-bit integers, got {arguments}. "
            "Pass arrays as `array.ctypes.data` and numbers inside an array."
        )

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        count = len(signature.args[1])
        function = ir.FunctionType(ir.VoidType(), [_WORD] * count)
        pointer = builder.inttoptr(values[0], function.as_pointer())
        builder.call(pointer, [builder.extract_value(values[1], i) for i in range(count)])
        return context.get_dummy_value()

    return types.void(types.int64, arguments), codegen


def machine_code(function: Any, arguments: tuple[Any, ...]) -> int:
    """Address of a jitted function's code for arguments of these numba types, compiled if need be.

    It is valid as long as the function lives.
    """
    function.compile(arguments)
    code = function.overloads[arguments]
    return int(code.library.get_pointer_to_function(code.fndesc.llvm_func_name))


def pointer_call(returns: Any, signatures: Callable[[], Sequence[tuple[Any, ...]]]) -> Any:
    """Make ``call(address, arguments)``, for use inside ``numba.njit`` only.

    A jitted function that calls another by name is compiled together with a copy of it. A function
    that has only the address is not, and the called function need not be compiled before it is
    used. Exceptions of the called function propagate as in any call.

    Parameters
    ----------
    returns : numba type
        Type of the return values: numbers, or tuples of numbers.
    signatures : callable
        Returns the types of the arguments of all functions whose addresses (see
        :func:`machine_code`) may come; others end in a ``TypingError`` when the caller is compiled.
    """

    @_intrinsic
    def call(typingctx: Any, address: Any, arguments: Any) -> Any:
        expected = tuple(arguments)
        if expected not in signatures():
            raise TypingError(f"No function with an address takes arguments of types {arguments}.")

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            convention = context.call_conv
            kind = convention.get_function_type(returns, expected)
            function = builder.inttoptr(values[0], kind.as_pointer())
            unpacked = cgutils.unpack_tuple(builder, values[1])
            status, out = convention.call_function(builder, function, returns, expected, unpacked)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return out

        return returns(types.int64, arguments), codegen

    return call
