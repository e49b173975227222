"""The losses as modules beside PyTorch's."""

import numpy as np
import pytest

import chainrule as cr
from chainrule import nn
from chainrule.errors import ArgumentError
from tests.nn import twins
from tests.nn.twins import Twin
from tests.oracle.peers import peer

WEIGHT = [0.5, 2.0, 1.0]
CLASSES = np.array([0, 2, 1, 0])


def loss(name, **options):
    """Ours and theirs, weights in the dtype of the comparison."""

    def ours(dtype, generator):
        return getattr(nn, name)(**{k: np.array(v, dtype) if "weight" in k else v for k, v in options.items()})

    def theirs(torch):
        return getattr(torch.nn, name)(**{k: torch.tensor(v) if "weight" in k else v for k, v in options.items()})

    return ours, theirs


test_twins = twins.tests(
    Twin("CrossEntropyLoss", *loss("CrossEntropyLoss", weight=WEIGHT, label_smoothing=0.1), [(4, 3), CLASSES]),
    Twin("CrossEntropyLoss, sum", *loss("CrossEntropyLoss", ignore_index=2, reduction="sum"), [(4, 3), CLASSES]),
    Twin("NLLLoss", *loss("NLLLoss", weight=WEIGHT), [(4, 3), CLASSES]),
    Twin("MultiMarginLoss", *loss("MultiMarginLoss", p=2, weight=WEIGHT), [(4, 3), CLASSES]),
    Twin("BCEWithLogitsLoss", *loss("BCEWithLogitsLoss", weight=WEIGHT, pos_weight=WEIGHT), [(4, 3), (4, 3)]),
    Twin("MSELoss", *loss("MSELoss"), [(4, 3), (4, 3)]),
    Twin("L1Loss", *loss("L1Loss", reduction="none"), [(4, 3), (4, 3)]),
    Twin("HuberLoss", *loss("HuberLoss", delta=0.5), [(4, 3), (4, 3)]),
    Twin("SmoothL1Loss", *loss("SmoothL1Loss", beta=0.5), [(4, 3), (4, 3)]),
    Twin("KLDivLoss", *loss("KLDivLoss", reduction="batchmean", log_target=True), [(4, 3), (4, 3)]),
)


@pytest.mark.parametrize("name", [name for name in nn.__all__ if name.endswith("Loss")])
def test_options_are_pytorchs(name):
    """Under the same names and with the same defaults; its `size_average` and `reduce` are long deprecated."""
    from inspect import signature

    theirs = signature(getattr(peer("torch").nn, name)).parameters.values()
    made = getattr(nn, name)()
    for option in theirs:
        if option.name not in ("size_average", "reduce"):
            assert getattr(made, option.name) == option.default


def test_weights_are_copied_and_moved_along():
    weight = np.ones(3)
    made = nn.CrossEntropyLoss(weight)
    weight[:] = 5.0
    assert made.weight.tolist() == [1.0] * 3
    assert list(made.state_dict()) == ["weight"]
    assert nn.CrossEntropyLoss(cr.tensor([1.0, 2.0])).weight.tolist() == [1.0, 2.0]


def test_odd_options_are_refused():
    with pytest.raises(ArgumentError):
        nn.MSELoss(size_average=True)
    with pytest.raises(ArgumentError):
        nn.MSELoss("mean", 2)
