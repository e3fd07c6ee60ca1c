"""Cutting a classifier before its global pooling, or after named levels."""

from typing import Any

from torch import Tensor, fx, nn

from covpool._errors import CovpoolError, did_you_mean
from covpool.models._dry_run import dry_run, evaluating

ADAPTIVE = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
ADAPTIVE_FUNCTIONS = (nn.functional.adaptive_avg_pool2d, nn.functional.adaptive_max_pool2d)


def cut_before_pool(model: nn.Module, image: tuple[int, ...]) -> fx.GraphModule:
    """Keep the part of a classifier up to its last feature map or tokens, before pooling and classification.

    The forward of the model is traced with its children as leaves, so that operations between them stay (the last ReLU
    of a DenseNet, the class token of a ViT). The result has the modules and parameters of `model`, with their names.
    """
    graph = _trace(model, (), "forward")

    def last_spatial(copy: nn.Module, x: Tensor) -> str | None:
        return _Spatial(fx.GraphModule(copy, graph)).find(x)

    name = dry_run(model, image, last_spatial)
    if name is None:
        raise CovpoolError(
            f"{type(model).__name__} must compute a feature map or tokens before its output; it has none to pool"
        )
    return _ending(model, graph, [node for node in graph.nodes if node.name == name])


def cut_after_levels(model: nn.Module, levels: tuple[str, ...], method: str) -> fx.GraphModule:
    """Keep the part of a classifier that gives the outputs of the named modules, as a tuple.

    `method` is the name of its forward method.
    """
    names = [name for name, _ in model.named_modules() if name]
    for level in levels:
        if level not in names:
            raise CovpoolError(f"{type(model).__name__} has no module {level!r}{did_you_mean(level, names)}")
    graph = _trace(model, levels, method)
    last_calls = {node.target: node for node in graph.nodes if node.op == "call_module"}
    missing = [level for level in levels if level not in last_calls]
    if missing:
        raise CovpoolError(
            f"the forward of {type(model).__name__} does not call {missing}: choose levels that it calls"
        )
    return _ending(model, graph, [last_calls[level] for level in levels], several=True)


class _Tracer(fx.Tracer):
    """Traces the forward of a model and of the modules that contain a level; all others are leaves.

    The defaults are for torch: a traced module that is unpickled makes a tracer of the same class, without arguments.
    """

    def __init__(self, levels: tuple[str, ...] = (), method: str = "forward") -> None:
        super().__init__()
        self.levels = levels
        self.traced_func_name = method

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not any(level.startswith(f"{module_qualified_name}.") for level in self.levels)


def _trace(model: nn.Module, levels: tuple[str, ...], method: str) -> fx.Graph:
    try:
        with evaluating(model):  # auxiliary classifiers run in training only
            return _Tracer(levels, method).trace(model)
    except Exception as error:
        raise CovpoolError(
            f"the forward of {type(model).__name__} cannot be traced ({type(error).__name__}: {error}): give it a "
            "method `forward_features` that returns its feature map, or build covpool.Network(features, pool, "
            "classifier) yourself"
        ) from error


class _Spatial(fx.Interpreter):
    """Runs a graph and finds the last value with positions that is not the output of an adaptive pooling."""

    def find(self, x: Tensor) -> str | None:
        self.found: str | None = None
        self.run(x)
        return self.found

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op not in ("placeholder", "output") and _is_spatial(value) and not self._is_adaptive(n):
            self.found = n.name
        return value

    def _is_adaptive(self, n: fx.Node) -> bool:
        if n.op == "call_module":
            return isinstance(self.module.get_submodule(str(n.target)), ADAPTIVE)
        return n.op == "call_function" and n.target in ADAPTIVE_FUNCTIONS


def _is_spatial(value: Any) -> bool:
    if not isinstance(value, Tensor):
        return False
    return (value.ndim == 4 and value.shape[2] > 1) or (value.ndim == 3 and value.shape[1] > 1)


def _ending(model: nn.Module, graph: fx.Graph, ends: list[fx.Node], *, several: bool = False) -> fx.GraphModule:
    """The graph up to these nodes, as a module with the model's own submodules."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    graph.erase_node(output)
    graph.output(tuple(ends) if several else ends[0])
    body = fx.GraphModule(model, graph, class_name=type(model).__name__)
    body.graph.eliminate_dead_code()
    if several:
        _copy_levels(body.graph)
    body.delete_all_unused_submodules()
    body.recompile()
    body.training = model.training
    return body


def _copy_levels(graph: fx.Graph) -> None:
    """Return copies of levels that later layers also read: an in-place activation would overwrite them."""
    (output,) = (node for node in graph.nodes if node.op == "output")
    for end in output.all_input_nodes:
        if len(end.users) > 1:
            with graph.inserting_after(end):
                output.replace_input_with(end, graph.call_method("clone", (end,)))
