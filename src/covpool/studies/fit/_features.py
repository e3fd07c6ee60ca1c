"""The frozen backbone of a fit: its taps, its image sizes, and the feature maps of the training images."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from covpool._errors import CovpoolError
from covpool._progress import OnProgress
from covpool.data import Augment, Images, ResolvedAugment
from covpool.data.pipeline import EvalBatches
from covpool.engine import with_progress
from covpool.engine.evaluation import cached, file_digest, image_marks
from covpool.models import Backbone, make_features, previous_block
from covpool.pools import Layout
from covpool.studies._feature_maps import DTYPES, Maps, compute_maps, say_left_out
from covpool.studies.fit._settings import LAST, Fit

LARGER = 1.4  # of the second image size that is tried, relative to the backbone's own
MULTIPLE = 32  # of image sizes in pixels, the total stride of most backbones


@dataclass(frozen=True)
class Tap:
    """A place in the backbone whose output is pooled.

    Attributes:
        level: Name of the module; "" is the last features.
        channels: Number of channels.
        layout: Layout of the features.
    """

    level: str
    channels: int
    layout: Layout


class TappedBackbone:
    """A backbone that keeps its last stride, with the taps and image sizes to choose from.

    Args:
        settings: The settings of the fit.
        device: Device of the backbone.
    """

    def __init__(self, settings: Fit, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.notes: list[str] = []
        with torch.random.fork_rng([]):
            torch.manual_seed(settings.seed)  # for a backbone without weights, in tests
            features = make_features(
                settings.backbone,
                keep_last_stride=True,
                backbone_options=settings.backbone_options,
                pretrained=settings.uses_pretrained,
                weights=settings.weights or None,
            )
        assert isinstance(features, Backbone)
        self.features = features.to(device).eval()
        self.inputs = features.input_settings
        self.taps = self._find_taps()
        self.sizes = self._find_sizes()

    def augment(self, size: int) -> ResolvedAugment:
        """How test images become inputs of this size."""
        return Augment(size=size).resolved(self.inputs)

    def compute(
        self, images: Images, size: int, taps: Sequence[Tap], on_progress: OnProgress
    ) -> dict[str, Maps]:  # by level
        """Compute the feature maps of training images at some taps, in one pass; a cache keeps them.

        Args:
            images: The training images.
            size: Image size.
            taps: The taps.
            on_progress: Called after every batch.
        """
        settings, computed = self.settings, dict[str, Maps]()

        def compute(level: str) -> Maps:
            if not computed:
                computed.update(self._run(images, size, taps, on_progress))
            return computed[level]

        folder = Path(settings.cache) if settings.cache else None
        maps = {
            tap.level: cached(folder, self._key(images, size, tap.level), partial(compute, tap.level), Maps).to(
                self.device, keep=settings.keep
            )
            for tap in taps
        }
        say_left_out(maps[taps[0].level], images, "training")
        return maps

    def _run(self, images: Images, size: int, taps: Sequence[Tap], on_progress: OnProgress) -> dict[str, Maps]:
        settings = self.settings
        dtype, keep_on = DTYPES[settings.maps], self.device if settings.keep == "device" else torch.device("cpu")
        batches = EvalBatches(
            images, self.augment(size), settings.data, batch_size=settings.batch_size, device=self.device
        )
        inner = [tap.level for tap in taps if tap.level]
        with _recorded(self.features, inner, dtype, keep_on) as recorded:
            last = compute_maps(
                self.features,
                with_progress(batches, f"feature maps at {size} px", on_progress),
                len(images),
                flipped=settings.flips,
                dtype=dtype,
                keep_on=keep_on,
            )
        views = 1 + settings.flips  # the backbone sees each batch, then the same batch flipped
        found = {level: _joined(recorded[level], views, last.targets) for level in inner}
        return {"": last, **found}

    def _find_taps(self) -> list[Tap]:
        levels: list[str] = []
        for asked in self.settings.level:
            levels.append("" if asked == LAST else asked)
            if asked == "" and self.settings.is_auto:
                levels += self._block_before()
        return [self._tap(level) for level in dict.fromkeys(levels)]

    def _block_before(self) -> list[str]:
        found = previous_block(self.features)
        if found is None:
            self.notes.append("the backbone has no block before its last features that can be pooled: it is left out")
            return []
        try:
            self._tap(found)
        except CovpoolError:
            self.notes.append(f"the block {found} is left out: the network cannot be cut after it")
            return []
        return [found]

    def _tap(self, level: str) -> Tap:
        """Describe a tap; building the features up to it shows that a network can be built in the same way."""
        if not level:
            (channels,) = self.features.channels
            return Tap("", channels, self.features.layout)
        cut = make_features(
            self.settings.backbone,
            keep_last_stride=True,
            levels=[level],
            backbone_options=self.settings.backbone_options,
        )
        (channels,) = cut.channels
        return Tap(level, channels, cut.layout)

    def _find_sizes(self) -> list[int]:
        sizes: list[int] = []
        for asked in self.settings.size:
            sizes.append(asked or self.inputs.size)
            if not asked and self.settings.is_auto:
                larger = round(LARGER * self.inputs.size / MULTIPLE) * MULTIPLE
                if self._accepts(larger):
                    sizes.append(larger)
                else:
                    self.notes.append(f"the backbone does not accept images of {larger} px: only its own size is tried")
        return list(dict.fromkeys(sizes))

    @torch.no_grad()
    def _accepts(self, size: int) -> bool:
        try:
            self.features(torch.zeros(1, 3, size, size, device=self.device))
        except (RuntimeError, ValueError, AssertionError):  # of a transformer that is made for one size
            return False
        return True

    def _key(self, images: Images, size: int, level: str) -> dict[str, object]:
        """Everything that the feature maps depend on."""
        settings = self.settings
        return {
            "kind": "fit",
            "backbone": settings.backbone,
            "backbone_options": settings.backbone_options,
            "weights": file_digest(Path(settings.weights)) if settings.weights else "",
            "pretrained": settings.uses_pretrained,
            "seed": 0 if settings.weights or settings.uses_pretrained else settings.seed,
            "augment": self.augment(size).model_dump(mode="json"),
            "level": level,
            "flips": settings.flips,
            "maps": settings.maps,
            "broken": settings.data.broken,
            "images": image_marks(images),
        }


@contextmanager
def _recorded(
    backbone: Backbone, levels: Sequence[str], dtype: torch.dtype, keep_on: torch.device
) -> Iterator[dict[str, list[Tensor]]]:
    """Record the outputs of some modules of a backbone, batch by batch, without the tokens that it drops."""
    recorded: dict[str, list[Tensor]] = {level: [] for level in levels}
    drop = backbone.prefix if not backbone.keep_prefix else 0

    def record(level: str, module: nn.Module, inputs: object, output: Tensor) -> None:
        kept = output[:, drop:] if drop else output
        copied = kept.detach().to(keep_on, dtype, copy=True, memory_format=torch.contiguous_format)
        recorded[level].append(copied)  # a copy, because later layers may work in place

    with ExitStack() as hooks:
        for level in levels:
            module = backbone.body.get_submodule(level)
            hooks.enter_context(module.register_forward_hook(partial(record, level)))
        yield recorded


def _joined(batches: list[Tensor], views: int, targets: Tensor) -> Maps:
    """Put the batches of all images first, and those of the flipped images after them."""
    features = torch.cat([batch for view in range(views) for batch in batches[view::views]])
    assert len(features) == views * len(targets)
    if not features.isfinite().all():
        raise CovpoolError(f"features of the backbone are not finite as {features.dtype}: set maps=bf16 or maps=fp32")
    return Maps(features, targets)
