"""The stem of a ResNet for small images, which keeps all positions of the image."""

from torch import nn

SMALL_STEM = "_small_stem"  # suffix of the name of a backbone
SMALL_IMAGE = 64  # pixels


def replace_stem(model: nn.Module) -> None:
    """Replace the stem of torchvision's ResNet by a 3x3 convolution of stride 1, in place. Its max-pooling is removed.

    The stem for large images divides height and width by four before the first block. This one does not, so images of
    64 pixels give maps of 8 x 8, and of 16 x 16 without the last stride.

    Reference: He et al., Deep Residual Learning for Image Recognition, CVPR 2016, section 4.2 (CIFAR-10).

    Args:
        model: The ResNet. The names of its modules stay.
    """
    first = model.get_submodule("conv1")
    assert isinstance(first, nn.Conv2d)
    stem = nn.Conv2d(first.in_channels, first.out_channels, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")  # as torchvision does
    model.set_submodule("conv1", stem)
    model.set_submodule("maxpool", nn.Identity())
    setattr(model, "image_size", SMALL_IMAGE)  # noqa: B010
