"""The claims, each worded for frozen features, with the comparisons that decide it.

The order is that of the queue. Numbers 1 to 19 are claims of the paper, 21 to 25 are our own. What they leave out needs
trained networks.
"""

from itertools import pairwise

from covpool.pools import list_pools
from covpool.studies.claims._arm import Arm
from covpool.studies.claims._corruptions import CORRUPTIONS
from covpool.studies.claims._verdict import Claim, Comparison, Rule

ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 1.2, 1.5)
ITERATIONS = (1, 2, 3, 7, 10, 15)
SIZES = (128, 160, 256, 320, 384)
PER_CLASS = (1, 2, 5, 10)
IMAGES = {"cub200": 30, "dtd-10": 80}  # all training images per class
WIDTHS = (32, 64, 128, 256, 512)
TAPS = ("features.17", "features.13")
SEEDS = (0, 1, 2)

AVG, COV, MPN, ISQRT = Arm(pool="avg"), Arm(pool="cov"), Arm(pool="mpn"), Arm(pool="isqrt")
REDUCED_AVG = Arm(pool="avg:reduce_to=256:reduce_kind=linear")


def _than(text: str, first: Arm, second: Arm, rule: Rule = "better") -> Comparison[Arm]:
    """Compare two arms; those with random weights or images with three seeds."""
    seeds = SEEDS if first.is_random or second.is_random else (0,)
    return Comparison(text, ((1, first), (-1, second)), rule, seeds)


def _gain(size: int) -> tuple[tuple[int, Arm], tuple[int, Arm]]:
    return (1, Arm(pool="isqrt", size=size)), (-1, Arm(pool="avg", size=size))


def _grows(small: int, large: int) -> Comparison[Arm]:
    terms = (*_gain(large), *((-weight, arm) for weight, arm in _gain(small)))
    return Comparison(f"the gain at {large} px is above that at {small} px", terms)


def _order() -> tuple[Comparison[Arm], ...]:
    found = []
    for size in (224, 320):
        avg, cov, mpn = (Arm(pool=pool, size=size, flips=True) for pool in ("avg", "cov", "mpn"))
        found += [
            _than(f"plain covariance above average pooling, {size} px", cov, avg),
            _than(f"MPN-COV above plain covariance, {size} px", mpn, cov),
        ]
    removed = Arm(pool="avg", stride=False)
    return (
        *found,
        _than("control: MPN-COV above average pooling behind the same reduction", MPN, REDUCED_AVG),
        _than("control: MPN-COV above average pooling, last stride removed from both", Arm(pool="mpn", stride=False),
              removed),
        _than("control: MPN-COV above average pooling, last stride removed from the latter", MPN, removed),
    )  # fmt: skip


def _iterations() -> tuple[Comparison[Arm], ...]:
    one, three, seven = (Arm(pool=f"isqrt:iterations={n}") for n in (1, 3, 7))
    more = [Arm(pool=f"isqrt:iterations={n}") for n in ITERATIONS if n > 7]
    return (
        _than("N = 1 above plain covariance", one, COV),
        _than("N = 3 agrees with MPN-COV", three, MPN, "agrees"),
        _than("N = 5 as good as MPN-COV", ISQRT, MPN, "as good"),
        _than("N = 7 as good as MPN-COV", seven, MPN, "as good"),
        *(_than(f"N = 5 as good as N = {arm.pool.split('=')[1]}", ISQRT, arm, "as good") for arm in more),
    )


def _powers() -> tuple[Comparison[Arm], ...]:
    found = []
    for alpha in ALPHAS:
        arm, flat = Arm(pool=f"mpn:alpha={alpha}"), 0.4 <= alpha <= 0.9
        text = f"alpha = 0.5 {'agrees with' if flat else 'above'} {alpha}"
        found.append(_than(text, MPN, arm, "agrees" if flat else "better"))
    return (*found, _than("alpha = 0.5 above 1", MPN, COV))


def _normalizations() -> tuple[Comparison[Arm], ...]:
    alone = {"M-Fro": "mpn:alpha=1:normalization=frobenius", "M-l2": "mpn:alpha=1:normalization=spectral",
             "E-PN": "cov:normalize=epn"}  # fmt: skip
    added = {"M-Fro": "mpn:normalization=frobenius", "M-l2": "mpn:normalization=spectral", "E-PN": "mpn:normalize=epn"}
    return (
        *(_than(f"MPN above {name} alone", MPN, Arm(pool=pool)) for name, pool in alone.items()),
        *(_than(f"MPN above MPN with {name}", MPN, Arm(pool=pool)) for name, pool in added.items()),
    )


def _embeddings() -> tuple[Comparison[Arm], ...]:
    ours = Arm(pool="gaussian")
    names = {"calvo": "Calvo and Oller's", "lovric": "Lovric's", "nakayama": "Nakayama's", "log": "the log-Euclidean",
             "cholesky": "the Cholesky"}  # fmt: skip
    return (
        _than("G2DeNet as good as MPN-COV", ours, MPN, "as good"),
        *(_than(f"its square root above {name} embedding", ours, Arm(pool=f"gaussian:kind={kind}"))
          for kind, name in names.items()),
    )  # fmt: skip


def _all_pools() -> tuple[Comparison[Arm], ...]:
    ours = Arm(pool="isqrt", flips=True)
    others = [Arm(pool=pool, flips=True) for pool in list_pools() if pool != "isqrt"]
    return tuple(_than(f"iSQRT-COV as good as {arm.pool}", ours, arm, "as good") for arm in others)


def _per_class() -> tuple[Comparison[Arm], ...]:
    found = []
    for classifier, what in (("logistic", "logistic regression"), ("prototypes", "class means")):
        for count in (*PER_CLASS, 0):
            first, second = (
                Arm(pool=pool, per_class=count, classifier=classifier)  # type: ignore[arg-type]
                for pool in ("isqrt", "avg")
            )
            images = f"{count or 'all'} image{'s' * (count != 1)} per class"
            found.append(_than(f"iSQRT-COV above average pooling, {images}, {what}", first, second))
    return tuple(found)


def _widths() -> tuple[Comparison[Arm], ...]:
    by_width = {width: Arm(pool="isqrt", width=width) for width in WIDTHS}
    taps = [(Arm(pool="isqrt", level=tap), Arm(pool="avg", level=tap), tap) for tap in TAPS]
    return (
        *(_than(f"{width} channels above average pooling", arm, AVG) for width, arm in by_width.items()),
        *(_than(f"iSQRT-COV above average pooling at {tap}", first, second) for first, second, tap in taps),
    )


def _robustness() -> tuple[Comparison[Arm], ...]:
    calibration = Comparison("calibration error at most one point above average pooling's", ((1, ISQRT), (-1, AVG)),
                             "as good", measure="calibration")  # fmt: skip
    corrupted = [(name, Arm(pool="isqrt", corruption=name), Arm(pool="avg", corruption=name)) for name in CORRUPTIONS]
    return (calibration, *(_than(f"above average pooling under {name}", a, b) for name, a, b in corrupted))


_WIDTH = {width: Arm(pool="isqrt", width=width) for width in (50, *WIDTHS)}
_SHRINKAGE = {"Ledoit-Wolf": "cov:shrinkage=ledoit_wolf", "OAS": "cov:shrinkage=oas"}
_WEIGHTS = (0.3, 3.0)

CLAIMS: tuple[Claim[Arm], ...] = (
    Claim(1, "second order", "Plain covariance beats average pooling, and MPN-COV beats plain covariance.", _order(),
          "AlexNet on ImageNet, top-1 error: 41.5 (no covariance), 40.4 (plain), 38.5 (MPN-COV)"),
    Claim(4, "iterations", "iSQRT-COV beats plain covariance with one iteration, is close to MPN-COV with three, "
          "matches it with five to seven, and gains nothing from more.", _iterations(),
          "N = 1 is 1.3 points above plain covariance, N = 3 is 0.3 points from MPN-COV, N = 5 to 7 marginally better",
          plotted=(Arm(pool="isqrt:iterations=2"),)),
    Claim(2, "power", "alpha = 1/2 is the best power, and [0.4, 0.9] is nearly flat.", _powers(),
          "alpha = 1/2 is best, [0.4, 0.9] flat, far smaller powers are worse than plain covariance"),
    Claim(3, "normalizations", "The matrix power alone beats M-Fro, M-l2 and E-PN, and adding them to it hurts.",
          _normalizations(), "top-1 error: MPN 38.5; M-Fro 39.9, M-l2 39.7, E-PN 39.9; added to MPN 39.9, 39.6, 40.8"),
    Claim(5, "pre-normalization", "Division by the trace is at least as good as by the Frobenius norm.",
          (_than("trace as good as Frobenius norm", ISQRT, Arm(pool="isqrt:prenorm=frobenius"), "as good"),),
          "top-1 error: trace 38.45, Frobenius norm 38.78"),
    Claim(7, "Gaussian embeddings", "G2DeNet is at least as good as MPN-COV, and its square-root embedding beats the "
          "other embeddings of a Gaussian.", _embeddings(),
          "VGG-16 on CUB: 83.5 (Nakayama), 84.1 (Calvo, Lovric), 83.8 (log-Euclidean), 87.1 (G2DeNet)"),
    Claim(18, "against all pools", "iSQRT-COV is at least as good as every other pool.", _all_pools(),
          "iSQRT-COV has the best accuracy of all compared methods on CUB and Cars",
          remark="Neither the reduction nor the pool is trained here; pools that start from random weights are meant "
          "to be trained."),
    Claim(21, "image size", "The gain over average pooling grows with the image size.",
          (_grows(128, 224), _grows(224, 320), _grows(320, 384)),
          plotted=tuple(Arm(pool=pool, size=size) for size in (160, 256) for pool in ("avg", "isqrt"))),
    Claim(22, "images per class", "iSQRT-COV beats average pooling with any number of training images per class.",
          _per_class(), remark="With one image per class there is nothing to cross-validate: the penalty is 1e-6."),
    Claim(15, "matrix logarithm", "The matrix logarithm hurts.",
          (_than("MPN-COV above DeepO2P", Arm(pool="mpn", flips=True), Arm(pool="deepo2p", flips=True)),
           _than("plain covariance above DeepO2P", Arm(pool="cov", flips=True), Arm(pool="deepo2p", flips=True)),
           _than("square root above logarithm of the same Gaussian", Arm(pool="gaussian"),
                 Arm(pool="gaussian:kind=log"))),
          "AlexNet on ImageNet, top-1 error: DeepO2P 42.2, without covariance 41.8, MPN-COV 38.5",
          plotted=(Arm(pool="mpn", classifier="spectrum"),)),
    Claim(13, "fusion", "The fused scores of average pooling and iSQRT-COV beat either alone.",
          (_than("fused above iSQRT-COV", Arm(pool="avg+isqrt"), ISQRT), _than("fused above average pooling",
           Arm(pool="avg+isqrt"), AVG)), "iNaturalist 2018, top-3 error: iSQRT-COV 14.7, fused 14.6 to 13.1"),
    Claim(12, "SVM and softmax", "A linear SVM and a softmax classifier agree.",
          tuple(_than(f"the SVM agrees with the softmax on {name}", Arm(pool=arm.pool, classifier="svm"), arm, "agrees")
                for name, arm in (("iSQRT-COV", ISQRT), ("MPN-COV", MPN))),
          "iSQRT-COV on CUB, Aircraft and Cars: at most 0.5 points apart",
          remark="C = 1 on vectors of unit length, as in the paper. The SVM is not tuned, the softmax is."),
    Claim(8, "width", "A wider reduction is better, and a compact one still beats average pooling.",
          (*(_than(f"{large} channels above {small}", _WIDTH[large], _WIDTH[small])
             for small, large in pairwise((64, 128, 256))),
           _than("64 channels (2K numbers) above average pooling", _WIDTH[64], AVG),
           _than("control: at equal size (50 channels, 1,275 numbers) above average pooling", _WIDTH[50], AVG)),
          "ResNet-50, top-1 error: 24.7 (average pooling), 23.7 (64), 22.8 (128), 22.1 (256 channels)",
          remark="The progressive reduction needs training: two PCAs in a row are one."),
    Claim(19, "robust estimation", "MPN-COV, a robust estimator of the covariance, beats other shrinkage estimators.",
          (*(_than(f"MPN-COV above {name}", MPN, Arm(pool=pool)) for name, pool in _SHRINKAGE.items()),
           *(_than(f"MPN-COV (vN-MLE with gamma = 1) as good as gamma = {gamma:g}", MPN,
                   Arm(pool=f"mpn:gamma={gamma:g}"), "as good") for gamma in _WEIGHTS),
           _than("MPN-COV as good as with Ledoit-Wolf before the root", MPN, Arm(pool="mpn:shrinkage=ledoit_wolf"),
                 "as good")),
          "the square root is the maximum likelihood estimate with a von Neumann regularizer; no numbers"),
    Claim(23, "width and tap", "The gain over average pooling holds at every width and at earlier taps.", _widths()),
    Claim(25, "calibration and robustness", "iSQRT-COV is as well calibrated as average pooling and stays ahead on "
          "corrupted images.", _robustness()),
    Claim(24, "transformer tokens", "Covariance pooling of the tokens of a vision transformer beats its class token "
          "and their mean.", (), remark="No weights of a vision transformer are available to these experiments."),
)  # fmt: skip
