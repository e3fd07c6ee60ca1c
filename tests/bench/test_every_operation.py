"""No operation is left out, and each says what it gives."""

import torch

from covpool import ops
from covpool.bench._every_operation import every_operation

NOT_MEASURED = {"draw_sketch", "reference"}  # neither is applied to features


def test_all_operations_are_there_and_can_be_differentiated() -> None:
    found = every_operation(8, torch.device("cpu"))
    assert set(found) == set(ops.__all__) - NOT_MEASURED
    assert next(iter(found)) == "covariance"
    for name, function in found.items():
        x = torch.randn(2, 20, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        assert gradient.isfinite().all(), name
