"""Inference graphs: batch norms folded into the convolutions before them, dropout removed."""

from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

aten = torch.ops.aten

CONVOLUTIONS = {
    overload
    for convolution in (aten.conv1d, aten.conv2d, aten.conv3d)
    for overload in (convolution.default, convolution.padding)
}
LINEAR = aten.linear.default
BATCH_NORM = aten.batch_norm.default
DROPOUTS = {aten.dropout.default, aten.feature_dropout.default, aten.alpha_dropout.default}


def fold_batch_norm(graph_module: fx.GraphModule) -> int:
    """Fold each batch norm that directly follows a convolution or linear layer into its weights, in place.

    W' = W gamma / sqrt(var + eps), b' = (b - mean) gamma / sqrt(var + eps) + beta. Other batch norms stay: those before
    a convolution, as in DenseNet, and those after a layer whose output is used twice. Dropout, which does nothing in
    eval mode, is removed, and so is every tensor that is no longer used.

    Args:
        graph_module: The graph, from `torch.export.export(model.eval(), ...).module()`.

    Returns: The number of folded batch norms.

    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    >>> fold_batch_norm(torch.export.export(model, (torch.zeros(1, 3, 8, 8),)).module())
    1
    """
    graph = graph_module.graph
    folded = 0
    for node in list(graph.nodes):
        if node.target in DROPOUTS:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif node.target is BATCH_NORM and _follows_alone(node):
            _fold(graph_module, node.args[0], node, folded)
            folded += 1
    _drop_left_overs(graph_module)
    graph.lint()
    graph_module.recompile()
    return folded


def _follows_alone(batch_norm: fx.Node) -> bool:
    """Whether a batch norm in eval mode is the only user of a layer whose weights are parameters."""
    layer, mean, training = batch_norm.args[0], batch_norm.args[3], batch_norm.args[5]
    assert isinstance(layer, fx.Node)
    if training or mean is None or not (layer.target in CONVOLUTIONS or layer.target is LINEAR):
        return False
    if layer.target is LINEAR and layer.meta["val"].ndim != 2:
        return False  # for tokens (b, n, c) the norm takes channels second, the linear layer last
    constants = (*layer.args[1:3], *batch_norm.args[1:5])
    return len(layer.users) == 1 and all(
        c is None or (isinstance(c, fx.Node) and c.op == "get_attr") for c in constants
    )


def _fold(graph_module: fx.GraphModule, layer: fx.Node, batch_norm: fx.Node, number: int) -> None:
    x, weight, bias, *rest = (*layer.args, None) if len(layer.args) == 2 else layer.args
    _, gamma, beta, mean, variance, _, _, eps, _ = batch_norm.args
    nodes: tuple[Any, ...] = (weight, bias, mean, variance, gamma, beta)
    w, b, mu, var, scale, shift = (_tensor(graph_module, node) for node in nodes)
    assert w is not None and mu is not None and var is not None and isinstance(eps, float)
    scale, shift = torch.ones_like(mu) if scale is None else scale, torch.zeros_like(mu) if shift is None else shift
    fuse = fuse_linear_bn_weights if layer.target is LINEAR else fuse_conv_bn_weights
    folded = fuse(w, b, mu, var, eps, scale, shift)
    with graph_module.graph.inserting_before(layer):
        names = [f"folded_weight_{number}", f"folded_bias_{number}"]
        for name, tensor in zip(names, folded, strict=True):
            graph_module.register_parameter(name, nn.Parameter(tensor.detach(), requires_grad=False))
        layer.args = (x, *(graph_module.graph.get_attr(name) for name in names), *rest)
    batch_norm.replace_all_uses_with(layer)
    graph_module.graph.erase_node(batch_norm)


def _tensor(graph_module: fx.GraphModule, node: fx.Node | None) -> Tensor | None:
    if node is None:
        return None
    assert isinstance(node.target, str)
    path, _, name = node.target.rpartition(".")
    tensor = getattr(graph_module.get_submodule(path), name)
    assert isinstance(tensor, Tensor)
    return tensor


def _drop_left_overs(graph_module: fx.GraphModule) -> None:
    """Delete the parameters and buffers that no node reads."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)
    read = {node.target for node in graph.nodes if node.op == "get_attr"}
    names = [name for name, _ in (*graph_module.named_parameters(), *graph_module.named_buffers())]
    for path, _, name in (full.rpartition(".") for full in names if full not in read):
        delattr(graph_module.get_submodule(path), name)
