import json
import tomllib
from pathlib import Path

import pytest
import torch

import covpool
from covpool.data._settings import Augment, Data
from covpool.engine.training._build import build_network
from covpool.recipe import check_recipe, json_schema, read_recipe, to_toml
from covpool.recipe._schema import Model, Optimizer, Pool, Recipe, Schedule, Stage, Train

FIXTURES = Path(__file__).parent / "fixtures"
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


def test_settings_from_the_command_line(path: Path) -> None:
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
            'stages.1.freeze=["features.body.layer1"]',
        ],
    )
    assert recipe.name == "other" and recipe.model.backbone == "1000"
    assert recipe.optimizer == Optimizer(name="adamw", lr=1.0, options={"betas": [0.9, 0.99]})
    assert recipe.train == Train(precision="bf16", channels_last=True)
    assert recipe.augment == Augment(resize=(512, 512)) and recipe.data == Data(root="/a=b/c d")
    assert recipe.pool.options == {"iterations": 5, "reduce_to": [64, 32], "normalize": "epn"}
    assert (
        recipe.stages[1] == Stage(epochs=7, lr=0.01, freeze=("features.body.layer1",)) and recipe.evaluate.crops == 10
    )


def test_a_setting_that_no_stage_takes_over_is_refused(path: Path) -> None:
    stages = ["stages.0.lr=0.1", "stages.0.freeze=[]"]
    with pytest.raises(ValueError, match=r"`optimizer.lr` has no effect, .* set stages.0.lr, stages.1.lr instead"):
        read_recipe(path, [*stages, "optimizer.lr=1"])
    with pytest.raises(ValueError, match=r"`train.epochs` has no effect"):
        read_recipe(path, ["train.epochs=1"])
    assert read_recipe(path, ["optimizer.lr=1"]).optimizer.lr == 1  # of the first stage


@pytest.mark.parametrize(
    ("setting", "error", "said"),
    [
        ("optimiser.lr=1", ValueError, "unknown setting `optimiser` (did you mean 'optimizer'?)"),
        ("optimizer.learning=1", ValueError, "unknown setting `optimizer.learning`"),
        ("optimizer.lr=fast", TypeError, "`optimizer.lr` must be a number, at least 0; got 'fast' (str)"),
        ("train.epochs=1.5", TypeError, "`train.epochs` must be a positive integer; got 1.5 (float)"),
        ("train.epochs=true", TypeError, "`train.epochs` must be a positive integer; got True (bool)"),
        ("train.compile=1", TypeError, "`train.compile` must be true or false; got 1"),
        ("train.precision=bf17", ValueError, "did you mean 'bf16'?"),
        ("evaluate.crops=5", ValueError, "`evaluate.crops` must be 1 or 10; got 5"),
        ("augment.scale=[0.1]", ValueError, "`augment.scale` must be a list of 2 (a number each); got [0.1]"),
        (
            "augment.scale=[0.1, a]",
            TypeError,
            "`augment.scale` must be a list of 2 (a number each); got '[0.1, a]' (str)",
        ),
        (
            "schedule.milestones=30",
            TypeError,
            "`schedule.milestones` must be a list (a whole number each); got 30 (int)",
        ),
        ("train=3", TypeError, "`train` must be a table; got 3 (int)"),
        ("train.epochs.more=3", TypeError, "`train.epochs` must be a positive integer"),
        ("epochs", ValueError, "table.key=value"),
        ("stages.2.epochs=1", ValueError, "there is no element '2'"),
        ("train.epochs=0", ValueError, "`train.epochs` must be a positive integer; got 0"),
        ("stages.0.epochs=0", ValueError, "`stages.0.epochs` must be a positive integer; got 0"),
        ("train.ema=1", ValueError, "`train.ema` must be a number, at least 0 and below 1; got 1"),
        ("optimizer.lr=-1", ValueError, "`optimizer.lr` must be a number, at least 0; got -1"),
        ("optimizer.lr=nan", ValueError, "`optimizer.lr` must be a finite number; got nan"),
        ("optimizer.lr=1e300", ValueError, "`optimizer.lr` must be at most 1e+15; got '1e300'"),
        ("stages.1.lr=1e300", ValueError, "`stages.1.lr` must be at most 1e+15; got '1e300'"),
        ("augment.mean=[0, 0, 1e300]", ValueError, "`augment.mean` must be at most 1e+15; got '[0, 0, 1e300]'"),
        ("augment.ratio=[1e-9, 1]", ValueError, "with 1e-06 <= low <= high <= 1e+06; got [1e-09, 1.0]"),
        ("optimizer.momentum=-1", ValueError, "`optimizer.momentum` must be a number, at least 0; got -1"),
        ("optimizer.options={eps=-1}", ValueError, "`optimizer.options` = {'eps': -1} does not fit 'sgd'"),
        ("stages.1.lr=-1", ValueError, "`stages.1.lr` must be a number, at least 0; got -1"),
        ("schedule.factor=-1", ValueError, "`schedule.factor` must be a number, at least 0; got -1"),
        ("augment.std=[0, 0, 0]", ValueError, "`augment.std.0` must be a number, more than 0; got 0"),
        ("data.workers=-1", ValueError, "`data.workers` must be a whole number, at least 0 and at most 256; got -1"),
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
        ("pool.prenorm=trac", ValueError, "must be 'trace' or 'frobenius'; got 'trac' (did you mean 'trace'?)"),
        ("pool.normalize=3", TypeError, "`pool.normalize` must be 'epn' or 'l2' or 'bn' or a list ("),
        ("pool.groups=3", ValueError, "the pool of the recipe cannot be built: `groups` = 3 needs `project_to`"),
        ("pool.name=isqr", ValueError, "unknown pool 'isqr' (did you mean 'isqrt'?)"),
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
def test_valid_pool_options(settings: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('model.backbone = "resnet18"')
    read_recipe(tmp_path / "a.toml", settings)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"schedule": {"milestones": [3, 2]}}, "must be increasing"),
        ({"schedule": {"milestones": [-1]}}, r"not negative; got \[-1\]"),
        ({"optimizer": {"nesterov": True, "momentum": 0}}, "cannot be built: Nesterov momentum requires"),
        ({"optimizer": {"name": "adamw", "options": {"eps": -1}}}, "cannot be built: Invalid epsilon value: -1"),
        ({"pool": {"normalize": ["bn"]}, "train": {"batch_size": 1}}, "`pool.normalize` .* requires at least two"),
        ({"model": {"backbone": "resnet18", "head_layers": [8]}, "train": {"batch_size": 1}}, "`model.head_norm` is"),
        ({"evaluate": {"crops": 10}, "augment": {"size": 224, "resize": [160]}}, r"size` = 224; got \[160\]"),
        ({"model": {"name": "resnet50", "head_layers": [7]}}, "`model.head_layers` requires a `model.backbone`"),
        ({"model": {"levels": ["layer4"]}, "init": {"weights": "a.safetensors"}}, "`model.levels` requires a"),
        ({"init": {"weights": "a.pth", "pretrained": True}}, "both give weights"),
        ({"model": {"name": "resnet50"}, "init": {"pretrained": True}}, "give the weights of resnet50 as a file"),
        ({"stages": [{"lr": 0.1}]}, "`stages.0.epochs` must be set"),
        ({"train": {"epochs": 0, "emma": 1}}, "`train.epochs` must.*\n.*`train.emma` .did you mean 'train.ema'"),
    ],
)
def test_settings_that_do_not_go_together(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_recipe(Recipe(**{"model": {"backbone": "resnet18"}, **values}))  # type: ignore[arg-type]


def test_frozen_batch_norms_accept_a_single_image() -> None:
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


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    network = covpool.attach("test_resnet", "gaussian", 3, reduce_to=8, reduce_kind="linear")
    covpool.save(network, tmp_path / "fit.safetensors", class_names=["a", "b", "c"])
    return str(tmp_path / "fit.safetensors")


def test_weights_on_the_command_line_replace_those_of_the_library(checkpoint: str) -> None:
    plain = read_recipe("finetune", ["init.weights=backbone.pth"])
    assert (plain.init.weights, plain.init.pretrained) == ("backbone.pth", False)
    assert (plain.model, plain.pool) == (read_recipe("finetune").model, read_recipe("finetune").pool)
    named = read_recipe("finetune", [f"init.weights={checkpoint}", "model.backbone=test_resnet"])
    assert named.model.backbone == "test_resnet" and named.pool.name == "isqrt" and not named.init.pretrained
    with pytest.raises(ValueError, match="both give weights"):
        read_recipe("finetune", ["init.weights=backbone.pth", "init.pretrained=true"])


def test_a_checkpoint_on_the_command_line_brings_its_network(checkpoint: str) -> None:
    recipe = read_recipe("finetune", [f"init.weights={checkpoint}", "train.epochs=1"])
    assert recipe.model == Model() and recipe.pool == Pool(name="gaussian")
    assert recipe.optimizer == read_recipe("finetune").optimizer
    network = build_network(recipe, ["a", "b", "c"]).network
    assert all(
        torch.equal(x, y) for x, y in zip(network.parameters(), covpool.load(checkpoint).parameters(), strict=True)
    )


def test_a_written_recipe_reads_back_to_the_same(path: Path, tmp_path: Path) -> None:
    settings = ["optimizer.name=adamw", "optimizer.options.betas=[0.9, 0.99]", "augment.pca_noise=0.1"]
    recipe = read_recipe(path, [*settings, "data.root=ü\\x"])
    (tmp_path / "again.toml").write_text(to_toml(recipe))
    assert read_recipe(tmp_path / "again.toml") == recipe
    assert "iterations = 3" in to_toml(recipe)


def test_a_recipe_of_a_run_of_version_0_1_reads_back_to_the_same() -> None:
    """The fixture is the recipe.toml of a run exactly as 0.1 writes it."""
    old = FIXTURES / "recipe-0.1.toml"
    recipe = read_recipe(old)
    again = tomllib.loads(to_toml(recipe))
    train = {"graph": "auto", "kernels": True, "vector_dropout": 0.0}
    newer = {"init": {"reduction": "random"}, "train": train, "data": {"compare": "sizes"}}
    for table, settings in newer.items():
        assert {name: again[table].pop(name) for name in settings} == settings
    assert again.pop("source") == ""
    assert again == tomllib.loads(old.read_text())
    assert recipe.pool == Pool(name="netvlad", options={"reduce_to": "none", "clusters": 64})
    assert recipe.optimizer.options == {"betas": [0.9, 0.99]} and recipe.stages[0] == Stage(
        epochs=100, batch_size=40, freeze=("features",)
    )


def test_settings_of_a_checkpoint_of_version_0_1_are_accepted() -> None:
    """A checkpoint of format 1 holds the settings as nested dictionaries with the options of the pool in `options`."""
    recipe = read_recipe(FIXTURES / "recipe-0.1.toml")
    kept = json.loads(json.dumps(recipe.model_dump(mode="json")))
    assert kept["pool"] == {"name": "netvlad", "options": {"reduce_to": "none", "clusters": 64}}
    assert Recipe(**kept) == recipe


def test_the_json_schema_describes_every_setting() -> None:
    schema = json_schema()
    for name in list(schema["$defs"]):
        for key, setting in schema["$defs"][name]["properties"].items():
            assert setting.get("description", "").endswith("."), f"{name}.{key}"
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Pool"]["additionalProperties"] is True  # options stand beside the name
    assert (
        schema["$defs"]["Train"]["properties"]["ema"] | {"exclusiveMaximum": 1, "minimum": 0}
        == (schema["$defs"]["Train"]["properties"]["ema"])
    )


def test_changed_settings_are_checked(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe.changed(train={"epochs": 9}).train == Train(epochs=9) and recipe.train.epochs == 1
    with pytest.raises(ValueError, match=r"`train.epochs` must be a positive integer; got 0"):
        recipe.changed(train={"epochs": 0})


def test_missing_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no recipe named 'finetun' .did you mean 'finetune'"):
        read_recipe("finetun")
    with pytest.raises(FileNotFoundError, match=r"there is no recipe 'no/such.toml'"):
        read_recipe("no/such.toml")
    (tmp_path / "broken.toml").write_text("[data\n")
    with pytest.raises(ValueError, match=r"broken.toml is not TOML"):
        read_recipe(tmp_path / "broken.toml")
