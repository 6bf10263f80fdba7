"""What users may rely on: public names, their places and the defaults of what they construct.

A name that is listed here is a promise; a change of this file is one that users notice, and stands
in the changelog. Names of other modules are none.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"

NAMES = {
    "mercer": [
        "DensityRatio",
        "GaussianProcessRegressor",
        "KernelClassifier",
        "KernelGradient",
        "KernelRanker",
        "KernelRegressor",
        "NoveltyDetector",
        "SharedModel",
        "ValueFunction",
        "compact",
        "load_model",
    ],
    "mercer.buffers": ["Buffer", "Everything", "FIFO", "PerClassFIFO", "Reservoir", "as_buffer"],
    "mercer.conformal": [
        "AdaptiveConformal",
        "ConformalIntervals",
        "ConformalSets",
        "conformal_quantile",
        "cross_conformal",
    ],
    "mercer.divergences": [
        "DIVERGENCES",
        "Divergence",
        "HellingerDistance",
        "JensenShannonDivergence",
        "KullbackLeibler",
        "Pearson",
        "RelativeNovelty",
        "ReverseKullbackLeibler",
        "as_divergence",
    ],
    "mercer.columns": [
        "ColumnAudit",
        "TableAudit",
        "TablePreprocessor",
        "TaskGuess",
        "guess_task",
        "infer_task",
    ],
    "mercer.evaluation": ["ProgressiveResult", "progressive"],
    "mercer_app.files": [
        "CsvDialect",
        "CsvPath",
        "Stream",
        "count_rows",
        "read_tables",
        "schema",
        "shuffled",
        "sniff_csv",
        "stream",
    ],
    "mercer.display": [
        "DecisionSurfaceDisplay",
        "DependenceDisplay",
        "ExplanationDisplay",
        "HistoryLike",
        "ImportanceDisplay",
        "LearningCurveDisplay",
        "LossDistributionDisplay",
        "ModelOrderDisplay",
        "MonitorDisplay",
        "RaceDisplay",
        "RankingDisplay",
        "RegressionCurveDisplay",
        "StreamDisplay",
        "Tail",
        "row_losses",
        "tail_of",
    ],
    "mercer.estimators": [
        "DensityRatio",
        "Dependence",
        "Explanation",
        "GaussianProcessRegressor",
        "KernelClassifier",
        "KernelGradient",
        "KernelRanker",
        "KernelRegressor",
        "NoveltyDetector",
        "Progress",
        "TwoSampleTest",
        "ValueFunction",
    ],
    "mercer_cluster": [
        "Plan",
        "Progress",
        "Region",
        "Settings",
        "ShardTraining",
        "Sums",
        "content_keys",
        "fit",
        "predict",
        "row_keys",
    ],
    "mercer_cluster.engines": [
        "DaskEngine",
        "Engine",
        "Handle",
        "HereEngine",
        "RayEngine",
        "engine_of",
        "open_engine",
    ],
    "mercer.exceptions": [
        "Advice",
        "ConditioningWarning",
        "DependentRowsWarning",
        "DivergenceError",
        "InPython",
        "InputScaleWarning",
        "LeakWarning",
        "NothingLearnedWarning",
        "ParameterError",
        "Setting",
        "ShardError",
        "TargetScaleWarning",
        "TrajectoryWarning",
        "WorkerError",
    ],
    "mercer_app.export": ["ExportError", "export_python"],
    "mercer.expansions": [
        "ALD",
        "Auto",
        "Budget",
        "Dictionary",
        "Expansion",
        "FixedBudget",
        "Full",
        "KOMP",
        "Quantized",
        "RandomFeatures",
        "RecursiveLeastSquares",
        "Stream",
        "Tracking",
        "as_expansion",
    ],
    "mercer.features": [
        "CoordinateLaw",
        "CosineMap",
        "DESIGNS",
        "FeatureMap",
        "FeatureOptions",
        "LaplaceLaw",
        "Law",
        "NormalGammaLaw",
        "NormalLaw",
        "RadialLaw",
        "SechLaw",
        "StudentLaw",
        "SumLaw",
        "TanLaw",
    ],
    "mercer.gaussian_process": [
        "Cyclic",
        "DescentPosterior",
        "DictionaryPosterior",
        "Faithful",
        "FeatureBlocks",
        "FeaturePosterior",
        "InducingPoints",
        "Method",
        "Operator",
        "as_method",
    ],
    "mercer.history": ["History"],
    "mercer.kernels": [
        "ArcCosine",
        "Bias",
        "Cauchy",
        "ChiSquared",
        "CompiledKernel",
        "Convolutional",
        "DistanceKernel",
        "DotProduct",
        "ExponentialSemigroup",
        "FunctionKernel",
        "FunctionPairKernel",
        "Gaussian",
        "Hellinger",
        "Intersection",
        "JensenShannon",
        "Kernel",
        "Laplacian",
        "Linear",
        "Mapped",
        "Matern",
        "PairKernel",
        "Partitioned",
        "Polynomial",
        "Product",
        "RationalQuadratic",
        "ReciprocalSemigroup",
        "Scaled",
        "SkewedChiSquared",
        "SkewedIntersection",
        "Sum",
        "as_kernel",
        "as_pair_kernel",
        "cosines",
    ],
    "mercer.losses": [
        "AbsoluteError",
        "CompiledLoss",
        "EpsilonInsensitive",
        "Hinge",
        "Huber",
        "LeastSquaresMargin",
        "Logistic",
        "Loss",
        "MarginLoss",
        "MulticlassHinge",
        "MulticlassLoss",
        "Poisson",
        "QNormHinge",
        "Quantile",
        "RegressionLoss",
        "Softmax",
        "Squared",
        "SquaredEpsilonInsensitive",
        "SquaredHinge",
        "as_loss",
        "loss_and_slopes",
    ],
    "mercer.maps": [
        "Affine",
        "Chain",
        "Cosines",
        "Curves",
        "FixedMap",
        "Indicators",
        "LearnableMap",
        "LearnedMap",
        "Leaves",
        "Logarithms",
        "MapStatistics",
        "NormalScores",
        "OneHot",
        "PrincipalComponents",
        "Standardize",
        "ard_metric",
        "full_metric",
    ],
    "mercer.metrics": ["auc_standard_error", "concordance", "ndcg"],
    "mercer.model_file": ["load_model", "read_state", "save_model", "storable", "write_state"],
    "mercer.objectives": [
        "Anchors",
        "Batch",
        "Bellman",
        "Compositional",
        "JoinedPairwise",
        "LocalChanges",
        "Novelty",
        "Objective",
        "Pairwise",
        "Pointwise",
        "TwoSample",
        "make_objective",
    ],
    "mercer.recipes": [
        "bsgd",
        "colk",
        "dsg",
        "norma",
        "polk",
        "unregularized",
        "unregularized_pairs",
    ],
    "mercer_app.report": [
        "Section",
        "class_figures",
        "columns_section",
        "figures_for",
        "quantity_figures",
        "race_section",
        "report_model",
        "risk_section",
        "stream_section",
        "write_report",
    ],
    "mercer.risks": [
        "CVaR",
        "CentralMoments",
        "DeviationRisk",
        "Entropic",
        "Inner",
        "Mean",
        "Mixture",
        "Outer",
        "RISKS",
        "Risk",
        "Semivariance",
        "Tracker",
        "UpperSemideviation",
        "Variance",
        "as_risk",
        "as_tracker",
    ],
    "mercer.river": ["AnomalyDetector", "Classifier", "Regressor"],
    "mercer.schedules": [
        "Constant",
        "InverseTime",
        "PowerDecay",
        "Relative",
        "Schedule",
        "as_schedule",
    ],
    "mercer.shared": ["SharedModel"],
    "mercer.theory": [
        "Ball",
        "Box",
        "COLKBounds",
        "COLKSettings",
        "DSGBounds",
        "PathLimits",
        "Rate",
        "StepConditions",
        "check_steps",
        "colk_model_order",
        "packing_number",
        "pairwise_distance",
        "pairwise_norm",
        "pairwise_rate",
        "polk_bias",
        "polk_model_order",
        "polk_norm",
        "polk_radius",
        "polk_step_size",
        "unregularized_limits",
        "unregularized_rate",
    ],
    "mercer_app.training": [
        "FileTraining",
        "TrainingProgress",
        "TransitionColumns",
        "checkpoint_path",
        "shuffled_groups",
    ],
}

# What the documents import from elsewhere, to extend the library.
FOR_EXTENDING = {
    "mercer.estimators.start": ["make_learner"],
    "mercer.functions": ["FittedPart", "start"],
    "mercer.learning": ["automatic_step"],
    "mercer.numerics.compression": ["INVERSE", "Compressor"],
}

# Without annotations; what is indented goes on a line.
SIGNATURES = """
mercer.divergences.KullbackLeibler(learns='log_ratio', floor=0.1)
mercer.divergences.RelativeNovelty(rho=0.0)
mercer.divergences.as_divergence(value)
mercer.estimators.DensityRatio(*, f_divergence='kl', kernel='gaussian', expansion='auto',
    step_size='auto', regularization=0.01, batch_size=32, n_passes=1, shuffle=True,
    average='suffix', validation_fraction=0.1, n_jobs=None, random_state=None, verbose=0)
mercer.estimators.DensityRatio.fit(self, X_p, X_q, callback=None, *, sample_weight=None)
mercer.estimators.DensityRatio.partial_fit(self, X_p, X_q)
mercer.estimators.GaussianProcessRegressor(kernel='gaussian', *, noise=0.1, n_features=2048,
    method='features', design='auto', normalize_y=False, batch_size=1024, n_jobs=None,
    random_state=None)
mercer.estimators.GaussianProcessRegressor.fit(self, X, y, sample_weight=None)
mercer.estimators.GaussianProcessRegressor.partial_fit(self, X, y, sample_weight=None)
mercer.estimators.GaussianProcessRegressor.predict(self, X, return_std=False, return_cov=False, *,
    include_noise=False)
mercer.estimators.GaussianProcessRegressor.predict_interval(self, X, coverage=0.9)
mercer.estimators.GaussianProcessRegressor.score(self, X, y, sample_weight=None)
mercer.estimators.KernelClassifier(loss='auto', *, risk=None, kernel='auto', expansion='auto',
    step_size='auto', regularization='auto', batch_size=32, n_passes=1, shuffle=True,
    class_weight=None, average='suffix', categorical_features='from_dtype', n_jobs=None,
    random_state=None, verbose=0)
mercer.estimators.KernelClassifier.fit(self, X, y, sample_weight=None, callback=None, *,
    groups=None, time=None)
mercer.estimators.KernelClassifier.partial_fit(self, X, y, classes=None, sample_weight=None)
mercer.estimators.KernelClassifier.learn_one(self, x, y, sample_weight=1.0)
mercer.estimators.KernelClassifier.predict(self, X)
mercer.estimators.KernelClassifier.score(self, X, y, sample_weight=None)
mercer.estimators.KernelGradient(loss='squared', *, width='auto', kernel='gaussian',
    expansion='auto', step_size='auto', regularization=0.001, batch_size=64, n_passes=10,
    shuffle=True, average='suffix', n_jobs=None, random_state=None, verbose=0)
mercer.estimators.KernelGradient.fit(self, X, y, sample_weight=None, callback=None)
mercer.estimators.KernelGradient.partial_fit(self, X, y, sample_weight=None)
mercer.estimators.KernelGradient.predict(self, X)
mercer.estimators.KernelRanker(loss='logistic', *, pair_kernel='difference', pair_label='sign',
    buffer='auto', normalize='auto', kernel='gaussian', expansion='auto', step_size='auto',
    regularization=0.0, batch_size='auto', n_passes=1, shuffle=True, average=None, n_jobs=None,
    random_state=None, verbose=0)
mercer.estimators.KernelRanker.fit(self, X, y, sample_weight=None, callback=None, *, group=None)
mercer.estimators.KernelRanker.partial_fit(self, X, y, classes=None, sample_weight=None, *,
    group=None)
mercer.estimators.KernelRanker.learn_one(self, x, y, sample_weight=1.0, *, group=None)
mercer.estimators.KernelRanker.predict(self, X)
mercer.estimators.KernelRanker.score(self, X, y, sample_weight=None, *, group=None)
mercer.estimators.KernelRegressor(loss='squared', *, risk=None, kernel='auto', expansion='auto',
    step_size='auto', regularization='auto', batch_size=32, n_passes=1, shuffle=True,
    average='suffix', normalize_y=False, categorical_features='from_dtype', n_jobs=None,
    random_state=None, verbose=0)
mercer.estimators.KernelRegressor.fit(self, X, y, sample_weight=None, callback=None, *,
    groups=None, time=None)
mercer.estimators.KernelRegressor.partial_fit(self, X, y, sample_weight=None)
mercer.estimators.KernelRegressor.learn_one(self, x, y, sample_weight=1.0)
mercer.estimators.KernelRegressor.predict(self, X)
mercer.estimators.KernelRegressor.predict_interval(self, X, coverage=0.9, *, method='auto')
mercer.estimators.KernelRegressor.scores(self, X)
mercer.estimators.KernelRegressor.score(self, X, y, sample_weight=None)
mercer.estimators.NoveltyDetector(nu=0.1, *, kernel='gaussian', expansion='auto', step_size='auto',
    threshold_unit='auto', batch_size=32, n_passes=1, shuffle=True, average='suffix', n_jobs=None,
    random_state=None, verbose=0)
mercer.estimators.NoveltyDetector.fit(self, X, y=None, sample_weight=None, callback=None)
mercer.estimators.NoveltyDetector.partial_fit(self, X, y=None, sample_weight=None)
mercer.estimators.NoveltyDetector.learn_one(self, x, sample_weight=1.0)
mercer.estimators.NoveltyDetector.predict(self, X)
mercer.estimators.Progress(n_samples, n_total, loss, model_order, seconds, rows_per_second)
mercer.estimators.TwoSampleTest(statistic, p_value, null_statistics)
mercer.estimators.ValueFunction(discount, method='td', *, kernel='gaussian', expansion='auto',
    step_size='auto', auxiliary_step='auto', regularization=1e-06, batch_size=32, n_passes='auto',
    shuffle=True, average='suffix', normalize_rewards=False, n_jobs=None, random_state=None,
    verbose=0)
mercer.estimators.ValueFunction.fit(self, states, rewards, next_states, terminals=None,
    sample_weight=None, *, second=None, callback=None)
mercer.estimators.ValueFunction.partial_fit(self, states, rewards, next_states, terminals=None,
    sample_weight=None, *, second=None)
mercer.estimators.ValueFunction.predict(self, states)
mercer.estimators.ValueFunction.score(self, states, returns, sample_weight=None)
mercer.expansions.KOMP(tolerance=None, parsimony=None, max_size=None, power=1.5)
mercer.expansions.Auto(budget_seconds=None, max_memory=1073741824, forgetting=1.0, refresh=0.1,
    expected_rows=None, resumable=False, block_length='auto', seed=0)
mercer.expansions.ALD(tolerance=0.001, max_size=1000, noise=0.0, forgetting=1.0)
mercer.expansions.Budget(size=1000, strategy='merge')
mercer.expansions.Dictionary(size=1000, centers='kmeans', ridge='auto', first_rows='auto',
    forgetting=1.0, refresh=0.05, precision='double', seed=0)
mercer.expansions.FixedBudget(size=100, noise=0.01, removal='error', label_step=0.0)
mercer.expansions.Full(max_size=None)
mercer.expansions.Quantized(radius, max_size=None)
mercer.expansions.RandomFeatures(block_size=256, mode='newton', growth='auto', max_blocks=None,
    ridge='auto', design='auto', paired=True, precision='single', cache_bytes=268435456,
    min_steps=100, seed=0)
mercer.expansions.Tracking(size=100, noise=0.01, forgetting=0.999, toward='prior',
    tolerance=1e-06)
mercer.expansions.as_expansion(value)
mercer.kernels.ArcCosine(order=1)
mercer.kernels.Bias(value=1.0)
mercer.kernels.Cauchy(length_scale='median')
mercer.kernels.ChiSquared()
mercer.kernels.Convolutional(kernel, image_shape, patch_size=3, *, stride=1, grid=1)
mercer.kernels.DotProduct(coefficients='exponential', scale=None, base=2.0)
mercer.kernels.ExponentialSemigroup(beta=1.0)
mercer.kernels.FunctionKernel(function, *, pairwise=None, bound=None)
mercer.kernels.FunctionPairKernel(function, *, symmetry=0, bound=None)
mercer.kernels.Gaussian(length_scale='median')
mercer.kernels.Hellinger()
mercer.kernels.Intersection()
mercer.kernels.JensenShannon()
mercer.kernels.Laplacian(length_scale='median')
mercer.kernels.Linear()
mercer.kernels.Mapped(kernel, map)
mercer.kernels.Matern(nu=1.5, length_scale='median')
mercer.kernels.PairKernel(pattern='difference', bias=0.0)
mercer.kernels.Partitioned(kernel='gaussian', anchors=32, multiple=0.5, constant=1.0,
    length_scales=None, split_cells=None, split_anchors=None, seed=0)
mercer.kernels.Polynomial(degree=3, offset=1.0, scale=None)
mercer.kernels.Product(left, right)
mercer.kernels.RationalQuadratic(alpha=1.0, length_scale='median')
mercer.kernels.ReciprocalSemigroup(rate=1.0)
mercer.kernels.Scaled(kernel, factor)
mercer.kernels.SkewedChiSquared(c=1.0)
mercer.kernels.SkewedIntersection(c=1.0)
mercer.kernels.Sum(left, right)
mercer.kernels.as_kernel(value)
mercer.kernels.as_pair_kernel(value)
mercer.kernels.cosines(kernel, n_inputs, n_features, seed=0, *, design='auto')
mercer.losses.AbsoluteError()
mercer.losses.EpsilonInsensitive(epsilon=0.1)
mercer.losses.Hinge()
mercer.losses.Huber(delta=1.0)
mercer.losses.LeastSquaresMargin()
mercer.losses.Logistic()
mercer.losses.MulticlassHinge()
mercer.losses.Poisson()
mercer.losses.QNormHinge(q=1.5)
mercer.losses.Quantile(levels=0.5)
mercer.losses.Softmax()
mercer.losses.Squared()
mercer.losses.SquaredEpsilonInsensitive(epsilon=0.1)
mercer.losses.SquaredHinge()
mercer.losses.as_loss(value, task=None)
mercer.risks.CVaR(level=0.9, *, smoothing=0.1, quantile_step=0.01, clip=None, units='running')
mercer.risks.CentralMoments(order=4, *, weight=0.1, positive=False, smoothing=0.1,
    max_deviation=2.0, clamp=True, clip=None, units='running', tracker='momentum')
mercer.risks.Entropic(temperature=1.0, *, quantile_step=0.01, max_weight=20.0, clip=None,
    units='running')
mercer.risks.Mean(*, units='running')
mercer.risks.Mixture(risks, weights=None, *, clip=None, units='running')
mercer.risks.Semivariance(weight=0.5, *, smoothing=0.1, max_deviation=10.0, clamp=True, clip=None,
    units='running', tracker='momentum')
mercer.risks.Tracker(rule='momentum', *, rate=0.1, pairs='tracked', direction_rate=0.1)
mercer.risks.UpperSemideviation(weight=1.0, *, smoothing=0.1, clip=None, units='running',
    tracker='momentum')
mercer.risks.Variance(weight=0.5, *, max_deviation=10.0, clamp=True, clip=None, units='running',
    tracker='momentum')
mercer.risks.as_risk(value)
mercer.risks.as_tracker(value)
mercer.buffers.FIFO(size=50)
mercer.buffers.Everything()
mercer.buffers.PerClassFIFO(size=10)
mercer.buffers.Reservoir(size=50, per_class=False)
mercer.buffers.as_buffer(value)
mercer.schedules.Constant(value)
mercer.schedules.InverseTime(scale, offset)
mercer.schedules.PowerDecay(scale, power=0.5)
mercer.schedules.Relative(schedule, unit=None)
mercer.schedules.as_schedule(value)
mercer.maps.Affine(shift, matrix, offset=None)
mercer.maps.Chain(first, last)
mercer.maps.Cosines(frequencies)
mercer.maps.Cosines.refined(self, X, y, *, ridge=0.0001, n_passes=30, batch_size=128,
    step_size=0.03, seed=0)
mercer.maps.Curves(knots, values, sizes, beyond='constant')
mercer.maps.Indicators(levels, sizes, height=1.0)
mercer.maps.Logarithms(skewness=1.5, max_knots=1000)
mercer.maps.NormalScores(max_knots=1000)
mercer.maps.OneHot(max_levels=20)
mercer.maps.PrincipalComponents(n_components=50, whiten=False)
mercer.maps.Standardize()
mercer.maps.ard_metric(gradient_products, *, floor=0.01, drop=True)
mercer.maps.full_metric(gradient_products, n_outputs=None, *, floor=0.01, drop=True)
mercer.gaussian_process.Cyclic(max_blocks=16, block_size=512, n_sweeps=4, variance='columns')
mercer.gaussian_process.Faithful(n_steps=500, block_size=512, batch_size=64, step_size='auto',
    variance='columns')
mercer.gaussian_process.InducingPoints(size=1000, centers='kmeans', first_rows='auto')
mercer.gaussian_process.Operator(n_steps=128, block_size=32, batch_size=64, step_size='auto')
mercer.recipes.unregularized(loss='logistic', *, step_size='theory', class_weight=None,
    expansion='full', kernel='gaussian', average=None, n_passes=1, shuffle=False,
    random_state=None, verbose=0)
mercer.columns.TablePreprocessor(categories=128, *, min_count=None, warmup_rows=50000,
    scaling='auto', exclude=(), dtype='float64', kinds=None, include=(), suspects='drop',
    null_values=None, codes='auto')
mercer_app.files.stream(source, y=None, *, target=None, batch_size=32, columns=None,
    shuffle_buffer=0, random_state=None, dtype='float64')
mercer.evaluation.progressive(model, stream, *, metric='auto', every=1000, classes=None,
    max_windows=1000)
mercer_app.export.export_python(model, path)
mercer_app.rows.TableRows(estimator, preprocessor, target=None, group=None, time=None)
mercer_app.rows.TableRows.of(model, target=None)
mercer_app.rows.TableRows.of_tables(model)
mercer_app.rows.TableRows.partial_fit(self, table)
mercer_app.training.FileTraining(data, target=None, *, task='auto', group=None, time=None,
    loss=None, options=None, n_passes=1, exclude=(), scaling='auto', seed=0, shuffle_buffer=65536,
    warmup_rows=50000, categories=128, columns=None, n_jobs=None, strict=False, null_values=None)
mercer.river.AnomalyDetector(nu=0.1, *, kernel='auto', expansion='auto', step_size='auto',
    average='suffix', n_jobs=None, seed=None)
mercer.river.Classifier(loss='auto', *, risk=None, kernel='auto', expansion='auto',
    step_size='auto', regularization='auto', batch_size=32, class_weight=None, average='suffix',
    n_jobs=None, seed=None)
mercer.river.Regressor(loss='squared', *, risk=None, kernel='auto', expansion='auto',
    step_size='auto', regularization='auto', batch_size=32, average='suffix', n_jobs=None,
    seed=None)
"""


@pytest.mark.parametrize("module", NAMES)
def test_public_names_are_the_promised_ones(module):
    assert sorted(importlib.import_module(module).__all__) == NAMES[module]


def test_only_faces_list_their_names():
    """Others are for who imports from them by name."""
    faces = {*NAMES, "mercer.inspection", "mercer.warm_up"}
    inner = [
        path
        for path in SOURCE.rglob("*.py")
        if path.name != "__init__.py"
        and re.search("^__all__", path.read_text(), re.MULTILINE)
        and ".".join(path.relative_to(SOURCE).with_suffix("").parts) not in faces
    ]
    assert not inner


@pytest.mark.parametrize("module", FOR_EXTENDING)
def test_names_for_extending_are_where_the_documents_say(module):
    for name in FOR_EXTENDING[module]:
        assert hasattr(importlib.import_module(module), name)


def test_every_public_name_is_there():
    for module, names in NAMES.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name)


def without_annotations(function):
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


@pytest.mark.parametrize("promised", SIGNATURES.replace("\n    ", " ").split("\n")[1:-1])
def test_parameters_and_defaults_are_the_promised_ones(promised):
    path, *_ = promised.partition("(")
    package, *names = path.split(".")
    found = importlib.import_module(package)
    for number, name in enumerate(names):
        if not hasattr(found, name):
            importlib.import_module(".".join([package, *names[: number + 1]]))
        found = getattr(found, name)
    assert path + without_annotations(found) == promised


def methods_without_a_word(kind):
    """Name public methods and properties that say nothing, nor what they override.

    A function that a base class declares as an attribute, as `Loss.row`, is described there.
    """
    return [
        f"{kind.__module__}.{kind.__name__}.{name}"
        for name, value in vars(kind).items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property | classmethod | staticmethod))
        and not any(
            getattr(vars(one).get(name), "__doc__", None)
            or (one is not kind and "Callable" in str(inspect.get_annotations(one).get(name)))
            for one in kind.__mro__
        )
    ]


def test_every_public_method_has_a_docstring_or_overrides_one_that_has():
    found = []
    for package in ("mercer", "mercer_app", "mercer_cluster", "mercer_gpu", "mercer_reproduction"):
        for module in pkgutil.walk_packages([str(SOURCE / package)], f"{package}."):
            if "._" in module.name:
                continue
            for kind in vars(importlib.import_module(module.name)).values():
                public = isinstance(kind, type) and not kind.__name__.startswith("_")
                if public and kind.__module__ == module.name:
                    found += methods_without_a_word(kind)
    assert not found


def test_a_method_without_a_docstring_is_found():
    class Base:
        row: Callable[..., None]
        silent: object

        def told(self):
            """Say so."""

    class Kind(Base):
        def told(self): ...

        def row(self): ...

        def silent(self): ...

    assert [name.rpartition(".")[2] for name in methods_without_a_word(Kind)] == ["silent"]
