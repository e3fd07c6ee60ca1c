"""Network: features -> pool -> classifier."""

import math
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from covpool._check import check_positive_int
from covpool._errors import CovpoolError
from covpool.models._architecture import Architecture
from covpool.models._head import last_linear, replace_last_linear
from covpool.pools import Pool

Features = Tensor | tuple[Tensor, ...]


class Network(nn.Module):
    """An image classifier in three parts: logits = classifier(pool(features(x))).

    In a network made by `attach` or `create_model`, the backbone's tensors keep their own names behind
    `features.body.`: "layer1.0.conv1.weight" becomes "features.body.layer1.0.conv1.weight".

    Args:
        features: images -> one feature tensor, or a tuple of them for a pool of several.
        pool: feature tensors -> one vector per image.
        classifier: vectors -> logits. A pool with output "scores" is its own classifier; give nn.Identity() then.
        architecture: What `rebuild` needs to build the same network again; None for a network put together by hand.

    Shape: (b, 3, h, w) -> (b, num_classes).

    >>> import torch, covpool
    >>> network = Network(nn.Conv2d(3, 8, 3), covpool.create_pool("isqrt", 8), nn.Linear(36, 5))
    >>> network(torch.randn(2, 3, 16, 16)).shape
    torch.Size([2, 5])
    """

    origin: str | None = None  # whose checkpoint it was imported from, in which layout

    def __init__(
        self, features: nn.Module, pool: Pool, classifier: nn.Module, *, architecture: Architecture | None = None
    ) -> None:
        super().__init__()
        self.features = features
        self.pool = pool
        self.classifier = classifier
        self.architecture = architecture

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_pool(self.forward_features(x)))

    def forward_features(self, x: Tensor) -> Features:
        """The feature map or tokens of the backbone; a tuple of them where the pool takes several."""
        features: Features = self.features(x)
        return features

    def forward_pool(self, features: Features) -> Tensor:  # -> (b, pool.out_features)
        """The representation: what a linear SVM gets."""
        pooled: Tensor = self.pool(*features) if isinstance(features, tuple) else self.pool(features)
        return pooled

    def forward_head(self, z: Tensor) -> Tensor:  # (b, pool.out_features) -> (b, num_classes)
        """Logits, computed in the classifier's dtype: the pool answers a half-precision network in float32."""
        parameter = next(self.classifier.parameters(), None)
        logits: Tensor = self.classifier(z if parameter is None else z.to(parameter.dtype))
        return logits

    @property
    def num_classes(self) -> int:
        return self.pool.out_features if self.pool.output == "scores" else last_linear(self.classifier).out_features

    def reset_classifier(self, num_classes: int) -> None:
        """Put a new last layer for `num_classes` classes in place of the old one."""
        check_positive_int("num_classes", num_classes)
        if self.pool.output == "scores":
            raise CovpoolError(
                f"{type(self.pool).__name__} is its own classifier, with num_classes={self.num_classes}: build the "
                f"network again with num_classes={num_classes}"
            )
        self.classifier = replace_last_linear(self.classifier, num_classes)
        if self.architecture is not None:
            self.architecture = replace(self.architecture, num_classes=num_classes)

    def parameter_groups(
        self, lr: float, *, head_factor: float = 1.0, weight_decay: float | None = None, decay_norms: bool = True
    ) -> list[dict[str, Any]]:
        """Groups for a torch optimizer, with a learning rate for the classifier of its own.

        Args:
            lr: of the backbone and the pool.
            head_factor: the classifier learns at lr * head_factor; the paper fine-tunes with 5. A pool that gives
                scores counts as the classifier.
            weight_decay: of all groups; None leaves it to the optimizer.
            decay_norms: False takes norms and biases (parameters with fewer than two dimensions) out of weight decay.

        >>> import covpool
        >>> network = Network(nn.Conv2d(3, 8, 3), covpool.create_pool("isqrt", 8), nn.Linear(36, 5))
        >>> [(g["name"], g["lr"]) for g in network.parameter_groups(0.1, head_factor=5)]
        [('features', 0.1), ('classifier', 0.5)]
        """
        if not (math.isfinite(lr) and lr >= 0 and math.isfinite(head_factor) and head_factor >= 0):
            raise CovpoolError(f"`lr` and `head_factor` must not be negative; got {lr} and {head_factor}")
        pool_factor = head_factor if self.pool.output == "scores" else 1.0
        factors = {"features": 1.0, "pool": pool_factor, "classifier": head_factor}
        groups = []
        for part, factor in factors.items():
            trained = [p for p in getattr(self, part).parameters() if p.requires_grad]
            vectors = [] if decay_norms else [p for p in trained if p.ndim < 2]
            matrices = trained if decay_norms else [p for p in trained if p.ndim >= 2]
            decay = {} if weight_decay is None else {"weight_decay": weight_decay}
            groups.append({"name": part, "params": matrices, "lr": lr * factor, **decay})
            groups.append({"name": f"{part}, not decayed", "params": vectors, "lr": lr * factor, "weight_decay": 0.0})
        return [group for group in groups if group["params"]]

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute the backbone's activations in the backward instead of storing them, where the backbone can."""
        switches = [getattr(module, "set_grad_checkpointing", None) for module in self.features.modules()]
        if not any(callable(switch) for switch in switches):
            raise CovpoolError(
                "this backbone has no gradient checkpointing of its own (`set_grad_checkpointing`): "
                "use the one of the same name from timm, or torch.utils.checkpoint on its stages"
            )
        for switch in switches:
            if callable(switch):
                switch(enable)
