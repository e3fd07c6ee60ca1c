"""The paper's table of efficiency (Appendix III) with our own figures beside it."""

import time
import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from covpool._errors import check_positive_int
from covpool.models._cost import cost
from covpool.models._networks import BASES, create_model, split_name


@dataclass(frozen=True)
class PaperRow:
    """A row of Appendix III: 224 px, on the authors' machine; errors in percent, 1-crop, ImageNet."""

    parameters: str
    gflops: str
    milliseconds: float
    memory: str
    top1_error: float
    top5_error: float


PAPER: dict[str, PaperRow] = {
    "resnet18": PaperRow("11.69M", "1.82", 0.60, "763M", 30.24, 10.92),
    "resnet18_isqrt_32k": PaperRow("44.20M", "3.22", 0.95, "1263M", 24.52, 7.77),
    "resnet18_isqrt_8k": PaperRow("19.49M", "3.10", 0.85, "883M", 24.93, 7.86),
    "resnet34": PaperRow("21.80M", "3.67", 0.88, "901M", 26.70, 8.58),
    "resnet34_isqrt_32k": PaperRow("54.31M", "5.77", 1.15, "1407M", 22.89, 6.64),
    "resnet34_isqrt_8k": PaperRow("29.71M", "5.56", 1.10, "1029M", 23.20, 6.89),
    "resnet50": PaperRow("25.56M", "3.86", 1.29, "975M", 24.70, 7.80),
    "resnet50_isqrt_32k": PaperRow("56.93M", "6.31", 1.50, "1463M", 22.14, 6.22),
    "resnet50_isqrt_8k": PaperRow("32.32M", "6.19", 1.49, "1085M", 22.33, 6.28),
    "resnet101": PaperRow("44.55M", "7.57", 1.72, "1233M", 23.60, 7.10),
    "resnet101_isqrt_32k": PaperRow("75.92M", "10.02", 1.87, "1733M", 21.21, 5.68),
    "resnet101_isqrt_8k": PaperRow("51.31M", "9.903", 1.83, "1355M", 21.32, 5.70),
    "resnet152": PaperRow("60.19M", "11.28", 2.55, "1483M", 23.00, 6.70),
}


@dataclass(frozen=True)
class Efficiency:
    """The cost of a network of the paper.

    Attributes:
        name: Name of the network.
        paper: Its row in Appendix III, None if it has none.
        parameters: Exact number of parameters.
        representation: Length of the pooled vector.
        gmacs: 10^9 multiply-adds for one image, as covpool runs it.
        gmacs_paper: The same, counted as in the paper (`covpool.models.Cost`).
        milliseconds: Median time for one image in evaluation; None if not measured.
        memory: Peak of the memory of all live tensors in MiB, parameters included; None if not measured.
        device: Device of the measurement.
        batch: Images per batch in the measurement.
    """

    name: str
    paper: PaperRow | None
    parameters: int
    representation: int
    gmacs: float
    gmacs_paper: float
    milliseconds: float | None = None
    memory: float | None = None
    device: str = "cpu"
    batch: int = 1


def efficiency(
    name: str, *, measure: bool = True, device: str = "cpu", batch: int = 1, repetitions: int = 5
) -> Efficiency:
    """Compare a network of the paper with its row in Appendix III: printed, counted, and measured on this machine.

    Args:
        name: One of `covpool.list_models()`.
        measure: Measure time and memory; otherwise only count.
        device: Device of the measurement.
        batch: Images per batch.
        repetitions: Number of timed forward passes.

    Reference: "Deep CNNs Meet Global Covariance Pooling", Appendix III.

    >>> row = efficiency("resnet18_isqrt_8k", measure=False)
    >>> row.parameters, row.paper.parameters, f"{row.gmacs_paper:.3f}", row.paper.gflops
    (19598120, '19.49M', '3.108', '3.10')
    """
    check_positive_int("batch", batch)
    check_positive_int("repetitions", repetitions)
    with torch.device(device if measure else "meta"):
        network = create_model(name).eval()
    side = BASES[split_name(name)[0]].image
    image = (3, side, side)
    counted = cost(network, image)
    milliseconds = memory = None
    if measure:
        x = torch.randn(batch, *image, device=device)
        milliseconds = _milliseconds(network, x, repetitions) / batch
        memory = _peak_mebibytes(network, x)
    return Efficiency(
        name,
        PAPER.get(name),
        sum(p.numel() for p in network.parameters()),
        network.pool.out_features,
        counted.total / 1e9,
        counted.paper / 1e9,
        milliseconds,
        memory,
        device,
        batch,
    )


@torch.inference_mode()
def _milliseconds(network: nn.Module, x: Tensor, repetitions: int) -> float:
    """The median time of one call, after a call to warm up."""
    times = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        network(x).sum().item()  # reading a value waits for the device
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times[1:])[repetitions // 2]


@torch.no_grad()
def _peak_mebibytes(network: nn.Module, x: Tensor) -> float:
    """The peak memory of all live tensors during a call, with the parameters."""
    watch = _LiveTensors()
    for tensor in (*network.parameters(), *network.buffers(), x):
        watch.add(tensor)
    with watch:
        network(x)
    return watch.peak / 2**20


class _LiveTensors(TorchDispatchMode):
    """Adds the size of each storage that an operation creates, and subtracts it when the storage is freed."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: set[int] = set()

    def add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.known:
            return
        self.known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self.add(leaf)
        return result
