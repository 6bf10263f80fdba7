"""What estimators say of inputs that do not suit them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from mercer import KernelClassifier, KernelRegressor
from mercer.exceptions import InputScaleWarning
from mercer.expansions import KOMP, RandomFeatures
from mercer.kernels import Gaussian, Mapped
from mercer.maps import Standardize

N = 200
X = np.random.default_rng(0).standard_normal((N, 3))
Y = X[:, 0] - X[:, 1]
RAW = X * [1.0, 1e4, 10.0]


@pytest.mark.parametrize(
    "model",
    [
        KernelRegressor(risk="cvar:0.9", kernel="gaussian"),
        KernelRegressor(expansion=KOMP(max_size=20), kernel="matern"),
        KernelClassifier(expansion=RandomFeatures(64), kernel="laplacian"),
    ],
)
def test_a_column_that_decides_alone_is_named(model):
    y = Y > 0 if isinstance(model, KernelClassifier) else Y
    with pytest.warns(InputScaleWarning, match=r"Column 1 .* of 9.98e\+03, the others of 9.75"):
        model.fit(RAW, y)
    fresh = clone(model)
    with pytest.warns(InputScaleWarning):
        fresh.partial_fit(RAW, y, **({"classes": [False, True]} if y.dtype == bool else {}))


def test_a_column_of_a_table_that_decides_alone_is_named():
    table = pd.DataFrame(RAW, columns=["a", "b", *"cdefghij"[: RAW.shape[1] - 2]])
    table.insert(0, "town", ["Bern", "Bonn"] * (len(table) // 2) + ["Bern"] * (len(table) % 2))
    with pytest.warns(InputScaleWarning, match=r"The column 'b' has .* or leave `kernel` out"):
        KernelRegressor(kernel="gaussian").fit(table, Y)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (KernelRegressor(), RAW),  # the race scales columns
        (KernelRegressor(risk="cvar:0.9"), RAW),
        (KernelRegressor(expansion="komp"), RAW),
        (KernelRegressor(risk="cvar:0.9", kernel="gaussian"), X * [1.0, 20.0, 1.0]),
        (KernelRegressor(risk="cvar:0.9", kernel="gaussian"), RAW[:, 1:2]),
        (KernelRegressor(risk="cvar:0.9", kernel="gaussian"), RAW * [0.0, 1.0, 0.0]),
        (KernelRegressor(risk="cvar:0.9"), sparse.csr_array(RAW)),
        (KernelRegressor(risk="cvar:0.9", kernel=Gaussian(1e4)), RAW),
        (KernelRegressor(risk="cvar:0.9", kernel=Mapped(Gaussian("median"), Standardize())), RAW),
    ],
)
def test_no_word_where_columns_are_scaled_alike_or_by_choice(model, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputScaleWarning)
        model.fit(inputs, Y)
