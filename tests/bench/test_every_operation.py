"""The benchmark covers every operation."""

import torch

from covpool.bench._every_operation import every_operation
from layers import SOURCE, exported

NOT_MEASURED = {  # not applied to features, or parts of other operations
    *("PRECISIONS", "Precision", "RootBackward", "at_least_float32", "draw_sketch", "eigh"),
    *("in_autocast", "l2_normalize", "outside_autocast", "product"),
    *("reference", "tf32_allowed", "unit_length"),
    *("Activation", "batch_norm", "depthwise_convolution"),  # not of pooling
}


def test_every_operation_is_there_and_differentiable() -> None:
    found = every_operation(8, torch.device("cpu"))
    assert set(found) == exported((SOURCE / "ops" / "__init__.py").read_text()) - NOT_MEASURED
    assert next(iter(found)) == "covariance"
    for name, function in found.items():
        x = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        assert gradient.isfinite().all(), name
