"""Network: features -> pool -> classifier."""

import math
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from covpool._errors import CovpoolError, check_positive_int
from covpool.models._architecture import Architecture
from covpool.models._backbone import Backbone, device_and_dtype
from covpool.models._head import last_linear
from covpool.models._input_settings import InputSettings
from covpool.pools import Pool

Features = Tensor | tuple[Tensor, ...]


class Network(nn.Module):
    """An image classifier in three parts: logits = classifier(pool(features(x))).

    In a network made by `attach` or `create_model`, the backbone's tensors keep their own names after
    `features.body.`: "layer1.0.conv1.weight" becomes "features.body.layer1.0.conv1.weight".

    Args:
        features: Module from images to one feature tensor, or to a tuple of them for a pool of several.
        pool: Module from feature tensors to one vector per image.
        classifier: Module from vectors to logits; nn.Identity() for a pool with output "scores", which is its own
            classifier.
        architecture: What `rebuild` needs to build the same network again; None for a network put together by hand.

    Shape: (b, 3, h, w) -> (b, num_classes).

    >>> import torch, covpool
    >>> network = Network(nn.Conv2d(3, 8, 3), covpool.create_pool("isqrt", 8), nn.Linear(36, 5))
    >>> network(torch.randn(2, 3, 16, 16)).shape
    torch.Size([2, 5])
    """

    origin: str | None = None  # layout of the checkpoint that it was imported from

    def __init__(
        self, features: nn.Module, pool: Pool, classifier: nn.Module, *, architecture: Architecture | None = None
    ) -> None:
        super().__init__()
        self.features = features
        self.pool = pool
        self.classifier = classifier
        self.architecture = architecture
        backbones = [module for module in features.modules() if isinstance(module, Backbone)]
        self.input_settings = backbones[0].input_settings if backbones else InputSettings()

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_pool(self.forward_features(x)))

    def forward_features(self, x: Tensor) -> Features:
        """The feature map or tokens of the backbone; a tuple of them where the pool takes several."""
        return self.features(x)

    def forward_pool(self, features: Features) -> Tensor:  # -> (b, pool.out_features)
        """The representation, which is also the input of a linear SVM."""
        return self.pool(*features) if isinstance(features, tuple) else self.pool(features)

    def forward_head(self, z: Tensor) -> Tensor:  # (b, pool.out_features) -> (b, num_classes)
        """The logits, in the dtype of the classifier: the pool of a half-precision network gives float32."""
        parameters = list(self.classifier.parameters())  # torch 2.8 does not compile `next` with a default
        return self.classifier(z.to(parameters[0].dtype) if parameters else z)

    @property
    def num_classes(self) -> int:
        """Length of the logits; 0 without a classifier."""
        if self.pool.output == "scores":
            return self.pool.out_features
        return 0 if isinstance(self.get_classifier(), nn.Identity) else last_linear(self.classifier).out_features

    @property
    def num_features(self) -> int:
        """Length of the vectors before the last layer of the classifier, which `reset_classifier(0)` leaves."""
        last = self.get_classifier()
        layers = [layer for layer in self.classifier.modules() if isinstance(layer, nn.Linear)]
        widths = [layer.in_features if layer is last else layer.out_features for layer in layers]
        return widths[-1] if widths else self.pool.out_features

    @property
    def pretrained_cfg(self) -> dict[str, Any]:
        """How the network expects its images, as `timm.data.resolve_model_data_config` reads it."""
        return {**self.input_settings.as_timm(), "num_classes": self.num_classes}

    default_cfg = pretrained_cfg

    def get_classifier(self) -> nn.Module:
        """The last layer of the classifier; nn.Identity() without one."""
        classifier = self.classifier
        return classifier[-1] if isinstance(classifier, nn.Sequential) and len(classifier) else classifier

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the last layer of the classifier by a new one for `num_classes` classes.

        With 0 there is no last layer: the network gives vectors of length `num_features`.
        """
        if num_classes != 0:
            check_positive_int("num_classes", num_classes)
        if self.pool.output == "scores":
            raise CovpoolError(
                f"{type(self.pool).__name__} is its own classifier, with num_classes={self.num_classes}: build the "
                f"network again with num_classes={num_classes}"
            )
        old = self.get_classifier()
        new: nn.Module = nn.Identity()
        if not isinstance(old, nn.Identity):
            last_linear(self.classifier)  # refuses a classifier that ends in another layer
        if num_classes:
            bias = getattr(old, "bias", True) is not None
            new = nn.Linear(self.num_features, num_classes, bias=bias).to(*device_and_dtype(self))
        if isinstance(self.classifier, nn.Sequential):
            self.classifier[-1] = new
        else:
            self.classifier = new
        if self.architecture is not None and num_classes:
            self.architecture = replace(self.architecture, num_classes=num_classes)

    def parameter_groups(
        self, lr: float, *, head_factor: float = 1.0, weight_decay: float | None = None, decay_norms: bool = True
    ) -> list[dict[str, Any]]:
        """Parameter groups for a torch optimizer, with a separate learning rate for the classifier.

        Args:
            lr: Learning rate of the backbone and the pool.
            head_factor: The learning rate of the classifier is lr * head_factor; the paper fine-tunes with 5. A pool
                that gives scores counts as the classifier.
            weight_decay: Weight decay of all groups; None for the default of the optimizer.
            decay_norms: Whether weight decay applies to norms and biases (parameters with fewer than two dimensions).

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
        """Recompute the activations of the backbone in the backward pass, if the backbone supports it (timm's do)."""
        switches = [getattr(module, "set_grad_checkpointing", None) for module in self.features.modules()]
        if not any(callable(switch) for switch in switches):
            raise CovpoolError(
                "this backbone has no method `set_grad_checkpointing`: "
                "use timm's backbone of the same name, or torch.utils.checkpoint on its stages"
            )
        for switch in switches:
            if callable(switch):
                switch(enable)
