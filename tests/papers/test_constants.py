"""Constants that contradict each other are refused before training, by the name of one of them."""

from typing import Any

import pytest

from icl.core.config import ConstantError
from icl.models.autoregressive.config import Config as Autoregressive
from icl.papers.ahn2023.linear_attention import Config as Ahn
from icl.papers.cheng2024.kernel_attention import Config as Cheng
from icl.papers.garg2022.gpt2 import Config as Garg
from icl.papers.huang2024.softmax_attention import Config as Huang
from icl.papers.li2024 import decoder, one_layer
from icl.papers.oswald2023mesa.one_layer import Config as Mesa
from icl.papers.zhang2024.linear_attention import PROMPTS
from icl.papers.zhang2024.linear_attention import Config as Zhang

# The last constant of each is named.
REFUSED: list[tuple[type, dict[str, Any]]] = [
    (Autoregressive, {"length": 2}),
    (Autoregressive, {"length": 5000}),  # the estimator `population` takes fewer
    (Autoregressive, {"dimension": 9}),
    (Autoregressive, {"start": (0.1,)}),
    (Autoregressive, {"gradient_estimator": "population_six_scalars", "law": "gaussian"}),
    (Ahn, {"spectrum": (1, 1, 0, 1, 1)}),
    (Ahn, {"spectrum": (1, 2)}),
    (Ahn, {"parametrisation": "full", "gradient_estimator": "task_and_query_averaged"}),
    (Cheng, {"labels": "comb", "dimension": 3}),
    (Cheng, {"layers": 9}),
    (Cheng, {"deviations": (1, 1, 1)}),
    (Cheng, {"deviations": (1, 1, 0, 1, 1)}),
    (Cheng, {"parametrisation": "matrices", "optimiser": "gauss_newton"}),
    (Cheng, {"covariates": True}),
    (Cheng, {"kernel": "linear_exp"}),
    (Cheng, {"resample": 10}),
    (Garg, {"heads": 3}),
    (Garg, {"first_dimension": 21}),
    (Garg, {"first_points": 42}),
    (Huang, {"dominant_probability": 1.0}),
    (Huang, {"contexts_per_feature": 7}),
    (Huang, {"least_ratio": 2.0, "dominant_probability": 0.3}),
    (Huang, {"features": 10**6}),
    (one_layer.Config, {"task_shifts": 6}),
    (one_layer.Config, {"batch": 32, "training_prompts": 16}),
    # With two patterns no context could be irrelevant.
    (one_layer.Config, {"relevant_patterns": 4}),
    # No pair of unit norm has a larger sum than sqrt(2).
    (one_layer.Evaluation, {"coefficient_sum": 1.4143}),
    (decoder.Config, {"heads": 3}),
    (decoder.Config, {"least_contexts": 21}),
    (Mesa, {"key_size": 9}),
    (Zhang, {"eigenvalues": (1, 1, 1, 1, 0)}),
    (Zhang, {"eigenvalues": (1, 1)}),
    (Zhang, {"gradient_estimator": PROMPTS, "growth": 0.1}),
]


@pytest.mark.parametrize(("kind", "given"), REFUSED)
def test_a_contradiction_is_refused_and_named(kind: type, given: dict[str, Any]) -> None:
    with pytest.raises(ConstantError, match=f"^constant {list(given)[-1]} "):
        kind(**given)


def test_what_huangs_messages_advise_is_valid() -> None:
    with pytest.raises(ConstantError, match="at least 8 to reach"):
        Huang(contexts_per_feature=3)
    Huang(contexts_per_feature=8)
    Huang(features=30, dominant_probability=0.3, least_ratio=2.0)
