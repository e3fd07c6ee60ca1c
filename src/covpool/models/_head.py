"""Classifiers: a linear layer, alone or after hidden layers."""

from collections.abc import Sequence

from torch import nn

from covpool._check import check_positive_int
from covpool._errors import WrongTypeError


def make_head(in_features: int, num_classes: int, *, layers: Sequence[int] = (), norm: bool = True) -> nn.Module:
    """Linear(num_classes), after hidden layers where `layers` gives their widths.

    A hidden layer is FC-BN-ReLU, as in the paper's AlexNet and VGG-M (the FC has no bias: BN has one). With norm=False
    it is FC-ReLU-Dropout, as in the original VGG networks and the authors' VGG16-BN.

    Args:
        in_features: length of the vectors that come in.
        num_classes: length of the logits.
        layers: widths of hidden layers.
        norm: batch norm in the hidden layers, else dropout after them.

    >>> [type(m).__name__ for m in make_head(36, 10, layers=(64,))]
    ['Linear', 'BatchNorm1d', 'ReLU', 'Linear']
    """
    check_positive_int("num_classes", num_classes)
    modules: list[nn.Module] = []
    for width in layers:
        check_positive_int("head_layers", width)
        modules.append(nn.Linear(in_features, width, bias=not norm))
        modules += [nn.BatchNorm1d(width), nn.ReLU()] if norm else [nn.ReLU(), nn.Dropout()]
        in_features = width
    last = nn.Linear(in_features, num_classes)
    return nn.Sequential(*modules, last) if modules else last


def last_linear(classifier: nn.Module) -> nn.Linear:
    """The layer that gives the logits."""
    last = classifier[-1] if isinstance(classifier, nn.Sequential) and len(classifier) else classifier
    if not isinstance(last, nn.Linear):
        raise WrongTypeError(f"the classifier must end in nn.Linear; got {type(last).__name__}: replace it yourself")
    return last


def replace_last_linear(classifier: nn.Module, num_classes: int) -> nn.Module:
    """The same classifier with a fresh last layer."""
    old = last_linear(classifier)
    new = nn.Linear(old.in_features, num_classes, bias=old.bias is not None).to(old.weight.device, old.weight.dtype)
    if not isinstance(classifier, nn.Sequential):
        return new
    classifier[-1] = new
    return classifier
