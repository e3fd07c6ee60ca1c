"""Products of linear maps of the features, averaged over positions: random Maclaurin and polynomial features."""

from typing import Literal

from torch import Tensor

from covpool._check_tensors import check_features, check_floating
from covpool._errors import CovpoolError, check_choice
from covpool.ops._backend import exporting
from covpool.ops.positions import keep_positions
from covpool.ops.precision import full_precision, product

ProjectionForm = Literal["positions", "moment"]
PROJECTION_FORMS: tuple[ProjectionForm, ...] = ("positions", "moment")


def projection_form(n: int, c: int, d: int) -> ProjectionForm:
    """The form of order two with fewer multiply-adds: 2 n c d, or c^2 (n + d) through the second moment matrix."""
    return "moment" if c * (n + d) <= 2 * n * d else "positions"


@full_precision
def projection_product(
    x: Tensor,  # (..., n, c)
    factors: Tensor,  # (r, c, d)
    *,
    mask: Tensor | None = None,  # (..., n) bool, True = keep
    weights: Tensor | None = None,  # (..., n)
    form: ProjectionForm | None = None,
) -> Tensor:  # (..., d)
    """The mean over positions of (U_1^T x) o ... o (U_r^T x), element by element.

    With random signs in U_1 and U_2, divided by sqrt(d), it is the random Maclaurin feature of order two: the
    expectation of <z(x), z(y)> is <x, y>^2. With learned factors it is a polynomial of rank-one tensors.

    Args:
        x: Features, one row per position.
        factors: The matrices U_1 to U_r.
        mask: Positions to keep. An empty mask gives zeros.
        weights: A weight for each position. They are normalized to sum to one, and are uniform by default.
        form: For order two, "moment" (z_k = u_k^T M v_k with the second moment matrix M) or "positions"; the cheaper
            one by default, see `projection_form`.

    Shape: (..., n, c) -> (..., d).

    Reference: Kar and Karnick, "Random feature maps for dot product kernels"; pooled in Gao et al., "Compact Bilinear
    Pooling"; learned in Cai et al., "Higher-order integration of hierarchical convolutional activations".

    >>> import torch
    >>> factors = torch.tensor([[[1., 0.], [0., 1.]], [[1., 1.], [0., 1.]]])
    >>> projection_product(torch.tensor([[3., 5.]]), factors).tolist()
    [9.0, 40.0]
    """
    check_features(x)
    check_floating("factors", factors)
    check_choice("form", form, (None, *PROJECTION_FORMS))
    if factors.ndim != 3 or factors.shape[1] != x.shape[-1] or len(factors) < 1:
        raise CovpoolError(f"`factors` must have shape (r, {x.shape[-1]}, d), r >= 1; got {tuple(factors.shape)}")
    order = len(factors)
    if form == "moment" and order != 2:
        raise CovpoolError(f'form="moment" is for order 2; got order {order}: use form="positions" or None')
    x, w = keep_positions(x, mask, weights)
    weighted = x / x.shape[-2] if w is None else x * w.unsqueeze(-1)
    first, *others = factors.to(x.dtype)
    if order == 1:
        return _project(weighted.sum(-2), first)
    if order == 2 and form is None:
        form = "moment" if exporting() else projection_form(x.shape[-2], *factors.shape[1:])
    if form == "moment":
        return (_project(product(weighted.mT, x), others[0]) * first).sum(-2)
    z = _project(weighted, first)
    for factor in others:
        z = z * _project(x, factor)
    return z.sum(-2)


def _project(
    x: Tensor,  # (..., c)
    factor: Tensor,  # (c, d)
) -> Tensor:  # (..., d)
    return product(x.reshape(-1, x.shape[-1]), factor).reshape(*x.shape[:-1], factor.shape[-1])
