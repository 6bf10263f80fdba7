"""Fitted Gaussian processes as nested dicts of plain data, and back."""

from __future__ import annotations

from typing import Any, Self

from mercer._component import from_config, to_config
from mercer._validation import check_choice, check_integer, check_real
from mercer.estimators._state import Stored
from mercer.features import DESIGNS, FeatureOptions
from mercer.gaussian_process import (
    DescentPosterior,
    DictionaryPosterior,
    FeatureBlocks,
    FeaturePosterior,
    InducingPoints,
    as_method,
)
from mercer.planning import AutomaticStep

__all__ = ["StoredGaussianProcess"]


class StoredGaussianProcess(Stored):
    """``to_state`` and ``from_state`` of the Gaussian-process regressor."""

    def to_state(self: Any) -> dict[str, Any]:
        """Everything that prediction and further learning need, as plain data.

        Returns
        -------
        state : dict
            Nested; holds arrays, numbers, text, lists and None.

        Raises
        ------
        ValueError
            If the model is not fitted, or a part cannot be stored without code.
        """
        if "posterior_" not in self.__dict__:
            raise ValueError(f"This {type(self).__name__} is not fitted yet: call `fit` first.")
        posterior: FeaturePosterior | DictionaryPosterior | DescentPosterior = self.posterior_
        # Of the posterior itself: parameters may have been set anew since.
        settings: dict[str, Any] = {"noise": posterior.noise, "normalize": posterior.normalize}
        if isinstance(posterior, FeaturePosterior):
            settings["n_features"] = posterior.size
            settings["chunk"] = posterior.chunk
        else:
            settings["method"] = to_config(posterior.method)
        if isinstance(posterior, DescentPosterior):
            settings["step"] = [posterior.step.bound, posterior.step.top_eigenvalue]
            settings["row_seed"] = posterior.seed
        if isinstance(posterior, DictionaryPosterior):
            settings["n_features"] = posterior.n_features
            settings["chunk"] = posterior.chunk
            seed, design = posterior.seed, posterior.design
        else:
            blocks: Any = posterior.blocks
            seed, design = blocks.seed, blocks.options.design
        return {
            **self._common_state(),
            "n_targets": self._n_targets,
            "flat": self._flat,
            "seed": seed,
            "design": design,
            "settings": settings,
            "posterior": posterior.snapshot(),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Rebuild a model; it predicts and goes on learning as if nothing had happened.

        Parameters
        ----------
        state : dict
            From :meth:`to_state`.

        Raises
        ------
        ValueError
            If the parts do not fit together.
        """
        model, kernel = cls._from_common_state(state)
        model.kernel_ = kernel
        model._n_targets = check_integer("n_targets", state["n_targets"], low=1)
        model._flat = bool(state["flat"])
        if model._flat and model._n_targets != 1:
            raise ValueError("the shape of the targets does not match their number")
        model.posterior_ = _posterior(model, state)
        return model  # type: ignore[no-any-return]


def _posterior(
    model: Any, state: dict[str, Any]
) -> FeaturePosterior | DictionaryPosterior | DescentPosterior:
    settings = state["settings"]
    noise = check_real("noise", settings["noise"], low=0.0, open_low=True)
    normalize = bool(check_choice("normalize", settings["normalize"], (True, False)))
    seed = check_integer("seed", state["seed"], low=0, high=2**64 - 1)
    design = check_choice("design", state["design"], DESIGNS)
    method = as_method(from_config(settings["method"])) if "method" in settings else None
    if method is None or isinstance(method, InducingPoints):
        n_features = check_integer("n_features", settings["n_features"], low=1)
        chunk = check_integer("chunk", settings["chunk"], low=1)
    else:
        n_features = method.block_size
    if isinstance(method, InducingPoints):
        sparse = DictionaryPosterior(
            method,
            model.kernel_,
            model._n_targets,
            noise=noise,
            normalize=normalize,
            chunk=chunk,
            seed=seed,
            n_features=n_features,
            design=design,
        )
        sparse.restore(state["posterior"], model.n_features_in_)
        return sparse
    if method is None:
        # Before room is made for sums of that size.
        sums = state["posterior"]["statistics"]
        if sums["products"].shape != (n_features, model._n_targets) or sums["triangle"].shape != (
            n_features * (n_features + 1) // 2,
        ):
            raise ValueError("the sums are of the wrong shape for the features and targets")
    blocks = FeatureBlocks(
        model.kernel_,
        model.n_features_in_,
        n_features,
        seed,
        FeatureOptions(paired=True, design=design),
    )
    posterior: FeaturePosterior | DescentPosterior
    if method is None:
        posterior = FeaturePosterior(blocks, model._n_targets, noise, normalize, chunk)
    else:
        bound, top = (check_real("step", v, low=0.0, open_low=True) for v in settings["step"])
        row_seed = check_integer("row_seed", settings["row_seed"], low=0, high=2**32 - 1)
        step = AutomaticStep(1.0, bound, top)
        posterior = DescentPosterior(method, blocks, noise, normalize, step, row_seed)
    posterior.restore(state["posterior"])
    if posterior.normalization()[0].size != model._n_targets:
        raise ValueError("the number of targets does not match the posterior")
    return posterior
