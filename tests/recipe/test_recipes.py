"""The recipes that come with covpool: every one can be read, says what it is about and builds its network."""

import functools
import math
import shlex
from pathlib import Path

import pytest
import torch

import covpool
from covpool.engine.training._build import build_network
from covpool.engine.training._schedule import lr_factor
from covpool.recipe._catalog import list_recipes, list_sets
from covpool.recipe._parse import read_recipe
from covpool.recipe._schema import Init
from covpool.recipe._stages import resolve_stages
from covpool.studies.sweep._axes import grid, read_axes

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
FOLDERS = ("finetune", "pack-", "scratch")  # prefixes of recipes for a folder of images


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_has_a_description_and_is_on_the_page(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name and recipe.about
    assert f"| `{name}` | {recipe.about} |" in PAGE.read_text().splitlines()
    assert (recipe.data.name == "folder") == name.startswith(FOLDERS)


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_names_the_source_of_its_settings(name: str) -> None:
    source = read_recipe(name).source
    assert source in (("own",) if name.startswith("pack-") else ("paper", "release", "method", "own"))
    if name.startswith("finetune-") and name != "finetune-avg":
        assert read_recipe(f"{name}+paper-text").source == "paper"


def test_sources_of_the_main_recipes() -> None:
    sources = {"imagenet-resnet50_isqrt_32k": "release", "imagenet-alexnet_mpn_32k": "paper", "finetune": "own"}
    sources |= {
        "finetune-resnet50_isqrt_32k": "release",
        "finetune-vgg16_cbp": "method",
        "imagenet-resnet101": "method",
    }
    assert {name: read_recipe(name).source for name in sources} == sources


def test_the_page_lists_nothing_else() -> None:
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted([*list_recipes(), *list_sets()])


@pytest.mark.parametrize("name", list_recipes())
def test_weights_come_from_a_recipe_of_ours(name: str) -> None:
    """Fine-tuning looks for weights where the recipe that pre-trains them saves them."""
    weights = read_recipe(name).init.weights
    if weights:
        runs, first, file = weights.split("/")
        assert (runs, file) == ("runs", "best.safetensors") and first in list_recipes()


NORMAL = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear")
INPUTS = {  # beginnings of names, and how these recipes resize, crop and normalize
    "pack-": (128, (128,), *NORMAL),
    "pack-dtd10": (224, (224,), *NORMAL),
    "finetune-": (448, (448,), *NORMAL),
    "imagenet-": (224, (256,), *NORMAL),
    "imagenet-alexnet": (227, (256,), *NORMAL),
    "ablation-": (227, (256,), *NORMAL),
    "ablation-compact": (224, (256,), *NORMAL),
    "ablation-postcomp": (224, (256,), *NORMAL),
    "places365-": (224, (256, 256), *NORMAL),
    "inat2018-": (320, (366,), *NORMAL),
}
FOR_ANY_BACKBONE = ("finetune", "finetune-avg")
FROM_SCRATCH = ("scratch", "scratch-avg")


@pytest.mark.parametrize("name", [name for name in list_recipes() if name not in FOR_ANY_BACKBONE + FROM_SCRATCH])
def test_recipes_of_the_paper_state_their_inputs(name: str) -> None:
    """They do not depend on what a library says about a backbone."""
    augment = read_recipe(name).augment
    expected = INPUTS[max((start for start in INPUTS if name.startswith(start)), key=len)]
    assert (augment.size, augment.resize, augment.mean, augment.std, augment.interpolation) == expected


@pytest.mark.parametrize("name", FOR_ANY_BACKBONE)
def test_fine_tuning_leaves_the_inputs_to_the_backbone(name: str) -> None:
    recipe = read_recipe(name, ["model.backbone=tf_efficientnet_lite0"])
    augment = build_network(recipe.changed(init=Init()), ["a", "b"]).resolve_inputs(recipe).augment
    assert (augment.size, augment.resize, augment.mean, augment.interpolation) == (320, (366,), (0.5,) * 3, "bicubic")
    assert recipe.evaluate.flip and recipe.augment.scale == (0.3, 1.0)


@pytest.mark.parametrize("size", [64, 96])
@pytest.mark.parametrize("name", FROM_SCRATCH)
def test_small_images_are_not_cropped_in_evaluation(name: str, size: int) -> None:
    recipe = read_recipe(name, [f"augment.size={size}"])
    augment = on_meta(name).input_settings
    resolved = recipe.augment.resolved(augment)
    assert (resolved.size, resolved.resize) == (size, (size,)) and read_recipe(name).augment.size == 64


def test_training_from_scratch_compares_pools_with_the_same_settings() -> None:
    mine, average = (read_recipe(name) for name in FROM_SCRATCH)
    for table in ("data", "augment", "model", "init", "schedule", "train", "evaluate"):
        assert getattr(mine, table) == getattr(average, table)
    assert mine.optimizer.changed(head_weight_decay=average.optimizer.weight_decay) == average.optimizer
    assert (mine.pool.name, average.pool.name) == ("isqrt", "avg")


def test_fine_tuning_compares_pools_with_the_same_settings() -> None:
    mine, average = read_recipe("finetune"), read_recipe("finetune-avg")
    for table in ("data", "augment", "schedule", "train", "evaluate"):
        assert getattr(mine, table) == getattr(average, table)
    assert mine.optimizer.changed(head_factor=average.optimizer.head_factor) == average.optimizer
    assert (mine.pool.name, mine.init.reduction, average.pool.name) == ("isqrt", "pca", "avg")


def distinct_networks() -> list[str]:
    """Recipes with a network of their own; the paper's networks as they are have tests elsewhere."""
    named = {}
    for name in list_recipes():
        recipe = read_recipe(name)
        if recipe.model.backbone or recipe.pool.options:
            named.setdefault(repr((recipe.model, recipe.pool)), name)
        else:
            assert recipe.model.name in covpool.list_models()
    return list(named.values())


@functools.cache
def on_meta(name: str) -> covpool.Network:
    """The network of a recipe for five classes, without memory."""
    with torch.device("meta"):
        return build_network(read_recipe(name).changed(init=Init()), list("abcde")).network


@pytest.mark.parametrize("name", distinct_networks())
def test_the_network_can_be_built(name: str) -> None:
    network = on_meta(name)
    assert network.num_classes == 5
    names = [n for n, _ in network.named_parameters()]
    for part in resolve_stages(read_recipe(name)):
        assert all(any(n.startswith(f"{frozen}.") for n in names) for frozen in part.recipe.train.freeze)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("finetune-resnet50_isqrt_8k_512", 8256),
        ("finetune-resnet50_isqrt_32k_epn", 32896),
        ("finetune-vgg16", 25088),
        ("finetune-vgg16_isqrt_32k", 32896),
        ("finetune-vgg16_bcnn", 262_144),
        ("finetune-vgg16_netvlad", 32_768),
        ("finetune-vgg16_netfv", 65_536),
        ("finetune-vgg16_kernel", 12_801),
        ("finetune-resnet50_kernel", 14_337),
        ("finetune-vgg16_hihca", 8192),
        ("finetune-vgg16_fason", 2 * (512 + 8192)),
        ("finetune-vgg16_smso", 2048),
        ("finetune-resnet50_deepten", 4096),
        ("finetune-vgg16_mfafv", 50 * 512 * 11),
        ("finetune-vgg16_gaussian", 513 * 514 // 2),
        ("imagenet-alexnet_bcnn", 65_536),
        ("inat2018-resnet152_isqrt_12k", 12_880),
    ],
)
def test_representations_are_as_long_as_published(name: str, size: int) -> None:
    assert on_meta(name).pool.out_features == size


@pytest.mark.parametrize(
    ("fine", "first"),
    [
        ("finetune-vgg16_isqrt_32k", "imagenet-vgg16_bn_isqrt_32k"),
        ("finetune-vgg16_mpn_32k", "imagenet-vgg16_bn_mpn_32k"),
        ("finetune-vgg16_bcnn_gcp", "imagenet-vgg16_bn_bcnn"),
        ("finetune-resnet50_bcnn_gcp", "imagenet-resnet50_bcnn"),
    ],
)
def test_fine_tuning_takes_features_and_pool_over(fine: str, first: str) -> None:
    """These start from a checkpoint with another head. All other weights must fit."""
    shapes = [
        {key: value.shape for key, value in on_meta(name).state_dict().items() if "classifier" not in key}
        for name in (fine, first)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(("name", "start"), [("mpn", -1.2), ("isqrt", -1.1)])
def test_alexnet_learns_at_log_spaced_rates(name: str, start: float) -> None:
    recipe = read_recipe(f"imagenet-alexnet_{name}_32k")
    rates = [
        recipe.optimizer.lr * lr_factor(recipe.schedule, epoch, steps_per_epoch=1, epochs=recipe.train.epochs)
        for epoch in range(recipe.train.epochs)
    ]
    exponents = torch.tensor([math.log10(rate) for rate in rates])
    torch.testing.assert_close(exponents, torch.linspace(start, -5, 20), rtol=0, atol=1e-3)
    assert (recipe.train.batch_size, recipe.optimizer.weight_decay, recipe.optimizer.momentum) == (128, 5e-4, 0.9)


def test_resnets_are_trained_as_released() -> None:
    recipe = read_recipe("imagenet-resnet101_isqrt_32k")
    assert (recipe.train.batch_size, recipe.train.epochs, recipe.schedule.milestones) == (160, 65, (30, 45, 60))
    assert (recipe.optimizer.lr, recipe.optimizer.weight_decay, recipe.schedule.factor) == (0.1, 1e-4, 0.1)
    assert (recipe.augment.size, recipe.augment.resize, recipe.augment.crop) == (224, (256,), "random_resized")


@pytest.mark.parametrize(
    ("data", "resize"),
    [("cub", (448,)), ("aircraft", (512, 512)), ("cars", (448, 448)), ("dtd", (448,)), ("indoor67", (448,))],
)
def test_images_of_fine_tuning(data: str, resize: tuple[int, ...]) -> None:
    recipe = read_recipe(f"finetune-resnet50_isqrt_32k+{data}")
    assert recipe.data.name == data and recipe.evaluate.flip
    assert (recipe.augment.size, recipe.augment.resize, recipe.augment.crop) == (448, resize, "center")
    settings = recipe.optimizer
    assert (settings.lr, settings.head_factor, settings.weight_decay) == (1.2e-3, 5, 1e-4)
    assert (recipe.train.epochs, recipe.train.batch_size, recipe.schedule.name) == (100, 10, "constant")


def test_the_paper_s_text_and_its_release_differ() -> None:
    """The authors' script for VGG-16 leaves the classifier the weight decay of the other layers."""
    released = read_recipe("finetune-vgg16_isqrt_32k+aircraft")
    assert released.optimizer.head_weight_decay is None and released.optimizer.weight_decay == 1e-4
    assert (released.optimizer.lr, released.optimizer.head_factor, released.train.epochs) == (3e-3, 20, 40)
    text = read_recipe("finetune-vgg16_isqrt_32k+aircraft+paper-text")
    assert text.optimizer.lr == pytest.approx(10**-2.1, rel=1e-3) and text.augment.resize == (448,)
    assert (text.optimizer.head_factor, text.optimizer.weight_decay, text.train.epochs) == (5, 5e-4, 100)
    assert text.schedule.name == "constant" and text.data.name == "aircraft"


def test_b_cnn_learns_in_two_stages() -> None:
    first, second = resolve_stages(read_recipe("finetune-vgg16_netvlad+cub"))
    assert (first.end, second.end) == (100, 200)
    assert first.recipe.train.freeze == ("features",) and second.recipe.train.freeze == ()
    assert (first.recipe.train.batch_size, second.recipe.train.batch_size) == (40, 10)
    for part in (first, second):
        settings = part.recipe.optimizer
        assert (settings.lr, settings.head_factor, settings.weight_decay) == (1e-3, 1000, 5e-4)
        assert settings.head_weight_decay == 0


@pytest.mark.parametrize("name", [name for name in list_recipes() if name.startswith("ablation-")])
def test_the_grid_that_an_ablation_names_can_be_swept(name: str) -> None:
    recipe = read_recipe(name)
    command = recipe.about.split("covpool sweep ")[1].partition(". ")[0]
    named, *settings = shlex.split(command)
    axes, fixed = read_axes(settings)
    assert named == name and axes and not fixed
    made = [read_recipe(name, [f"{key}={value}" for key, value in point.items()]) for point in grid(axes)]
    assert len({repr((one.model, one.pool)) for one in made}) == len(made)
    for one in made:
        assert one.model.name in covpool.list_models()
        pool_options = {k: None if v == "none" else v for k, v in one.pool.options.items()}
        covpool.create_pool(one.pool.name, 16, **pool_options)


def test_inaturalist_with_and_without_validation() -> None:
    held_out = read_recipe("inat2018-resnet152_isqrt_12k")
    final = read_recipe("inat2018-resnet152_isqrt_12k-submission")
    assert (held_out.data.train_on, held_out.data.test_on) == ("train", "val")
    assert (final.data.train_on, final.data.test_on) == ("train+val", "test")
    for recipe in (held_out, final):
        assert recipe.pool.options == {"reduce_to": 160, "iterations": 3}
        assert recipe.data.name == "inat2018" and recipe.augment.size == 320
