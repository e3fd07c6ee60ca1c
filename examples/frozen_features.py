"""Vectors of a frozen backbone in a scikit-learn pipeline, with cross-validation over pools.

python examples/frozen_features.py FOLDER        # FOLDER/CLASS/IMAGE; downloads the weights of the backbone
python examples/frozen_features.py               # generated images and a tiny backbone with random weights
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from covpool.data import find_images
from covpool.sklearn import CovarianceFeatures


def make_images(root: Path) -> Path:
    """Stripes in two directions: their mean colors agree."""
    rng = np.random.default_rng(0)
    for i in range(16):
        stripes = np.broadcast_to(rng.integers(0, 256, (1, 64, 3)), (64, 64, 3)).astype(np.uint8)
        path = root / ("vertical", "horizontal")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(stripes if i % 2 == 0 else stripes.transpose(1, 0, 2)).save(path)
    return root


def search(folder: Path, features: CovarianceFeatures) -> GridSearchCV:
    """Choose the pool and the penalty by cross-validation."""
    paths = sorted(find_images(folder))
    grid = {"covariancefeatures__pool": ["avg", "isqrt"], "logisticregression__C": [1, 100]}
    found = GridSearchCV(make_pipeline(features, LogisticRegression(max_iter=1000)), grid, cv=2)
    return found.fit(paths, [path.parent.name for path in paths])


def main() -> None:
    """Print the best pool and its accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            images = make_images(Path(scratch))
            found = search(images, CovarianceFeatures("test_resnet", pretrained=False, width=8, size=64))
        else:
            found = search(folder, CovarianceFeatures("torchvision/mobilenet_v2"))
    print(f"{found.best_score_:.1%} in cross-validation with {found.best_params_}")


if __name__ == "__main__":
    main()
