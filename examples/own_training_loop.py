"""A covariance pool inside a network and a training loop of your own, in plain PyTorch.

    python examples/own_training_loop.py

The images are generated: both classes have the same mean color, and only the correlation of two colors differs. Average
pooling of linear features cannot see that, and a covariance can. Replace `make_batch` and the features by your own.
"""

import argparse

import torch
from torch import Tensor, nn

import covpool


def make_batch(count: int) -> tuple[Tensor, Tensor]:
    """Noise in which red and green are correlated (class 1) or not (class 0)."""
    targets = torch.randint(2, (count,))
    images = torch.randn(count, 3, 32, 32)
    mixed = (images[:, 0] + images[:, 1]) / 2**0.5
    images[:, 1] = torch.where(targets[:, None, None] == 1, mixed, images[:, 1])
    return images, targets


def make_network(pool_name: str) -> nn.Sequential:
    """A small network: a convolution, the pool, a linear classifier."""
    features = nn.Conv2d(3, 16, 3, stride=2)
    pool = covpool.create_pool(pool_name, in_features=16)
    return nn.Sequential(features, pool, nn.Linear(pool.out_features, 2))


def train(network: nn.Module, steps: int) -> float:
    """Train with SGD; returns the accuracy on new images."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        images, targets = make_batch(32)
        loss = nn.functional.cross_entropy(network(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images, targets = make_batch(500)
    with torch.no_grad():
        return (network(images).argmax(1) == targets).float().mean().item()


def main() -> None:
    """Compare average pooling with iSQRT-COV."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    for name in ("avg", "isqrt"):
        torch.manual_seed(0)
        print(f"{name}: {train(make_network(name), steps):.1%}")


if __name__ == "__main__":
    main()
