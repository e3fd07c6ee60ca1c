"""The claims, each worded for MobileNetV2 fine-tuned on one data set, with the comparisons that decide it.

The claims are in the order of the queue. They share arms: most use the same trainings of average pooling and iSQRT-COV.
All use 224 pixels except those that are named LARGE, which use 320 and take twice the time.
"""

from dataclasses import replace

from covpool.studies.claims import Claim, Comparison, Rule
from covpool.studies.trained._arm import TrainedArm

SEEDS = (1, 2, 3)
PRE_TRAINED_ON = "tiny-imagenet-100"  # the networks that others start from
SMALL = "augment.size=224"
STARTED = ("netvlad", "netfv", "lrbp", "kernel", "deepten", "mfafv")  # pools that are initialized from data
COMPARED = (*STARTED, "cbp", "hihca", "smso", "bcnn", "improved_bcnn", "deepo2p", "gaussian")


def _gcp(*settings: str) -> TrainedArm:
    return TrainedArm(recipe="finetune", settings=(SMALL, *settings))


def _gap(*settings: str) -> TrainedArm:
    return TrainedArm(recipe="finetune-avg", settings=(SMALL, *settings))


def _pool(name: str, *options: str) -> TrainedArm:
    start = ["init.pool_from_data=true"] if name in STARTED else []
    return _gcp(f"pool.name={name}", *(f"pool.{option}" for option in options), *start)


AVG, ISQRT, COV, MPN = _gap(), _gcp(), _pool("cov"), _pool("mpn")
FUSED = replace(ISQRT, fused_with=AVG)
LARGE_AVG, LARGE_ISQRT = (TrainedArm(recipe=recipe) for recipe in ("finetune-avg", "finetune"))
LARGE_AVG_NO_STRIDE = TrainedArm(recipe="finetune-avg", settings=("model.keep_last_stride=false",))
CHAIN = ("pool.reduce_kind=conv_bn_relu", "init.reduction=random", "optimizer.head_factor=20")
SMALL_NET = ("model.backbone=covpool/resnet18_small_stem", "augment.size=96", "pool.reduce_to=128", *CHAIN)


def _started_from(recipe: str) -> TrainedArm:
    """iSQRT-COV on CUB, from a small ResNet that a recipe has trained from scratch."""
    return TrainedArm(recipe="finetune", settings=SMALL_NET, starts_from=TrainedArm(recipe=recipe))


def than(
    text: str, first: TrainedArm, second: TrainedArm, rule: Rule = "better", *, least: float = 0.0
) -> Comparison[TrainedArm]:
    """Compare two trainings, each with all seeds."""
    return Comparison(text, ((1, first), (-1, second)), rule, SEEDS, least=least)


def _normalizations() -> tuple[Comparison[TrainedArm], ...]:
    alone = {
        "M-Fro": _pool("mpn", "alpha=1", "normalization=frobenius"),
        "M-l2": _pool("mpn", "alpha=1", "normalization=spectral"),
        "E-PN": _pool("cov", "normalize=epn"),
    }
    return tuple(than(f"MPN above {name} alone", MPN, arm) for name, arm in alone.items())


CLAIMS: tuple[Claim[TrainedArm], ...] = (
    Claim(11, "fine-tuning", "A network pre-trained with average pooling is more accurate if it is fine-tuned with "
          "iSQRT-COV than with average pooling. Adding E-PN changes little.",
          (than("iSQRT-COV above average pooling, 320 px", LARGE_ISQRT, LARGE_AVG),
           than("the same, average pooling without the last stride", LARGE_ISQRT, LARGE_AVG_NO_STRIDE),
           than("iSQRT-COV with E-PN agrees with iSQRT-COV without", _gcp("pool.normalize=epn"), ISQRT, "agrees")),
          "ResNet-50 on Birds: 78.4 with average pooling, 86.7 with iSQRT-COV; pre-trained with iSQRT-COV 88.1, with "
          "E-PN 88.2"),
    Claim(16, "the pooling, not the map", "The gain comes from the pooling, not from the larger feature map without "
          "the last stride.",
          (than("iSQRT-COV above average pooling, both without the last stride", ISQRT,
                 _gap("model.keep_last_stride=false")),
           than("iSQRT-COV above average pooling, both with the last stride", _gcp("model.keep_last_stride=true"),
                 AVG))),
    Claim(13, "fusion", "The fused scores of average pooling and iSQRT-COV beat either alone.",
          (than("fused above iSQRT-COV", FUSED, ISQRT), than("fused above average pooling", FUSED, AVG)),
          "iNaturalist 2018, top-3 error: iSQRT-COV 14.7, fused 14.6 to 13.1"),
    Claim(1, "second order", "Plain covariance beats average pooling, and MPN-COV beats plain covariance.",
          (than("plain covariance above average pooling", COV, AVG),
           than("MPN-COV above plain covariance", MPN, COV)),
          "AlexNet on ImageNet, top-1 error: 41.5 (no covariance), 40.4 (plain), 38.5 (MPN-COV)"),
    Claim(6, "post-compensation", "Post-compensation by the trace is best. Batch norm in its place is less accurate. "
          "Without either, training fails or is less accurate.",
          (than("the trace above no post-compensation", ISQRT, _gcp("pool.postcomp=false")),
           than("the trace above batch norm", ISQRT, _gcp("pool.postcomp=false", "pool.normalize=bn"))),
          "ResNet-50 on ImageNet, top-1 error: trace 22.14, batch norm 23.12, none does not converge"),
    Claim(4, "iterations", "iSQRT-COV beats plain covariance with one iteration, is close to MPN-COV with three, "
          "matches it with five, and gains nothing from more.",
          (than("N = 1 above plain covariance", _gcp("pool.iterations=1"), COV),
           than("N = 3 agrees with MPN-COV", _gcp("pool.iterations=3"), MPN, "agrees"),
           than("N = 5 as good as MPN-COV", ISQRT, MPN, "as good"),
           than("N = 5 as good as N = 7", ISQRT, _gcp("pool.iterations=7"), "as good")),
          "N = 1 is 1.3 points above plain covariance, N = 3 is 0.3 points from MPN-COV, N = 5 to 7 marginally better"),
    Claim(21, "image size", "The gain over average pooling grows with the image size.",
          (Comparison("the gain at 320 px is above that at 224 px",
                      ((1, LARGE_ISQRT), (-1, LARGE_AVG), (-1, ISQRT), (1, AVG)), "better", SEEDS),
           than("iSQRT-COV above average pooling at 224 px", ISQRT, AVG))),
    Claim(8, "compact representations", "A representation of 2,080 numbers is better after two 1x1 convolutions than "
          "after one, and still beats average pooling.",
          (than("reduction to 256 and then 64 channels above 64 directly", _gcp("pool.reduce_to=[256,64]", *CHAIN),
                 _gcp("pool.reduce_to=64", *CHAIN)),
           than("64 channels by way of 256 above average pooling", _gcp("pool.reduce_to=[256,64]", *CHAIN), AVG)),
          "ResNet-50 on ImageNet, top-1 error: 24.7 with average pooling, 23.73 after one convolution, 22.98 after "
          "two",
          remark="Each 1x1 convolution is followed by a batch norm and a ReLU, as in the paper. Without them, two "
          "convolutions are one."),
    Claim(5, "pre-normalization", "Division by the trace is at least as good as by the Frobenius norm.",
          (than("trace as good as Frobenius norm", ISQRT, _gcp("pool.prenorm=frobenius"), "as good"),),
          "AlexNet on ImageNet, top-1 error: trace 38.45, Frobenius norm 38.78"),
    Claim(3, "normalizations", "The matrix power alone beats M-Fro, M-l2 and E-PN.", _normalizations(),
          "AlexNet on ImageNet, top-1 error: MPN 38.5; M-Fro 39.9, M-l2 39.7, E-PN 39.9"),
    Claim(18, "against all pools", "iSQRT-COV is at least as good as the other pools that the paper compares.",
          tuple(than(f"iSQRT-COV as good as {name}", ISQRT, _pool(name), "as good") for name in COMPARED),
          "iSQRT-COV has the best accuracy of all compared methods on CUB and Cars"),
    Claim(27, "pre-training", "A network pre-trained with iSQRT-COV is more accurate than one pre-trained with average "
          "pooling, if both are fine-tuned with iSQRT-COV.",
          (than("ResNet-18 pre-trained with iSQRT-COV above one pre-trained with average pooling",
                 _started_from("scratch"), _started_from("scratch-avg")),),
          "ResNet-50 on Birds: pre-trained with iSQRT-COV 88.1, with average pooling 86.7",
          remark="The ResNets are trained from scratch on Tiny-ImageNet-100, and fine-tuned at 96 pixels."),
)  # fmt: skip
