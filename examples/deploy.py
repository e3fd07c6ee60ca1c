"""Save a network as one file, load it again, and export it for a runtime without covpool.

python examples/deploy.py                        # a small network with random weights
python examples/deploy.py CHECKPOINT             # a checkpoint of `covpool fit` or `covpool train`
"""

import argparse
import tempfile
from pathlib import Path

import torch

import covpool


def make_checkpoint(folder: Path) -> Path:
    """A network with random weights, class names and preprocessing, in one file."""
    torch.manual_seed(0)
    network = covpool.attach("test_resnet", "isqrt", num_classes=3, reduce_to=16).eval()
    path = folder / "model.safetensors"
    covpool.save(network, path, class_names=["cat", "dog", "fox"], preprocessing={"size": 64})
    return path


def deploy(checkpoint: Path, out: Path) -> float:
    """Export a checkpoint as a torch.export program; returns its largest difference from the network."""
    about = covpool.io.read_checkpoint(checkpoint)
    network = covpool.load(checkpoint)
    size = about.preprocessing.size
    done = covpool.io.export(network, out, to="pt2", sizes=(size, size + 32))
    program = torch.export.load(out).module()
    images = torch.randn(2, 3, size, size)
    assert program(images).argmax(1).tolist() == network(images).argmax(1).tolist()
    return done.largest_error


def main() -> None:
    """Export a checkpoint and compare the result with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, nargs="?")
    given = parser.parse_args().checkpoint
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = given or make_checkpoint(Path(scratch))
        out = checkpoint.with_suffix(".pt2")
        print(f"{out.name}: differs by {deploy(checkpoint, out):.1e} of the largest output")


if __name__ == "__main__":
    main()
