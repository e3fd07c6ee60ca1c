"""Comparing pools on frozen features: the protocol, the stored files and the summary."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import Tensor, nn

import covpool
from covpool.data._settings import Augment, Data, ResolvedAugment
from covpool.data.pipeline._batches import EvalBatches
from covpool.data.sets._open import open_data
from covpool.models import Backbone
from covpool.studies._feature_maps import Maps, compute_maps
from covpool.studies._pool_spec import PoolSpec
from covpool.studies.probe import _inputs as module
from covpool.studies.probe._convex import run_convex
from covpool.studies.probe._fit import fit, logits
from covpool.studies.probe._inputs import ProbeInputs, make_heads, resolve_inputs
from covpool.studies.probe._lr_choice import choose_lr, held_out
from covpool.studies.probe._plot import LETTER, LINE, label_shifts
from covpool.studies.probe._probe import no_costs, probe
from covpool.studies.probe._result import ProbeResult, pack, read_results, rights
from covpool.studies.probe._settings import Probe, chosen_pools, read_probe
from covpool.studies.probe._summary import recommended, summarize
from tiny import make_tree
from trees import break_image

PROBE = Probe(
    backbone="test_resnet",
    pretrained=False,
    pools=("avg", "isqrt"),
    classifier="sgd",
    reduce_to=8,
    epochs=2,
    batch_size=12,
    seeds=(0, 1),
    maps="fp32",
    extend_lr=0,
    refine_lr=False,
    folds=1,
    augment=Augment(**dict(ResolvedAugment(size=32, resize=(32,)))),
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("data"))


@pytest.fixture
def settings(root: Path) -> Probe:
    return PROBE.changed(data=Data(root=str(root), workers=0))


def result(pool: str, right: Iterable[Iterable[int]], **changes: object) -> list[ProbeResult]:
    """The runs of a pool, one per row of `right`."""
    rows = [torch.tensor(list(row), dtype=torch.bool) for row in right]
    runs = [ProbeResult(key="k", pool=pool, seed=s, top1=float(row.double().mean()), images=len(row), right=pack(row))
            for s, row in enumerate(rows)]  # fmt: skip
    return [replace(run, **changes) for run in runs]  # type: ignore[arg-type]


class TestSettings:
    def test_pools_with_options_and_without_quotes(self) -> None:
        typed = read_probe(["backbone=resnet18", "pools=[avg, spdnet:dims=[8,4], isqrt:iterations=3:normalize=l2]"])
        assert chosen_pools(typed) == {
            "avg": ("avg", {}),
            "spdnet:dims=[8,4]": ("spdnet", {"dims": [8, 4]}),
            "isqrt:iterations=3:normalize=l2": ("isqrt", {"iterations": 3, "normalize": "l2"}),
        }
        assert read_probe(["backbone=resnet18", 'pools=["avg", "max"]']).pools == ("avg", "max")

    def test_all_is_every_registered_pool_once(self) -> None:
        chosen = chosen_pools(read_probe(["backbone=resnet18", "pools=[isqrt,all]"]))
        assert next(iter(chosen)) == "isqrt" and sorted(chosen) == sorted(covpool.list_pools())

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("pools=isqrtt", "did you mean 'isqrt'"),
            ("pools=isqrt:5", "NAME:option=value"),
            ("pools=[]", "at least one"),
            ("epochs=0", "`epochs` must be a positive integer"),
            ("lr=[0.1, -1]", "more than 0"),
            ("held_out=1", "more than 0 and below 1"),
            ("folds=5", "at most 1"),
            ("clip_norm=-1", "at least 0"),
            ("head_facto=1", "did you mean 'head_factor'"),
            ("augment.size=0", "`augment.size` must be a positive integer, at most 16384; got 0"),
            ("data.workers=-1", "`data.workers` must be a whole number, at least 0 and at most 256; got -1"),
            ("augment.siz=32", "did you mean 'augment.size'"),
            ("pretrained=yes", "true or false"),
            ("classifier=svm", "logistic"),
            ("size=-1", "`size` must be"),
            ("backbone=", "no backbone"),
        ],
    )
    def test_mistakes_are_named(self, setting: str, message: str) -> None:
        with pytest.raises((ValueError, TypeError), match=message):
            read_probe(["backbone=resnet18", setting])

    def test_a_pool_that_cannot_be_built_is_refused_before_the_work(self, settings: Probe) -> None:
        with pytest.raises(ValueError, match=r"the pool isqrt cannot be built.*did you mean 'iterations'"):
            next(probe(settings.changed(pools=("isqrt:iteration=3",))))


class TestMaps:
    def test_features_of_images_and_flipped_images(self, settings: Probe) -> None:
        torch.manual_seed(0)
        backbone = nn.Conv2d(3, 4, 3).double()  # not symmetric: a flipped map is not the map of the flipped image
        images = open_data(settings.data).train
        batches = EvalBatches(images, settings.augment.complete(), settings.data, batch_size=7)
        kept = compute_maps(
            nn.Sequential(_Double(), backbone), batches, len(images), flipped=True, dtype=torch.float32, keep_on="cpu"
        )
        x = torch.cat([batch.x for batch in batches]).double()
        assert kept.targets.tolist() == images.targets and len(kept) == len(images)
        torch.testing.assert_close(kept.features[: len(x)].double(), backbone(x), atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(kept.features[len(x) :].double(), backbone(x.flip(-1)), atol=1e-6, rtol=1e-6)
        features, targets = kept.batch(torch.tensor([2, len(x) + 5]))
        assert (
            torch.equal(features, kept.features[[2, len(x) + 5]]) and targets.tolist() == kept.targets[[2, 5]].tolist()
        )

    def test_what_cannot_be_read_is_left_out(self, tmp_path: Path) -> None:
        root = make_tree(tmp_path, train=2, test=2)
        break_image(root / "train" / "green" / "0.png")
        data = Data(root=str(root), workers=0, broken="skip")
        batches = EvalBatches(open_data(data).train, PROBE.augment.complete(), data, batch_size=4)
        kept = compute_maps(nn.Conv2d(3, 4, 3), batches, 6, flipped=True, dtype=torch.float16, keep_on="cpu")
        assert kept.targets.tolist() == [0, 0, 1, 2, 2] and len(kept.features) == 10
        assert (kept.features.flatten(1).abs().amax(1) > 0).all()

    def test_overflow_is_told(self, settings: Probe) -> None:
        batches = EvalBatches(open_data(settings.data).test, settings.augment.complete(), settings.data, batch_size=12)
        convolution = nn.Conv2d(3, 4, 3)
        nn.init.constant_(convolution.bias, 1e6)
        with pytest.raises(ValueError, match="maps=bf16"):
            compute_maps(convolution, batches, 12, flipped=False, dtype=torch.float16, keep_on="cpu")


class _Double(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.double()


class TestFit:
    def test_sgd_with_momentum_warm_up_cosine_and_clipping(self) -> None:
        """Average pooling and full batches: softmax regression, written out in float64."""
        torch.manual_seed(0)
        maps = torch.randn(6, 5, 2, 2)
        targets = torch.tensor([0, 1, 2, 0, 1, 2])
        settings = PROBE.changed(epochs=7, batch_size=6, weight_decay=0.1, head_factor=3.0)
        settings = settings.changed(warmup_epochs=2.0, clip_norm=0.28)
        head = PoolSpec("avg", {}, 5, "auto", 3)
        kept = Maps(torch.cat((maps, maps)), targets)  # flipped images are the same, so the order does not matter
        found = fit(head, kept, torch.arange(6), settings, lr=0.2, seed=4).network.classifier

        torch.manual_seed(4)
        classifier = head.make()[1]
        weight, bias = classifier.weight.detach().double(), classifier.bias.detach().double()
        x, one_hot = maps.double().mean((2, 3)), torch.eye(3, dtype=torch.float64)[targets]
        speed, clipped = [torch.zeros_like(weight), torch.zeros_like(bias)], 0
        for step in range(7):
            lr = 0.2 * 3.0 * min(1, (step + 1) / 2) * (1 + math.cos(math.pi * step / 7)) / 2
            error = ((x @ weight.mT + bias).softmax(1) - one_hot) / 6
            slope = [error.mT @ x, error.sum(0)]
            shrink = min(1.0, 0.28 / float(torch.cat([g.flatten() for g in slope]).norm()))
            clipped += shrink < 1
            values = (weight, bias)
            speed = [0.9 * v + shrink * g + 0.1 * p for v, g, p in zip(speed, slope, values, strict=True)]
            weight, bias = weight - lr * speed[0], bias - lr * speed[1]
        assert 0 < clipped < 7
        torch.testing.assert_close(found.weight.detach().double(), weight, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(found.bias.detach().double(), bias, atol=1e-5, rtol=1e-5)

    def test_only_covariance_pooling_learns_from_correlations(self) -> None:
        torch.manual_seed(0)
        targets = torch.arange(120) % 2
        x = torch.randn(240, 4, 8, 8)
        x[:, 1] = x[:, 0] * (2.0 * targets.repeat(2) - 1)[:, None, None]  # correlated, or anti-correlated
        maps, everything = Maps(x, targets), torch.arange(120)
        settings = PROBE.changed(epochs=10)
        accuracy = {}
        for name in ("avg", "isqrt"):
            network = fit(PoolSpec(name, {}, 4, "auto", 2), maps, everything, settings, lr=1.0, seed=0).network
            accuracy[name] = float((logits(network, maps, everything).argmax(1) == targets).double().mean())
        assert accuracy["isqrt"] == 1.0 and accuracy["avg"] < 0.8

    def test_the_seed_decides_and_torchs_random_state_is_untouched(self) -> None:
        maps = Maps(torch.rand(24, 5, 3, 3), torch.arange(12) % 3)
        head = PoolSpec("netvlad", {"clusters": 4, "reduce_to": 6}, 5, "auto", 3)  # starts from data
        before = torch.get_rng_state()
        one, two, other = (fit(head, maps, torch.arange(12), PROBE, lr=0.1, seed=s).network for s in (1, 1, 2))
        assert torch.equal(before, torch.get_rng_state())
        answers = [logits(network, maps, torch.arange(12)) for network in (one, two, other)]
        assert torch.equal(answers[0], answers[1]) and not torch.equal(answers[0], answers[2])

    def test_the_step_of_divergence_is_recorded(self) -> None:
        maps = Maps(1e3 * torch.rand(24, 5, 3, 3), torch.arange(12) % 3)
        settings = PROBE.changed(epochs=10)
        fitted = fit(PoolSpec("cov", {}, 5, "auto", 3), maps, torch.arange(12), settings, lr=1e15, seed=0)
        assert fitted.diverged_at is not None and 1 <= fitted.diverged_at < 10


class TestChoice:
    def test_a_share_of_every_class_is_held_out(self) -> None:
        targets = torch.tensor([0] * 40 + [1] * 8 + [2] * 2 + [3])[torch.randperm(51)]
        chosen = held_out(targets, 0.25)
        assert [int(chosen[targets == c].sum()) for c in range(4)] == [10, 2, 1, 0]

    def choose(self, accuracy: dict[float, float], **changes: object) -> tuple[float, list[str]]:
        asked = PROBE.changed(**changes)  # type: ignore[arg-type]
        targets = torch.arange(40) % 4

        def evaluate(lr: float, fold: int, part: Tensor, rest: Tensor) -> tuple[float, float]:
            assert sorted([*part.tolist(), *rest.tolist()]) == list(range(40)) and len(rest) == 8
            return next((a, 0.0) for known, a in accuracy.items() if math.isclose(known, lr))

        tried = choose_lr(asked, targets, evaluate)
        return tried.lr, list(tried.accuracies)

    def test_the_best_on_held_out_images(self) -> None:
        assert self.choose({0.01: 0.3, 0.1: 0.5, 1.0: 0.4}, extend_lr=2) == (0.1, ["0.01", "0.1", "1"])

    def test_more_rates_are_tried_beyond_an_edge(self) -> None:
        up = {0.01: 0.3, 0.1: 0.5, 1.0: 0.6, 10.0: 0.7, 100.0: 0.2}
        assert self.choose(up, extend_lr=2) == (10.0, ["0.01", "0.1", "1", "10", "100"])
        assert self.choose(up, extend_lr=0) == (1.0, ["0.01", "0.1", "1"])

    def test_rates_between_neighbors_are_tried(self) -> None:
        peak = {0.01: 0.3, 0.1: 0.5, 1.0: 0.4, 0.0316: 0.45, 0.316: 0.6}
        assert self.choose(peak, refine_lr=True) == (0.316, ["0.01", "0.0316", "0.1", "0.316", "1"])
        edge = {0.01: 0.3, 0.1: 0.5, 1.0: 0.6, 0.316: 0.5}
        assert self.choose(edge, refine_lr=True) == (1.0, ["0.01", "0.1", "0.316", "1"])

    def test_folds_hold_out_other_images_and_divergence_rejects_a_rate(self) -> None:
        targets = torch.arange(40) % 4
        parts = torch.stack([held_out(targets, 0.25, fold) for fold in range(4)])
        assert int(parts.sum()) == 4 * 8
        assert int(parts.sum(0).max()) == 1  # no image twice

        def evaluate(lr: float, fold: int, part: Tensor, rest: Tensor) -> tuple[float, float]:
            assert torch.equal(rest, parts[fold].nonzero().flatten())
            return {0.01: (0.5, 0.6), 0.1: (0.7, 0.3), 1.0: (0.9, -1.0)}[lr][fold], 0.0

        tried = choose_lr(PROBE.changed(folds=2), targets, evaluate)
        assert tried.lr == 0.01 and tried.accuracies == {"0.01": pytest.approx(0.55), "0.1": 0.5, "1": -1.0}

    def test_smaller_rates_are_tried_if_all_diverge(self) -> None:
        lost = {0.01: -1.0, 0.1: -1.0, 1.0: -1.0, 0.001: 0.2, 0.0001: 0.1}
        lr, tried = self.choose(lost, extend_lr=2)
        assert lr == pytest.approx(0.001) and tried == ["0.0001", "0.001", "0.01", "0.1", "1"]


class TestProbe:
    def test_every_pool_is_trained_with_every_seed(self, settings: Probe) -> None:
        runs = list(probe(settings, measure=lambda call, device: {"ms_per_batch": 1.0}))
        assert [(run.pool, run.seed) for run in runs] == [("avg", 0), ("avg", 1), ("isqrt", 0), ("isqrt", 1)]
        for run in runs:
            assert not run.failed and run.images == 12 and run.costs == {"ms_per_batch": 1.0}
            assert run.top1 == float(rights([run]).mean()) and set(run.lr_tried) == {"0.01", "0.1", "1"}
            assert run.lr_tried[f"{run.lr:g}"] == max(run.lr_tried.values())
        sizes = {run.pool: (run.size, run.pool_parameters, run.classifier_parameters) for run in runs}
        reduction = next(iter(sizes.values()))[1]
        assert sizes == {"avg": (8, reduction, 3 * 9), "isqrt": (36, reduction, 3 * 37)}

    def test_known_results_are_reused(self, settings: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
        first = list(probe(settings))
        made = list(probe(settings.changed(pools=("avg", "max")), known=[*first, replace(first[0], failed="lost")]))
        assert made[:2] == first[:2] and made[2].pool == "max"

        def refuse(*args: object, **options: object) -> None:
            raise AssertionError("made again")

        monkeypatch.setattr(module, "compute_maps", refuse)
        assert list(probe(settings, known=first)) == first
        with pytest.raises(AssertionError, match="made again"):
            list(probe(settings.changed(epochs=3), known=first))

    def test_results_of_images_with_the_same_names_are_not_reused(self, tmp_path: Path) -> None:
        here, there = (make_tree(tmp_path / name) for name in ("here", "there"))
        asked = PROBE.changed(pools=("avg",), seeds=(0,), lr=(0.1,))
        (first,) = probe(asked.changed(data=Data(root=str(here), workers=0)))
        again = asked.changed(data=Data(root=str(there), workers=0))
        assert list(probe(again, known=[first])) == [first]  # the same images in another folder
        (there / "test" / "green" / "0.png").write_bytes((there / "test" / "red" / "0.png").read_bytes())
        (other,) = probe(again, known=[first])
        assert other.key != first.key

    def test_feature_maps_are_kept_on_disk(
        self, settings: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = settings.changed(pools=("avg",), seeds=(0,), lr=(0.1,), cache=str(tmp_path / "maps"))
        first = list(probe(asked))
        monkeypatch.setattr(module, "compute_maps", None)
        (again,) = probe(asked)
        assert replace(again, seconds=0) == replace(first[0], seconds=0)

    def test_maps_without_broken_images_are_not_used_where_these_are_refused(self, tmp_path: Path) -> None:
        root = make_tree(tmp_path / "data")
        break_image(root / "train" / "green" / "0.png")
        asked = PROBE.changed(pools=("avg",), seeds=(0,), lr=(0.1,), cache=str(tmp_path / "maps"))
        (skipped,) = probe(asked.changed(data=Data(root=str(root), workers=0, broken="skip")))
        assert not skipped.failed
        with pytest.raises(ValueError, match="cannot be read"):
            list(probe(asked.changed(data=Data(root=str(root), workers=0))))

    def test_a_pool_that_fails_does_not_stop_the_others(self, settings: Probe) -> None:
        runs = list(probe(settings.changed(pools=("lrbp:bottleneck=50", "avg"), seeds=(0,))))
        assert "number of channels, 8; got 50" in runs[0].failed and not runs[1].failed

    def test_a_pool_that_returns_scores(self, settings: Probe) -> None:
        (run,) = probe(settings.changed(pools=("lrbp:bottleneck=4:rank=2",), seeds=(0,), lr=(0.1,)))
        assert not run.failed and run.size == 16 and run.classifier_parameters == 0


class TestInputs:
    """Images are prepared as the backbone expects them; the widths of pools under logistic regression."""

    def augment(self, *settings: str) -> tuple[object, ...]:
        probe = read_probe(["backbone=torchvision/mobilenet_v2", *settings])
        found = resolve_inputs(probe, covpool.models.input_settings(probe.backbone, probe.weights)).augment
        return found.size, found.resize, found.mean[0]

    def test_a_backbone_has_weights_unless_it_is_told_otherwise(self) -> None:
        cases = {"": True, "weights=file.pth": False, "pretrained=false": False, "pretrained=true": True}
        for setting, expected in cases.items():
            assert read_probe(["backbone=resnet18", *filter(None, [setting])]).uses_pretrained is expected

    def test_size_and_crop_come_from_the_backbone(self) -> None:
        assert self.augment("weights=mobilenet_v2-b0353104.pth") == (224, (256,), 0.485)
        assert self.augment("weights=mobilenet_v2-7ebf99e0.pth") == (224, (232,), 0.485)
        assert self.augment("backbone=tf_efficientnet_lite0") == (224, (256,), 0.5)

    def test_another_size_keeps_the_crop_fraction(self) -> None:
        weights = "weights=mobilenet_v2-b0353104.pth"
        assert self.augment(weights, "size=320") == self.augment(weights, "augment.size=320") == (320, (366,), 0.485)
        assert self.augment(weights, "size=320", "augment.resize=[320]") == (320, (320,), 0.485)

    def test_another_normalization_than_that_of_the_weights_is_said(self, caplog: pytest.LogCaptureFixture) -> None:
        weights = "weights=mobilenet_v2-b0353104.pth"
        assert self.augment(weights, "augment.mean=[0.485, 0.456, 0.406]")[2] == 0.485 and not caplog.records
        assert self.augment(weights, "augment.mean=[0.5, 0.5, 0.5]")[2] == 0.5
        assert "`augment.mean` = [0.5, 0.5, 0.5] differs" in caplog.text

    def test_widths(self, settings: Probe) -> None:
        asked = settings.changed(classifier="logistic", reduce_to=256, pools=("all", "isqrt:reduce_to=16"))
        heads = make_heads(asked, cast(Backbone, SimpleNamespace(channels=(512,), layout="auto")), 3)
        channels = {label: head.make()[0].channels[0] for label, head in heads.items()}
        assert {label: n for label, n in channels.items() if n != 256} == {
            **dict.fromkeys(("avg", "gem", "max", "kernel"), 512),
            **{"mfafv": 128, "isqrt:reduce_to=16": 16},
        }


class TestConvex:
    @pytest.fixture
    def settings(self, root: Path) -> Probe:
        return Probe(
            backbone="test_resnet",
            pretrained=False,
            pools=("avg", "isqrt", "svpn:heads=2:head_features=4"),
            reduce_to=8,
            maps="fp32",
            augment=Augment(size=32, resize=(32,)),
            data=Data(root=str(root), workers=0),
        )

    def test_one_fit_per_pool_and_three_for_random_weights(self, settings: Probe) -> None:
        runs = list(probe(settings, measure=lambda call, device: {"ms_per_batch": call() or 1.0}))
        assert [(run.pool, run.seed, run.random) for run in runs] == [
            *[("avg", 0, False), ("isqrt", 0, False)],
            *[("svpn:heads=2:head_features=4", seed, True) for seed in (0, 1, 2)],
        ]
        for run in runs:
            assert not run.failed and run.images == 12 and run.costs == {"ms_per_batch": 1.0}
            assert run.top1 == float(rights([run]).mean())
            assert run.held_out == max(run.penalties_tried.values()) == run.penalties_tried[f"{run.penalty:g}"]
        average, isqrt = runs[:2]
        assert average.channels == average.size > isqrt.channels == 8 and isqrt.size == 36
        assert average.pool_parameters == 0 and isqrt.classifier_parameters == 3 * 37

    def test_settings_of_sgd_do_not_matter(self, settings: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
        first = list(probe(settings))
        monkeypatch.setattr(module, "compute_maps", None)
        assert list(probe(settings.changed(epochs=3, seeds=(0, 1)), known=first)) == first[:-1]

    def test_the_seed_decides_and_torchs_random_state_is_untouched(self, settings: Probe) -> None:
        maps = Maps(torch.rand(48, 5, 3, 3), torch.arange(24) % 3)
        inputs = ProbeInputs(settings, {"smso": PoolSpec("smso", {"p": 8}, 5, "auto", 3)}, maps, maps, "key")
        before = torch.get_rng_state()
        one, two, other = (run_convex(inputs, "smso", seed, None, no_costs).penalties_tried for seed in (1, 1, 2))
        assert torch.equal(before, torch.get_rng_state()) and one == two != other

    def test_a_pool_that_gives_scores_gives_its_representation(self, settings: Probe) -> None:
        runs = list(probe(settings.changed(pools=("lrbp:bottleneck=4:rank=2", "fbn"))))
        assert [(run.failed, run.size, run.classifier_parameters) for run in runs] == [
            *[("", 16, 3 * 17), ("", 72, 3 * 73)],
        ]


class TestPlot:
    def test_labels_cover_no_label_and_no_point(self) -> None:
        generator = torch.Generator().manual_seed(0)
        points = [(float(x), float(y)) for x, y in 50 + 300 * torch.rand(28, 2, generator=generator).square()]
        labels = [f"pool_{i}" for i in range(28)]
        shifts = label_shifts(points, labels, (0, 0, 450, 400))
        boxes = [(x + dx, y + dy, x + dx + LETTER * len(label), y + dy + LINE)
                 for (x, y), (dx, dy), label in zip(points, shifts, labels, strict=True)]  # fmt: skip
        for i, (left, low, right, high) in enumerate(boxes):
            assert left > 0 and low > 0 and right < 450 and high < 400
            assert not any(left < x < right and low < y < high for x, y in points)
            for other in boxes[:i]:
                assert right <= other[0] or other[2] <= left or high <= other[1] or other[3] <= low


class TestSummary:
    def test_pools_are_sorted_by_accuracy(self) -> None:
        good, alike, bad = [1] * 95 + [0] * 5, [0] * 2 + [1] * 94 + [0] * 4, [1] * 50 + [0] * 50
        runs = [
            *result("bad", [bad] * 3, size=1),
            *result("good", [good] * 3, size=9),
            *result("alike", [alike] * 3, size=5),
            *result("avg", [bad] * 3, size=2),
            *result("lost", [bad] * 3, diverged_at=7),
            *result("broken", [bad], failed="RuntimeError: no"),
        ]
        rows = summarize(runs)
        assert [(row.pool, row.group) for row in rows] == [
            *[("good", "best"), ("alike", "best"), ("avg", "worse"), ("bad", "worse")],
            *[("lost", "diverged"), ("broken", "failed")],
        ]
        assert rows[0].to_best == (0.0, 0.0) and rows[1].to_best[0] < 0 < rows[1].to_best[1]
        low, high = rows[0].to_reference or (0, 0)
        assert low < 0.45 < high and low > 0.3
        assert rows[0].interval[0] < rows[0].top1 < rows[0].interval[1]
        assert "step 7" in rows[4].note and rows[5].note == "RuntimeError: no"

    def test_a_learning_rate_at_the_edge_is_noted(self) -> None:
        runs = result("avg", [[1, 0]], lr=10.0, lr_tried={"0.1": 0.2, "1": 0.3, "10": 0.4})
        assert "edge" in summarize(runs)[0].note
        assert not summarize([replace(runs[0], lr=1.0)])[0].note

    def test_a_classifier_that_stopped_before_its_tolerance_is_noted(self) -> None:
        rows = summarize([*result("avg", [[1, 1]]), *result("max", [[1, 0]], converged=False)])
        assert [row.note for row in rows] == ["", "classifier did not converge"]

    def test_several_seeds_are_compared_with_one(self) -> None:
        rows = summarize([*result("avg", [[1, 0] * 50]), *result("smso", [[1, 1] * 50, [0, 0] * 50], random=True)])
        assert rows[1].note == "random weights, 2 seeds" and rows[1].to_reference is not None
        assert rows[1].to_reference[0] <= -0.5 and rows[1].to_reference[1] >= 0.5

    def test_the_pool_to_use_next_is_chosen_on_held_out_training_images(self) -> None:
        lucky, steady = result("lucky", [[1, 1]], held_out=0.6), result("steady", [[1, 0]], held_out=0.7)
        chosen = recommended(summarize([*lucky, *steady]))
        assert chosen is not None and chosen.pool == "steady"
        assert recommended(summarize(result("avg", [[1, 0]]))) is None

    def test_all_pools_diverge(self) -> None:
        assert [row.group for row in summarize(result("avg", [[1, 0]], diverged_at=0))] == ["diverged"]


def test_results_in_a_file_are_read_back(tmp_path: Path) -> None:
    run = replace(result("avg", [[1, 0, 1]])[0], lr_tried={"0.1": 0.5})
    path = tmp_path / "runs.jsonl"
    lines = [{"suite": "steps", "name": "x"}, {**run.as_json(), "commit": "abc"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"suite": "pro')
    assert read_results(path) == [run] and rights([run]).tolist() == [[1, 0, 1]]
    assert read_results(tmp_path / "none.jsonl") == []
    path.write_text('{"suite": "probe", "key": "x"}\n')
    with pytest.raises(ValueError, match=r"a result in .*runs.jsonl must have key, pool, seed; .* has no pool"):
        read_results(path)
