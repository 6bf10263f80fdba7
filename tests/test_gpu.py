"""The PyTorch path gives the numbers of the CPU path; everything here runs without a GPU."""

import importlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix

torch = pytest.importorskip("torch", reason="mercer_gpu needs PyTorch: pip install mercer[gpu]")

torch.set_num_threads(1)

from mercer import KernelClassifier, KernelRegressor  # noqa: E402
from mercer.expansions import RandomFeatures  # noqa: E402
from mercer.features import FeatureOptions  # noqa: E402
from mercer.kernels import (  # noqa: E402
    Cauchy,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    RationalQuadratic,
    SkewedChiSquared,
)
from mercer.numerics import cosine as cpu_cosine  # noqa: E402
from mercer.numerics import philox as cpu_philox  # noqa: E402
from mercer.risks import Tracker, Variance  # noqa: E402
from mercer_gpu import (  # noqa: E402
    FeatureBlocks,
    _polynomials,
    _torch,
    blocks_of_model,
    evaluate,
    evaluate_model,
    fused_evaluate,
    philox,
    random_features,
)

# Test vectors of the authors of Philox, and of the layout that every path shares.
GOLDEN = json.loads((Path(__file__).parent / "golden" / "philox.json").read_text())
# Matern(0.8) has a chi-squared number by its inverse distribution, Matern(1.5) by squared normals.
KERNELS = [
    Gaussian(1.5),
    Laplacian(4.0),
    Cauchy(2.0),
    Matern(1.5, 2.0),
    Matern(0.8, 2.0),
    RationalQuadratic(0.7, 2.0),
]
both_layouts = pytest.mark.parametrize("paired", [True, False], ids=["paired", "phases"])


def rows(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def cpu_features(kernel, X, m, seed, block, paired, design):
    feature_map = kernel._feature_map(X.shape[1], FeatureOptions(paired, design), 0)
    Z = np.empty((len(X), m), X.dtype)
    numbers = feature_map.draw(seed, block, m, X.dtype)
    feature_map.transform(feature_map.prepare(X), numbers, Z)
    return Z


def cpu_sum(kernel, X, coefficients, m, seed=0, first_block=0, paired=True, design="iid"):
    alpha = coefficients.reshape(-1, m, *coefficients.shape[1:])
    return sum(
        cpu_features(kernel, X, m, seed, first_block + i, paired, design) @ alpha[i]
        for i in range(len(alpha))
    )


# --- The generator


@pytest.mark.parametrize("case", GOLDEN["known_answers"])
def test_philox_gives_the_known_answers(case):
    counter = tuple(torch.tensor([int(word, 16)]) for word in case["counter"])
    words = philox.philox(counter, tuple(int(word, 16) for word in case["key"]))
    assert [f"{int(word):08x}" for word in words] == case["words"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", GOLDEN["layout"])
def test_generator_gives_the_golden_vectors(case, dtype):
    seed, block, feature = case["seed"], case["block"], case["feature"]
    z = philox.normals(seed, block, 0, feature + 1, 6, dtype=dtype)
    b = philox.phases(seed, block, 1, feature + 1, dtype=dtype)
    assert z.dtype == b.dtype == dtype
    assert_allclose(z[:, feature], case["normals"], atol=3e-6, rtol=0)
    assert_allclose(b[feature], case["phase"], atol=1e-7, rtol=0)


@pytest.mark.parametrize("seed", [0, 2**63 + 12345])
def test_generator_agrees_with_the_cpu(seed):
    block, m, d = 2**32 - 1, 300, 30
    assert_array_equal(
        philox.words(seed, block, 2**31, m, d), cpu_philox.words(seed, block, 2**31, m, d)
    )
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        numpy_dtype = np.dtype(str(dtype).removeprefix("torch."))
        ours = philox.normals(seed, block, 0, m, d, dtype=dtype)
        theirs = cpu_philox.normals(seed, block, 0, m, d, dtype=numpy_dtype)
        assert_allclose(ours, theirs, atol=tolerance, rtol=0)
        ours = philox.uniforms(seed, block, 0, m, d, dtype=dtype)
        assert_array_equal(ours, cpu_philox.uniforms(seed, block, 0, m, d, dtype=numpy_dtype))


def test_prefixes_of_a_block_are_bit_identical():
    whole = philox.normals(5, 2, 0, 40, 11)
    for m, d in ((40, 6), (17, 11), (1, 1), (3, 5)):
        assert torch.equal(philox.normals(5, 2, 0, m, d), whole[:d, :m])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_extreme_words_give_uniform_numbers_inside_the_interval(monkeypatch, dtype):
    extremes = torch.tensor([[0, 2**32 - 1], [2**32 - 1, 0]])
    monkeypatch.setattr(philox, "words", lambda *args, **options: extremes)
    u = philox.uniforms(0, 0, 0, 2, 2, dtype=dtype)
    assert 0 < float(u[0, 0]) < float(u[0, 1]) < 1
    z = philox.normals(0, 0, 0, 2, 2, dtype=dtype)
    assert torch.isfinite(z).all()


def test_cosine_is_as_exact_as_its_polynomial_promises():
    v = np.linspace(-40, 40, 100_001)
    for dtype, tolerance in ((torch.float32, 4e-7), (torch.float64, 1e-14)):
        turns = torch.tensor(v, dtype=dtype)
        exact = np.cos(2 * np.pi * (turns.double().numpy() % 1))
        assert_allclose(philox.cosine_of_turns_(turns), exact, atol=tolerance, rtol=0)


def test_coefficients_are_those_of_the_cpu():
    ours = np.float32(_polynomials.COSINE32)
    assert_array_equal(ours, [getattr(cpu_cosine, f"_A{i}") for i in range(7)])
    ours = _polynomials.COSINE64
    assert_array_equal(ours, [getattr(cpu_cosine, f"_B{i}") for i in range(10)])
    assert _polynomials.ROUND32 == cpu_cosine._ROUND32


# --- Features by library products


# Every law by every design that it has; "auto" as models choose it; products of kernels, whose
# frequencies are sums. The CPU's tests show that these features have the kernel as mean.
FEATURES = [
    *[(kernel, 7, "iid") for kernel in KERNELS],
    *[(kernel, 5, "sobol") for kernel in KERNELS],
    *[(kernel, 20, d) for kernel in (KERNELS[0], *KERNELS[3:]) for d in ("orthogonal", "hadamard")],
    *[(Gaussian(20.0), d, "auto") for d in (1, 3, 54, 130)],
    (Gaussian(10.0), 54, "iid"),
    (Gaussian(2.0) * Matern(1.5, 3.0), 7, "orthogonal"),
    (Gaussian(2.0) * Laplacian(30.0), 7, "iid"),
]


@both_layouts
@pytest.mark.parametrize("m", [64, 33])
@pytest.mark.parametrize(("kernel", "d", "design"), FEATURES, ids=str)
def test_features_are_those_of_the_cpu(kernel, d, design, m, paired):
    X = rows(40, d)
    options = {"seed": 2**40 + 3, "block": 2, "paired": paired, "design": design}
    # Float32 phases are good to 1e-7 of their size, which is hundreds for heavy tails.
    for dtype, tolerance in ((np.float64, 1e-9), (np.float32, 1e-6 if d > 50 else 2e-5)):
        x = X.astype(dtype)
        ours = random_features(kernel, torch.tensor(x), m, **options)
        assert_allclose(ours, cpu_features(kernel, x, m, **options), atol=tolerance, rtol=0)


@both_layouts
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_evaluate_is_the_sum_over_blocks(dtype, paired, shape):
    # 20,000 rows are three tiles.
    X, m = rows(20_000, 2).astype(dtype), 16
    coefficients = np.random.default_rng(1).standard_normal((3 * m, *shape)).astype(dtype)
    options = {"seed": 4, "first_block": 5, "paired": paired}
    values = evaluate(Gaussian(1.0), torch.tensor(X), coefficients, m, **options)
    assert values.shape == (len(X), *shape)
    expected = cpu_sum(Gaussian(1.0), X, coefficients, m, **options)
    assert_allclose(values, expected, atol=1e-5 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize(
    ("d", "design"), [(4, "iid"), (3, "sobol"), (6, "orthogonal"), (16, "hadamard")]
)
def test_frequencies_are_kept_up_to_the_budget_and_change_nothing(d, design):
    X, alpha = rows(30, d), rows(5 * 20, 2, seed=1)
    expected = cpu_sum(Gaussian(2.0), X, alpha, 20, first_block=4, design=design)
    values = evaluate(Gaussian(2.0), X, alpha, 20, first_block=4, design=design)
    assert_allclose(values, expected, atol=1e-12)
    size = d * 10 * 8  # of one block: 10 frequencies, float64
    options = {"design": design, "dtype": torch.float64}
    for budget, kept in ((0, 0), (2 * size + 1, 2), (2**20, 5)):
        blocks = FeatureBlocks(Gaussian(2.0), d, 20, cache_bytes=budget, **options)
        for _ in range(2):
            assert torch.equal(blocks.evaluate(X, alpha, first_block=4), values)
            assert blocks.cached_bytes == kept * size
        blocks.clear()
        assert blocks.cached_bytes == 0


def test_arrays_and_tensors_and_their_dtypes_are_taken():
    X = rows(5, 3)
    kernel = Gaussian(1.0)
    assert random_features(kernel, X, 8).dtype == torch.float64
    assert random_features(kernel, torch.tensor(X).half(), 8).dtype == torch.float32
    assert random_features(kernel, torch.tensor([[1, 2], [3, 4]]), 8).dtype == torch.float64
    strided = torch.tensor(X, requires_grad=True).T[:, ::2]
    assert not random_features(kernel, strided, 8).requires_grad
    assert evaluate(kernel, X[:0], np.ones(8), 8).shape == (0,)


def test_lower_precision_of_the_process_is_not_used_and_comes_back():
    X = torch.tensor(rows(40, 30), dtype=torch.float32)
    expected = random_features(Gaussian(3.0), X, 64)
    setting = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(random_features(Gaussian(3.0), X, 64), expected)
        with _torch.float32_products("cpu"):
            assert torch.backends.cuda.matmul.fp32_precision == "ieee"
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        torch.backends.cuda.matmul.fp32_precision = setting


# --- Fitted models


def fitted(d, task="regression", kernel="gaussian", **options):
    X = rows(600, d)
    y = np.sin(X.sum(axis=1))
    expansion = RandomFeatures(64, min_steps=5, **options)
    if task == "regression":
        model = KernelRegressor(kernel=kernel, expansion=expansion, random_state=0)
        return model.fit(X[:500], np.column_stack([y, -y])[:500]), X[500:]
    model = KernelClassifier(kernel=kernel, expansion=expansion, random_state=0)
    return model.fit(X[:500], np.digitize(y, [-0.3, 0.3])[:500]), X[500:]


@pytest.mark.parametrize(
    ("d", "options"),
    [
        (2, {}),
        (20, {}),
        (130, {}),
        (20, {"task": "classification"}),
        (3, {"mode": "cyclic", "max_blocks": 3, "seed": 2**50}),
        (3, {"mode": "faithful", "paired": False, "kernel": Matern(1.5)}),
        (4, {"design": "iid", "kernel": Cauchy()}),
    ],
    ids=str,
)
@pytest.mark.parametrize("precision", ["single", "double"])
def test_fitted_models_have_the_values_of_the_cpu(d, options, precision):
    model, X = fitted(d, precision=precision, **options)
    expected = model.learner_.evaluate(X)
    values = evaluate_model(model, torch.tensor(X))
    assert values.shape == expected.shape
    assert values.dtype == {"single": torch.float32, "double": torch.float64}[precision]
    # The sums have as many terms as there are features, each rounded.
    size = np.abs(model.coefficients_).sum(axis=0).max() / np.sqrt(32)
    tolerance = {"single": 1e-6, "double": 1e-12}[precision] * (1.0 + size)
    assert_allclose(values, expected, atol=tolerance, rtol=0)
    blocks = blocks_of_model(model, device="cpu")
    assert torch.equal(blocks.evaluate(X, model.coefficients_), values)
    assert blocks.cached_bytes > 0


@pytest.mark.parametrize("columns", [2, 70])
def test_models_whose_inputs_are_scaled_map_them_on_the_device(columns):
    scales = np.r_[1e3, 0.0, np.ones(columns)]
    X = rows(300, columns + 2) * scales + 7.0
    y = np.sin(X[:, 0] / 1e3) + 100.0
    expansion = RandomFeatures(64, min_steps=5, precision="double")
    model = KernelRegressor(expansion=expansion, random_state=0).fit(X, y)
    values = evaluate_model(model, torch.tensor(X)).numpy()
    assert_allclose(values[:, 0], model.predict(X), atol=1e-9)
    blocks = blocks_of_model(model, device="cpu").evaluate(X, model.coefficients_).numpy()
    assert_allclose(blocks + model.intercept_, values, atol=1e-9)


def test_a_centre_is_added_to_scores_and_not_to_directions():
    X = rows(200, 2)
    model = KernelRegressor(
        risk=Variance(tracker=Tracker("nasa")),
        expansion=RandomFeatures(32, mode="faithful", precision="double"),
        random_state=0,
    ).fit(X, np.sin(X[:, 0]) + 100.0)
    values = evaluate_model(model, torch.tensor(X)).numpy()
    expected = model.learner_.evaluate(model.kernel_.map(X))
    assert expected.shape[1] > 1
    assert_allclose(values, expected + np.eye(expected.shape[1])[0] * model.intercept_, atol=1e-9)
    assert_allclose(values[:, 0], model.predict(X), atol=1e-9)


def test_values_of_a_model_are_those_of_its_own_methods_and_follow_its_learning():
    model, X = fitted(3, "classification")
    for _ in range(2):
        # Float32 sums of features, so float32 errors.
        assert_allclose(evaluate_model(model, X), model.decision_function(X), atol=1e-4)
        model.partial_fit(X[:40], np.arange(40) % 3)


def test_models_that_cannot_move_are_refused():
    model, X = fitted(3)
    skewed, _ = fitted(3, kernel=SkewedChiSquared(9.0), mode="faithful")
    for bad, words in (
        (KernelRegressor(), "Call `fit` first"),
        (KernelRegressor().fit(X, X[:, 0]), "must have random features alone"),
        (KernelRegressor().partial_fit(X[:20], X[:20, 0]), "must have random features alone"),
        (skewed, "only for Gaussian, Laplacian"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate_model(bad, torch.tensor(X))
    for rows_of, words in (
        (torch.tensor(X).to_sparse(), "must be dense, got torch.sparse_coo"),
        (csr_matrix(X), r"X\.toarray\(\)"),
        (torch.tensor(X[:, :2]), "must have 3 columns, got 2"),
        (torch.full((2, 3), torch.nan), "NaN or infinite"),
    ):
        with pytest.raises(ValueError, match=words):
            evaluate_model(model, rows_of)


# --- The fused kernel


FUSED_CASES = [
    (kernel, 70, 5, 34, 2, n_outputs, paired)
    for kernel in KERNELS
    for n_outputs, paired in ((1, True), (3, False))
] + [
    # More rows, inputs, features and outputs than one tile has; less than any.
    (Gaussian(9.0), 130, 18, 140, 2, 17, True),
    (Gaussian(9.0), 130, 18, 70, 2, 1, False),
    (Gaussian(1.0), 1, 1, 2, 1, 1, True),
    (Gaussian(1.0), 0, 2, 2, 1, 2, True),
]
FUSED_SEED, FUSED_FIRST = 2**63 + 2**31 + 7, 2**31 + 1

INTERPRET = """
import pickle, sys, warnings
warnings.simplefilter("error")
import torch
from mercer_gpu import fused_evaluate
torch.set_num_threads(1)
with open(sys.argv[1], "rb") as file:
    calls = pickle.load(file)
results = [
    fused_evaluate(kernel, torch.tensor(X), coefficients, **options).numpy()
    for kernel, X, coefficients, options in calls
]
with open(sys.argv[2], "wb") as file:
    pickle.dump(results, file)
"""


def fused_call(case):
    kernel, n, d, m, n_blocks, n_outputs, paired = case
    X = rows(n, d).astype(np.float32)
    coefficients = rows(n_blocks * m, n_outputs, seed=1).astype(np.float32)
    coefficients /= np.sqrt(coefficients.size)
    options = {"block_size": m, "seed": FUSED_SEED, "first_block": FUSED_FIRST, "paired": paired}
    return kernel, X, coefficients, options


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory):
    """Results of all cases, from a process in which Triton interprets instead of compiling."""
    pytest.importorskip("triton", reason="the fused path needs Triton")
    folder = tmp_path_factory.mktemp("fused")
    with (folder / "calls").open("wb") as file:
        pickle.dump([fused_call(case) for case in FUSED_CASES], file)
    subprocess.run(
        [sys.executable, "-c", INTERPRET, str(folder / "calls"), str(folder / "results")],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=True,
    )
    with (folder / "results").open("rb") as file:
        return pickle.load(file)


@pytest.mark.parametrize("index", range(len(FUSED_CASES)), ids=lambda i: str(FUSED_CASES[i]))
def test_fused_sums_are_those_of_the_cpu(interpreted, index):
    kernel, X, coefficients, options = fused_call(FUSED_CASES[index])
    expected = cpu_sum(kernel, X, coefficients, options.pop("block_size"), **options)
    assert interpreted[index].shape == expected.shape
    assert_allclose(interpreted[index], expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("law", "architecture"), [("NORMAL", 80), ("TANGENT", 90), ("LAPLACE", 90)]
)
def test_fused_kernel_compiles_for_devices_without_losing_digits(
    law, architecture, monkeypatch, tmp_path
):
    triton = pytest.importorskip("triton", reason="the fused path needs Triton")
    compiler = pytest.importorskip("triton.compiler")
    backends = pytest.importorskip("triton.backends.compiler")
    from mercer_gpu import _triton_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    names = _triton_kernels.fused_tiles.arg_names
    constants = {
        "law": getattr(_triton_kernels, law).value,
        "paired": True,
        "radial": True,
        "tile_rows": 32,
        "tile_features": 16,
        "tile_groups": 4,
        "tile_outputs": 16,
        # The launcher takes arguments of 1 for constants.
        "n_inputs": 1,
        "n_splits": 1,
    }
    signature = {name: "*fp32" if name.endswith("_ptr") else "i32" for name in names}
    signature |= dict.fromkeys(constants, "constexpr")
    source = compiler.ASTSource(
        _triton_kernels.fused_tiles,
        signature,
        {(names.index(name),): value for name, value in constants.items()},
    )
    target = backends.GPUTarget("cuda", architecture, 32)
    compiled = triton.compile(source, target, {"num_warps": 4, "enable_fp_fusion": True})
    assert "fma.rn.f32" in compiled.asm["ptx"]
    assert "tf32" not in compiled.asm["ptx"]
    assert "mma" not in compiled.asm["ptx"]


# --- What is refused


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kernel": Linear()}, "only for Gaussian, Laplacian"),
        ({"kernel": SkewedChiSquared(1.0)}, "only for Gaussian, Laplacian"),
        ({"kernel": Gaussian()}, "kernel.resolve"),
        ({"X": np.ones(3)}, "two-dimensional"),
        ({"X": np.ones((3, 2), complex)}, "must be real"),
        ({"seed": 2**64}, "`seed`"),
        ({"block_size": 0}, "`block_size`"),
        ({"coefficients": np.ones(9)}, "block after block"),
        ({"coefficients": np.ones((0, 2))}, "block after block"),
        ({"first_block": 2**32 - 1}, "block"),
    ],
)
@pytest.mark.parametrize("function", [evaluate, fused_evaluate])
def test_bad_arguments_are_refused(function, change, words, monkeypatch):
    if function is fused_evaluate:
        pytest.importorskip("triton", reason="the fused path needs Triton")
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    good = {
        "kernel": Gaussian(1.0),
        "X": np.ones((3, 2), np.float32),
        "coefficients": np.ones(8),
        "block_size": 4,
    }
    with pytest.raises(ValueError, match=words):
        function(**{**good, **change})


def test_blocks_refuse_other_dtypes_and_widths_and_designs():
    with pytest.raises(ValueError, match="without a preferred direction"):
        FeatureBlocks(Laplacian(1.0), 20, 4, design="orthogonal")
    with pytest.raises(ValueError, match="got torch\\.float16"):
        FeatureBlocks(Gaussian(1.0), 2, 4, dtype=torch.float16)
    with pytest.raises(ValueError, match="must have 2 columns, got 3"):
        FeatureBlocks(Gaussian(1.0), 2, 4).features(np.ones((1, 3)))


def test_fused_path_refuses_what_it_cannot_run(monkeypatch):
    pytest.importorskip("triton", reason="the fused path needs Triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    X = torch.ones(3, 2)
    with pytest.raises(ValueError, match="must be on a CUDA device"):
        fused_evaluate(Gaussian(1.0), X, np.ones(4), 4)
    with pytest.raises(ValueError, match="must be float32"):
        fused_evaluate(Gaussian(1.0), X.double(), np.ones(4), 4)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match="must be even"):
        fused_evaluate(Gaussian(1.0), X, np.ones(3), 3)
    with pytest.raises(ValueError, match="cannot draw the frequencies"):
        fused_evaluate(Gaussian(1.0) * Laplacian(1.0), X, np.ones(4), 4)


def test_import_needs_no_pytorch_and_its_absence_is_explained(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("mercer_gpu")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("torch", "triton"):
        # Python's mark of a module that cannot be imported.
        monkeypatch.setitem(sys.modules, name, None)
    importlib.import_module("mercer_gpu._triton_kernels")
    gpu = importlib.import_module("mercer_gpu")
    with pytest.raises(ImportError, match=r"pip install mercer\[gpu\]"):
        gpu.random_features(Gaussian(1.0), [[0.0]], 4)
    with pytest.raises(ImportError, match="pip install triton"):
        gpu._torch.require_triton()
