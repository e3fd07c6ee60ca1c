from pathlib import Path

import pytest

from covpool.data._settings import Augment, Data
from covpool.recipe._check import check_recipe
from covpool.recipe._parse import read_recipe, to_toml
from covpool.recipe._schema import Evaluate, Init, Model, Optimizer, Pool, Recipe, Schedule, Stage, Train

TEXT = """
about = "a quote \\" and a line\\nbreak"
[model]
backbone = "resnet18"
[pool]
name = "isqrt"
iterations = 3
reduce_to = [64, 32]
[schedule]
name = "log"
end = 1e-4
[[stages]]
epochs = 3
freeze = ["features"]
[[stages]]
epochs = 5
lr = 0.01
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT)
    return path


def test_tables_become_classes(path: Path) -> None:
    assert read_recipe(path) == Recipe(
        name="mine",
        about='a quote " and a line\nbreak',
        model=Model(backbone="resnet18"),
        pool=Pool(name="isqrt", options={"iterations": 3, "reduce_to": [64, 32]}),
        schedule=Schedule(name="log", end=1e-4),
        stages=(Stage(epochs=3, freeze=("features",)), Stage(epochs=5, lr=0.01)),
    )


def test_settings_of_the_command_line(path: Path) -> None:
    recipe = read_recipe(
        path,
        [
            "name=other",
            "optimizer.lr = 1",
            "optimizer.name=adamw",
            "optimizer.options.betas=[0.9, 0.99]",
            "train.precision=bf16",
            "train.channels_last=true",
            "augment.resize=[512, 512]",
            "data.root=/a=b/c d",
            "model.backbone=1000",
            "pool.iterations=5",
            "pool.normalize=epn",
            "stages.1.epochs=7",
            "evaluate.crops=10",
            'train.freeze=["features.body.layer1"]',
        ],
    )
    assert recipe.name == "other" and recipe.model.backbone == "1000"
    assert recipe.optimizer == Optimizer(name="adamw", lr=1.0, options={"betas": [0.9, 0.99]})
    assert recipe.train == Train(precision="bf16", channels_last=True, freeze=("features.body.layer1",))
    assert recipe.augment == Augment(resize=(512, 512)) and recipe.data == Data(root="/a=b/c d")
    assert recipe.pool.options == {"iterations": 5, "reduce_to": [64, 32], "normalize": "epn"}
    assert recipe.stages[1] == Stage(epochs=7, lr=0.01) and recipe.evaluate.crops == 10


@pytest.mark.parametrize(
    ("setting", "error", "said"),
    [
        ("optimiser.lr=1", ValueError, "no setting `optimiser` (did you mean 'optimizer'?)"),
        ("optimizer.learning=1", ValueError, "no setting `optimizer.learning`"),
        ("optimizer.lr=fast", TypeError, "`optimizer.lr` must be a number; got 'fast' (str)"),
        ("train.epochs=1.5", TypeError, "`train.epochs` must be a whole number; got 1.5 (float)"),
        ("train.epochs=true", TypeError, "`train.epochs` must be a whole number; got True (bool)"),
        ("train.compile=1", TypeError, "`train.compile` must be true or false; got 1"),
        ("train.precision=bf17", ValueError, "did you mean 'bf16'?"),
        ("evaluate.crops=5", ValueError, "`evaluate.crops` must be one of [1, 10]; got 5"),
        ("augment.scale=[0.1]", ValueError, "`augment.scale` must be a list of 2; got [0.1]"),
        ("augment.scale=[0.1, a]", TypeError, "`augment.scale` must be a list; got '[0.1, a]' (str)"),
        ("schedule.milestones=30", TypeError, "`schedule.milestones` must be a list; got 30 (int)"),
        ("train=3", TypeError, "`train` must be a table of settings; got '3'"),
        ("train.epochs.more=3", TypeError, "`train.epochs` must be a whole number"),
        ("epochs", ValueError, "table.key=value"),
        ("stages.2.epochs=1", ValueError, "there is no element '2'"),
        ("train.epochs=0", ValueError, "`train.epochs` must be a positive integer; got 0"),
        ("stages.0.epochs=0", ValueError, "`stages[0].epochs` must be a positive integer"),
        ("train.ema=1", ValueError, "`train.ema` must be in [0, 1); got 1.0"),
        ("optimizer.lr=-1", ValueError, "`optimizer.lr` must be zero or more; got -1.0"),
        ("optimizer.lr=nan", ValueError, "`optimizer.lr` must be zero or more; got nan"),
        ("optimizer.momentum=-1", ValueError, "`optimizer.momentum` must be zero or more; got -1.0"),
        ("optimizer.options={eps=-1}", ValueError, "`optimizer.options` = {'eps': -1} does not fit 'sgd'"),
        ("stages.1.lr=-1", ValueError, "makes no optimizer: `lr` and `head_factor` must not be negative"),
        ("schedule.factor=-1", ValueError, "`schedule.factor` must be zero or more; got -1.0"),
        ("augment.std=[0, 0, 0]", ValueError, "`augment.std` must be more than zero; got [0.0, 0.0, 0.0]"),
        ("data.workers=-1", ValueError, "`data.workers` must be zero or more; got -1"),
        ("schedule.end=0", ValueError, "`schedule.end` must be more than zero"),
        ("model.name=resnet50_isqrt_32k", ValueError, "choose one"),
        ("model.backbone=", ValueError, "no network is named"),
        ("pool.iteration=3", TypeError, "pool 'isqrt' has no option 'iteration' (did you mean 'iterations'?)"),
        ("pool.iterations=-1", ValueError, "`iterations` must be a positive integer; got -1"),
        ("pool.iterations=five", TypeError, "`pool.iterations` must be a whole number; got 'five' (str)"),
        ("pool.postcomp=no", TypeError, "`pool.postcomp` must be true or false; got 'no' (str)"),
        ("pool.reduce_to=0", ValueError, "`reduce_to` must be a positive integer; got 0"),
        (
            "pool.reduce_to=2.5",
            TypeError,
            "must be a whole number or a list (a whole number each) or 'none'; got 2.5",
        ),
        ("pool.reduce_to=[64, 3.5]", TypeError, "`pool.reduce_to` must be a whole number or a list"),
        ("pool.prenorm=trac", ValueError, "must be one of ['trace', 'frobenius']; got 'trac' (did you mean 'trace'?)"),
        ("pool.normalize=3", TypeError, "`pool.normalize` must be 'epn' or 'l2' or 'bn' or a list ("),
        ("pool.groups=3", ValueError, "the table `pool` of the recipe makes no pool: `groups` = 3 needs `project_to`"),
        ("pool.name=isqr", ValueError, "there is no pool named 'isqr' (did you mean 'isqrt'?)"),
        ("pool.num_classes=3", ValueError, "`pool.num_classes` must be left out"),
        ("model.levels=[layer3, layer4]", TypeError, "`model.levels` must be a list"),
        ('model.levels=["layer3", "layer4"]', ValueError, "does not take 2 feature tensor(s)"),
    ],
)
def test_mistakes_are_named(path: Path, setting: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as raised:
        read_recipe(path, [setting])
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "settings",
    [
        ["pool.reduce_to=auto"],
        ["pool.reduce_to=none", "pool.normalize=none", "pool.precision=none"],
        ['pool.normalize=["bn", "epn"]', "pool.shrinkage=oas"],
        ["pool.name=mpn", "pool.eps=rank", "pool.alpha=1"],
        ["pool.project_to=30", "pool.groups=5", "pool.reduce_to=auto"],
        ["pool.name=avg", "pool.project_to=2048", "pool.groups=128", "pool.reduce_to=none"],
        ["pool.name=hihca", 'model.levels=["layer3", "layer4"]'],
        ["model.backbone=", "model.name=resnet50_isqrt_2k_4g", "pool.groups=2"],
        ["model.backbone=", "model.name=vgg16"],
    ],
)
def test_pool_options_that_can_be_had(settings: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('model.backbone = "resnet18"')
    read_recipe(tmp_path / "a.toml", settings)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"schedule": Schedule(milestones=(3, 2))}, "must be increasing"),
        ({"schedule": Schedule(milestones=(-1,))}, r"none below zero; got \[-1\]"),
        ({"optimizer": Optimizer(nesterov=True, momentum=0)}, "makes no optimizer: Nesterov momentum requires"),
        ({"optimizer": Optimizer(name="adamw", options={"eps": -1})}, "makes no optimizer: Invalid epsilon value: -1"),
        ({"pool": Pool(options={"normalize": ["bn"]}), "train": Train(batch_size=1)}, "`pool.normalize` .* needs two"),
        ({"model": Model(backbone="resnet18", head_layers=(8,)), "train": Train(batch_size=1)}, "`model.head_norm` is"),
        ({"evaluate": Evaluate(crops=10), "augment": Augment(resize=(160,))}, r"size` = 224; got \[160\]"),
        ({"model": Model(name="resnet50", head_layers=(7,))}, "`model.head_layers` is for a `model.backbone`"),
        ({"model": Model(levels=("layer4",)), "init": Init(weights="a.safetensors")}, "`model.levels` is for a"),
        ({"init": Init(weights="a.pth", pretrained=True)}, "both give weights"),
        ({"model": Model(name="resnet50"), "init": Init(pretrained=True)}, "give the weights of resnet50 as a file"),
    ],
)
def test_settings_that_do_not_go_together(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_recipe(Recipe(**{"model": Model(backbone="resnet18"), **values}))  # type: ignore[arg-type]


def test_frozen_batch_norms_take_a_single_picture() -> None:
    pool = Pool(options={"normalize": "bn"})
    for settings in (Train(batch_size=1, freeze=("pool",)), Train(batch_size=1, freeze_norms=True)):
        check_recipe(Recipe(model=Model(backbone="resnet18"), pool=pool, train=settings))


def test_the_pool_of_a_named_network(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('model.name = "resnet18_mpn_32k"\npool.alpha = 0.7')
    assert read_recipe(mine).pool == Pool(name="mpn", options={"alpha": 0.7})
    assert read_recipe(mine, ["pool.name=mpn", "model.name=alexnet_mpn_8k"]).pool.name == "mpn"
    with pytest.raises(ValueError, match=r"'resnet18_mpn_32k' has the pool 'mpn'; got `pool.name` = 'bcnn'"):
        read_recipe(mine, ["pool.name=bcnn"])
    with pytest.raises(ValueError, match="did you mean 'resnet18_mpn_32k'"):
        read_recipe(mine, ["model.name=resnet18_mpn_33k"])


def test_a_written_recipe_reads_back_to_the_same(path: Path, tmp_path: Path) -> None:
    settings = ["optimizer.name=adamw", "optimizer.options.betas=[0.9, 0.99]", "augment.pca_noise=0.1"]
    recipe = read_recipe(path, [*settings, "data.root=ü\\x"])
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    assert read_recipe(tmp_path / "again.toml") == recipe
    assert "iterations = 3" in to_toml(recipe)


def test_names_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no recipe named 'finetun' .did you mean 'finetune'"):
        read_recipe("finetun")
    with pytest.raises(FileNotFoundError, match=r"there is no recipe 'no/such.toml'"):
        read_recipe("no/such.toml")
    (tmp_path / "broken.toml").write_text("[data\n")
    with pytest.raises(ValueError, match=r"broken.toml is not TOML"):
        read_recipe(tmp_path / "broken.toml")
