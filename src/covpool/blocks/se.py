"""SE: one factor per channel, computed from the mean over all positions."""

from torch import Tensor, nn

from covpool._errors import CovpoolError, check_positive_int


class SqueezeExcitation(nn.Module):
    """y = s x with one factor per channel, s = sigmoid(W2 relu(W1 mean(x) + b1) + b2).

    Weights start Kaiming normal and biases zero.

    Args:
        channels: Channels c of the map.
        reduction: W1 leads from c to c // reduction channels.

    Shape: (b, c, h, w) -> (b, c, h, w).

    Reference: Hu et al., Squeeze-and-Excitation Networks, CVPR 2018.

    >>> sum(p.numel() for p in SqueezeExcitation(256).parameters())  # two layers with biases
    8464
    """

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__()
        self.fc1, self.fc2 = gate_layers(channels, reduction)
        for layer in (self.fc1, self.fc2):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc2(self.fc1(x.mean((2, 3), keepdim=True)).relu())
        return x * scores.sigmoid()


def gate_layers(channels: int, reduction: int) -> list[nn.Conv2d]:
    """Return 1x1 convolutions to channels // reduction channels and back, with biases of zero."""
    check_positive_int("reduction", reduction)
    if reduction > channels:
        raise CovpoolError(f"`reduction` must be at most the number of channels, {channels}; got {reduction}")
    hidden = channels // reduction
    layers = [nn.Conv2d(channels, hidden, 1), nn.Conv2d(hidden, channels, 1)]
    for layer in layers:
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    return layers
