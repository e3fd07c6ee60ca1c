"""The claims worded for small ResNets trained from scratch on small images, with the comparisons that decide them."""

from covpool.studies.claims import Claim, Comparison
from covpool.studies.trained._arm import TrainedArm
from covpool.studies.trained._claims import SEEDS, than
from covpool.studies.trained._search import Search, candidates

TWO_POINTS = 0.02
DEPTHS = (18, 34, 50)


def _gcp(*settings: str) -> TrainedArm:
    return TrainedArm(recipe="scratch", settings=settings)


def _gap(*settings: str) -> TrainedArm:
    return TrainedArm(recipe="scratch-avg", settings=settings)


def _deeper(depth: int) -> tuple[str, ...]:
    return () if depth == DEPTHS[0] else (f"model.backbone=covpool/resnet{depth}_small_stem",)


AVG, ISQRT = _gap(), _gcp()
GAPS, GCPS = ({depth: made(*_deeper(depth)) for depth in DEPTHS} for made in (_gap, _gcp))
OTHERS = {
    "B-CNN": _gcp("pool.name=bcnn", "pool.normalize=bn"),
    "DeepO2P": _gcp("pool.name=deepo2p"),
    "improved B-CNN": _gcp("pool.name=improved_bcnn"),
}
BLOCKS = {
    "FB": _gap("pool.name=fbn", "model.block=tanh", "optimizer.head_factor=0.1"),
    "SORT": _gap("model.block=sort"),
    "SE": _gap("model.block=se"),
    "CBAM": _gap("model.block=cbam"),
}

FROM_SCRATCH: tuple[Claim[TrainedArm], ...] = (
    Claim(26, "from scratch", "ResNet-18 trained from scratch is more accurate with iSQRT-COV than with average "
          "pooling, by more than two points.",
          (than("iSQRT-COV above average pooling", ISQRT, AVG),
           than("the same, by more than two points", ISQRT, AVG, least=TWO_POINTS)),
          "ResNet-18 on ImageNet, top-1 error: 30.24 with average pooling, 24.52 with iSQRT-COV, 24.93 with 128 "
          "channels"),
    Claim(17, "against local blocks", "iSQRT-COV beats FB, SORT, SE and CBAM in the same ResNet.",
          tuple(than(f"iSQRT-COV above {name}", ISQRT, arm) for name, arm in BLOCKS.items()),
          "ResNet-50 on ImageNet, top-1 error: FBN 24.0, SORT 23.82, SE 23.29, CBAM 22.66, iSQRT-COV 22.14"),
    Claim(10, "against second-order pools", "iSQRT-COV beats B-CNN, DeepO2P and improved B-CNN.",
          tuple(than(f"iSQRT-COV above {name}", ISQRT, arm) for name, arm in OTHERS.items()),
          "AlexNet on ImageNet, top-1 error: B-CNN 39.89, DeepO2P 42.16, improved B-CNN 40.75, iSQRT-COV 38.45",
          remark="As in the paper, a batch norm follows B-CNN."),
    Claim(9, "depths", "iSQRT-COV beats average pooling in ResNets of several depths, and more so in smaller ones. "
          "With 128 channels it is as good as a deeper network with average pooling.",
          (*(than(f"iSQRT-COV above average pooling, {depth} layers", GCPS[depth], GAPS[depth]) for depth in DEPTHS),
           Comparison("the gain with 18 layers is above that with 50",
                      ((1, GCPS[18]), (-1, GAPS[18]), (-1, GCPS[50]), (1, GAPS[50])), "better", SEEDS),
           than("iSQRT-COV with 18 layers as good as average pooling with 34, 1.9 times the multiply-adds", GCPS[18],
                 GAPS[34], "as good"),
           than("the same, 34 layers with the last stride, 1.2 times the multiply-adds", GCPS[18],
                 _gap(*_deeper(34), "model.keep_last_stride=true"), "as good")),
          "ResNets on ImageNet, top-1 error with average pooling and with iSQRT-COV: 30.24 and 24.52 (18 layers), "
          "26.70 and 22.89 (34), 24.70 and 22.14 (50); 24.93 with 18 layers and 128 channels"),
)  # fmt: skip

_FOR_BOTH = (
    (),
    ("optimizer.lr=0.1",),
    ("optimizer.lr=0.4",),
    ("augment.mixup=0.2",),
    ("train.vector_dropout=0.5",),
    ("schedule.warmup_epochs=5",),
    ("augment.size=96",),
    ("model.keep_last_stride=true",),
)
_FOR_ONE = {
    "scratch": (
        ("optimizer.weight_decay=1e-3",),
        ("optimizer.head_weight_decay=5e-4",),
        ("optimizer.head_weight_decay=5e-3",),
        ("pool.reduce_to=64",),
        ("pool.reduce_to=256", "optimizer.head_weight_decay=5e-3"),
    ),
    "scratch-avg": (
        ("optimizer.weight_decay=1e-3", "optimizer.head_weight_decay=1e-3"),
        ("optimizer.head_weight_decay=2e-3",),
        ("optimizer.head_factor=5",),
        ("optimizer.lr=0.1", "optimizer.weight_decay=1e-3", "optimizer.head_weight_decay=1e-3"),
        ("augment.scale=[0.5,1]",),
    ),
}
SEARCH_FROM_SCRATCH = Search(candidates(_FOR_BOTH, _FOR_ONE), cheaper=("train.epochs=10",))
