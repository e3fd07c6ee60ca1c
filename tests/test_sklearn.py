"""The transformer for scikit-learn, with scikit-learn's own checks.

Checks that fit matrices of random numbers do not apply, because the transformer takes images: check_fit2d_1sample,
check_n_features_in, check_transformer_general, check_estimators_dtypes, check_estimators_pickle and the like. What they
look for is tested with images below: repeatable fits, pickles, names of features, errors before `fit`.
"""

import pickle
from pathlib import Path

import joblib
import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks

import covpool.sklearn as module
from covpool import CovpoolError
from covpool.sklearn import CovarianceFeatures

APPLICABLE = (
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_mixin_order",
    "check_get_feature_names_out_error",
)


def features(**options: object) -> CovarianceFeatures:
    return CovarianceFeatures(
        "test_resnet", **{"pretrained": False, "width": 8, "size": 64, "batch_size": 5, **options}
    )


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Stripes in two directions: their means agree, their covariances do not."""
    noise = np.random.default_rng(0).integers(0, 256, (16, 70, 70, 3), dtype=np.uint8)
    noise[::2] = noise[::2, :1]
    noise[1::2] = noise[1::2, :, :1]
    return noise


@pytest.mark.parametrize("name", APPLICABLE)
def test_checks_of_scikit_learn(name: str) -> None:
    if not hasattr(checks, name):
        pytest.skip("this release of scikit-learn does not have it")
    getattr(checks, name)("CovarianceFeatures", CovarianceFeatures())


def test_fits_are_repeatable_and_equal_fit_and_transform(images: np.ndarray) -> None:
    fitted = features()
    z = fitted.fit_transform(images)
    assert z.shape == (16, 36) and z.dtype == np.float32
    assert np.allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    assert np.allclose(fitted.transform(images), z, atol=1e-4)
    assert np.array_equal(clone(fitted).fit(images).transform(images), fitted.transform(images))
    assert list(fitted.get_feature_names_out()[:2]) == ["covariancefeatures0", "covariancefeatures1"]
    assert len(fitted.get_feature_names_out()) == 36


def test_paths_images_and_arrays_give_the_same_vectors(images: np.ndarray, tmp_path: Path) -> None:
    fitted = features().fit(list(images))
    paths = [tmp_path / f"{i}.png" for i in range(4)]
    for path, image in zip(paths, images, strict=False):
        Image.fromarray(image).save(path)
    expected = fitted.transform(images[:4])
    for same in (paths, list(map(str, paths)), np.array(list(map(str, paths))), [Image.open(path) for path in paths]):
        assert np.array_equal(fitted.transform(same), expected)
    gray = images[:1, :, :, 0]
    assert np.array_equal(fitted.transform(gray), fitted.transform(np.stack([gray] * 3, axis=-1)))


def test_more_images_than_a_pool_starts_from(images: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_IMAGES", 4)
    monkeypatch.setattr(module, "spread", lambda count: list(range(0, count, 4)))
    fitted = features()
    z = fitted.fit_transform(images)
    assert np.array_equal(z, fitted.transform(images)) and len(z) == 16
    monkeypatch.undo()
    assert np.array_equal(z, features().fit(images[::4]).transform(images))


def test_pickles_and_joblib_keep_the_network(images: np.ndarray, tmp_path: Path) -> None:
    fitted = features(pool="gaussian", normalize=False).fit(images)
    expected = fitted.transform(images)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(images), expected)
    joblib.dump(make_pipeline(fitted), tmp_path / "pipeline.joblib")
    assert np.array_equal(joblib.load(tmp_path / "pipeline.joblib").transform(images), expected)
    assert "network_" in vars(fitted)
    assert pickle.loads(pickle.dumps(features())).get_params() == features().get_params()


def test_pipeline_and_grid_search(images: np.ndarray) -> None:
    pipeline = make_pipeline(features(), LogisticRegression())
    search = GridSearchCV(pipeline, {"covariancefeatures__pool": ["avg", "isqrt"]}, cv=2)
    search.fit(list(images), np.arange(16) % 2)
    assert search.score(images, np.arange(16) % 2) == 1
    assert len(search.best_estimator_.named_steps["covariancefeatures"].transform(images[:2])) == 2


def test_mistakes(images: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        features().transform(images)
    with pytest.raises(CovpoolError, match="at least one image"):
        features().fit([])
    with pytest.raises(TypeError, match="a list of images; got a single str"):
        features().fit("bird.jpg")
    with pytest.raises(TypeError, match=r"got ndarray of shape \(3,\) and type float64"):
        features().fit(np.ones((4, 3)))
    with pytest.raises(CovpoolError, match=r"none.png cannot be read \(no such file or directory\): repair it, or"):
        features().fit([tmp_path / "none.png"])
    with pytest.raises(CovpoolError, match="`width` must be a positive integer; got 0"):
        features(width=0).fit(images)
    with pytest.raises(CovpoolError, match="did you mean 'isqrt'"):
        features(pool="isqt").fit(images)
