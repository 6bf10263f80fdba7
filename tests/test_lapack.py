"""Routines of LAPACK by their addresses: the bits of SciPy's wrappers, without the lock."""

import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import get_blas_funcs
from scipy.linalg import lapack as wrappers

from mercer.numerics import dense
from mercer.threads import jobs

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZES = pytest.mark.parametrize("n", [1, 2, 7, 60, 301])


def rows_of(n, dtype):
    return np.random.default_rng(n).normal(size=(2 * n, n)).astype(dtype)


def gram_of(n, dtype):
    Z = rows_of(n, dtype)
    return np.asfortranarray(Z.T @ Z)


def wrapper(name, dtype):
    return getattr(wrappers, ("s" if dtype == np.float32 else "d") + name)


@PRECISIONS
@SIZES
@pytest.mark.parametrize("clean", [True, False])
def test_factors_are_those_of_scipy(n, dtype, clean):
    matrix = gram_of(n, dtype)
    expected, failed = wrapper("potrf", dtype)(matrix, lower=1, clean=int(clean))
    assert failed == 0
    matrix = np.asfortranarray(np.tril(matrix)) if clean else matrix
    assert dense.cholesky(matrix)
    assert_array_equal(matrix, expected)  # what is above it stays as it is
    assert clean == (not np.triu(matrix, 1).any()) or n == 1


@PRECISIONS
def test_what_is_not_positive_definite_has_no_factor(dtype):
    assert not dense.cholesky(np.asfortranarray([[1.0, 2.0], [2.0, 1.0]], dtype))


@PRECISIONS
@SIZES
def test_solutions_are_those_of_scipy(n, dtype):
    lower = gram_of(n, dtype)
    dense.cholesky(lower)
    right = rows_of(n, dtype).T[:, :3]
    for each in (right, right[:, 0], right[:, :1], np.asfortranarray(right)):
        before = each.copy()
        expected = wrapper("potrs", dtype)(lower, each, 1)[0]
        if each.size == n:  # one column is solved for as a vector
            expected = each.ravel()
            trsv = get_blas_funcs("trsv", dtype=dtype)
            for trans in (0, 1):
                expected = trsv(lower, expected, lower=1, trans=trans)
            expected = expected.reshape(each.shape)
        assert_array_equal(dense.solve(lower, each), expected)
        for transposed in (False, True):
            expected = wrapper("trtrs", dtype)(lower, each, lower=1, trans=int(transposed))[0]
            found = dense.solve_triangle(lower, each, transposed=transposed)
            assert found.dtype == dtype
            assert_array_equal(found, expected)
        assert_array_equal(each, before)


@PRECISIONS
@SIZES
def test_inverses_of_triangles_are_those_of_scipy(n, dtype):
    lower = gram_of(n, dtype)
    dense.cholesky(lower)
    expected = wrapper("trtri", dtype)(lower, lower=1)[0]
    dense.invert(lower)
    assert_array_equal(lower, expected)


@PRECISIONS
@SIZES
def test_packed_matrices_are_those_of_scipy(n, dtype):
    Z, matrix = rows_of(n, dtype), gram_of(n, dtype)
    packed = dense.pack(matrix)
    assert_array_equal(packed, wrapper("trttf", dtype)(matrix, uplo="L")[0])
    assert_array_equal(packed, dense.pack(np.ascontiguousarray(matrix)))
    assert_array_equal(dense.unpack(packed, n), np.tril(matrix))
    sums = wrapper("sfrk", dtype)
    expected = sums(n, 2 * n, 1.0, Z.T, 1.0, packed, uplo="L")
    afresh = sums(n, 2 * n, 1.0, Z.T, 0.0, np.zeros_like(packed), uplo="L")
    dense.add_products(Z, packed)
    assert_array_equal(packed, expected)
    packed[:] = np.nan
    dense.add_products(Z, packed, keep=False)
    assert_array_equal(packed, afresh)


def test_matrices_without_rows_or_columns_are_nothing_to_do():
    empty = np.empty((0, 0), order="F")
    assert dense.cholesky(empty)
    assert dense.solve(empty, np.empty((0, 2))).shape == (0, 2)
    assert dense.solve_triangle(np.eye(3, order="F"), np.empty((3, 0))).shape == (3, 0)
    assert dense.unpack(dense.pack(empty), 0).shape == (0, 0)
    packed = np.array([1.0, 2.0, 3.0])
    dense.add_products(np.empty((0, 2)), packed)
    assert_array_equal(packed, [1.0, 2.0, 3.0])


def test_matrices_that_lie_otherwise_in_memory_are_read_right_and_not_written_to():
    matrix = np.asfortranarray(np.tril(gram_of(6, np.float64)))
    dense.cholesky(matrix)
    right = rows_of(6, np.float64)[:6]
    aside = np.zeros((12, 12))
    aside[::2, ::2] = matrix
    assert_array_equal(dense.solve(aside[::2, ::2], right), dense.solve(matrix, right))
    twice = dense.solve_triangle(aside[::2, ::2], right), dense.solve_triangle(matrix, right)
    assert_array_equal(*twice)
    packed = dense.pack(matrix)
    assert_array_equal(dense.unpack(np.repeat(packed, 2)[::2], 6), matrix)
    again = packed.copy()
    dense.add_products(right, packed)
    dense.add_products(np.asfortranarray(right), again)
    assert_array_equal(packed, again)
    fixed = matrix.copy(order="F")
    fixed.flags.writeable = False
    for wrong in (aside[::2, ::2], fixed):
        for change in (dense.cholesky, dense.invert):
            with pytest.raises(ValueError, match="in place"):
                change(wrong)
    with pytest.raises(ValueError, match="in place"):
        dense.add_products(right, np.repeat(packed, 2)[::2])


@PRECISIONS
@pytest.mark.parametrize("n", [1030, 1300])
def test_large_matrices_are_made_in_tiles_whatever_the_jobs(n, dtype):
    Z, matrix = rows_of(n, dtype), gram_of(n, dtype)
    whole = matrix.copy(order="F")
    matrix += np.triu(np.full_like(matrix, np.nan), 1)  # which is not read
    factors, sums = set(), set()
    for n_jobs in (1, 2, 3, 7):
        lower, packed = matrix.copy(order="F"), dense.pack(matrix)
        with jobs(n_jobs):
            assert dense.cholesky(lower)
            dense.add_products(Z, packed)
        factors.add(np.tril(lower).tobytes())
        sums.add(packed.tobytes())
    assert len(factors) == len(sums) == 1
    eps = n * np.finfo(dtype).eps * np.linalg.norm(whole)
    lower = np.tril(lower)
    assert_allclose(lower @ lower.T, whole, rtol=0.0, atol=eps)
    doubled = np.tril(2.0 * whole)
    assert_allclose(dense.unpack(packed, n), doubled, rtol=0.0, atol=eps)
    matrix[-1, -1] = -1.0
    assert not dense.cholesky(matrix)


@PRECISIONS
@pytest.mark.parametrize("n_columns", [1, 3])
def test_few_columns_are_solved_for_in_blocks_whatever_the_jobs(n_columns, dtype, monkeypatch):
    monkeypatch.setattr(dense, "_MANY_ROWS", 1000)
    n = 1100  # more than two blocks
    matrix = gram_of(n, dtype)
    matrix.ravel("K")[:: n + 1] += n
    lower, right = matrix.copy(order="F"), rows_of(n, dtype)[:n, :n_columns]
    assert dense.cholesky(lower)
    lower += np.triu(np.full_like(lower, np.nan), 1)  # which is not read
    found = []
    for n_jobs in (1, 2, 3, 7):
        with jobs(n_jobs):
            found.append(dense.solve(lower, right))
            one = dense.solve(lower, right[:, 0])
    assert len({solution.tobytes() for solution in found}) == 1
    assert one.shape == (n,)
    expected = wrapper("potrs", dtype)(lower, right, 1)[0]
    size = 100 * np.finfo(dtype).eps * np.abs(expected).max()
    assert_allclose(found[0], expected, rtol=0.0, atol=size)
    assert_allclose(one, expected[:, 0], rtol=0.0, atol=size)


def test_other_precisions_are_refused():
    with pytest.raises(TypeError, match="float16"):
        dense.pack(np.eye(2, dtype=np.float16))


def test_other_threads_go_on():
    matrix = gram_of(1500, np.float64)
    span = []

    def factor():
        span.append(time.perf_counter())
        dense.cholesky(matrix)
        span.append(time.perf_counter())

    thread = threading.Thread(target=factor)
    thread.start()
    moments = []
    while thread.is_alive():
        moments.append(time.perf_counter())
    thread.join()
    # With the interpreter's lock held there would be none.
    assert sum(span[0] < moment < span[1] for moment in moments) > 100
