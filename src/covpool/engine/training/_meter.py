"""Sums over the steps of an epoch, kept on the device so that no step waits for them."""

import torch
from torch import Tensor, nn

NAMES = ("loss", "correct", "images", "gradient_norm", "gradients")


class Meter:
    """Sums of the loss, the hits, the images, and the gradient norm at the input of the pool.

    The gradient norm is |d loss_i / d X_i|, the gradient of the loss of image i at its feature map X_i. The paper uses
    it to explain why post-compensation matters. It does not depend on the batch size, on the loss scaling of half
    precision, or on accumulation.

    Args:
        pool: The pool of the network.
        device: Device of the sums.
    """

    def __init__(self, pool: nn.Module, device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(len(NAMES), dtype=exact, device=device)
        self._squares: list[Tensor] = []  # one vector (b,) per feature map of the micro-batch
        self._scale: list[Tensor] = []
        self._handle = pool.register_forward_pre_hook(self._watch)

    def add(
        self,
        loss: Tensor,  # mean over the micro-batch
        logits: Tensor,  # (b, classes)
        targets: Tensor,  # (b,), or (b, classes) of mixed images
    ) -> None:
        """Count a micro-batch. Call this before its backward pass, and `finish` after it."""
        count = len(logits)
        wanted = targets.argmax(1) if targets.ndim == 2 else targets
        correct = (logits.detach().argmax(1) == wanted).sum()
        self.sums[:2] += torch.stack([loss.detach() * count, correct]).to(self.sums.dtype)
        self.sums[2] += count
        loss.register_hook(self._scale.append)

    def finish(self) -> None:
        """Count the gradients of a micro-batch. Call this after its backward pass."""
        if self._squares and self._scale:
            squares = torch.stack(self._squares).sum(0)  # (b,)
            norms = squares.sqrt() * len(squares) / self._scale[0].abs()
            self.sums[3] += norms.sum().to(self.sums.dtype)
            self.sums[4] += len(squares)
        self.clear()

    def clear(self) -> None:
        """Forget the gradients of a micro-batch that was not finished."""
        self._squares.clear()
        self._scale.clear()

    def close(self) -> None:
        """Remove the hook from the pool."""
        self._handle.remove()

    @torch.compiler.disable  # autograd hooks cannot be compiled: the graph breaks before the pool
    def _watch(self, pool: nn.Module, features: tuple[Tensor, ...]) -> None:
        if not (pool.training and torch.is_grad_enabled()):
            return
        for feature in features:
            if feature.requires_grad:
                feature.register_hook(self._note)

    def _note(self, gradient: Tensor) -> None:
        norm: Tensor = torch.linalg.vector_norm(gradient.detach().flatten(1), dim=1, dtype=torch.float32)
        self._squares.append(norm.square())


def means(sums: list[float], before: list[float] | None = None) -> dict[str, float]:
    """The mean loss, accuracy and gradient norm.

    Args:
        sums: Sums of a `Meter`.
        before: Sums to subtract, so that the means cover only what was added after them.

    >>> means([4.0, 3.0, 8.0, 0.0, 0.0])
    {'loss': 0.5, 'accuracy': 0.375}
    """
    loss, correct, images, norm, gradients = (a - b for a, b in zip(sums, before or [0.0] * len(NAMES), strict=True))
    found = {"loss": loss / max(images, 1), "accuracy": correct / max(images, 1)}
    return {**found, "gradient_norm_pool": norm / gradients} if gradients else found
