"""Removing the last down-sampling of a backbone, so that the covariance sees four times as many positions."""

import warnings
from collections.abc import Callable
from functools import partial

from torch import nn

from covpool._errors import CovpoolWarning
from covpool.models._backbone import Backbone, positions
from covpool.models._dense_forms import DENSE_FORMS, make_attention_dense, make_dense
from covpool.models._dry_run import Call, Observation, observe

Undo = Callable[[], None]
StrideChange = Callable[[Backbone], tuple[list[str], list[Undo]]]  # names of the changed modules, and how to undo it
TRIMMED = 2  # after the last down-sampling, convolutions without padding may trim the map, but not to half its size


class LastStrideKept(CovpoolWarning):
    """The last stride of a backbone cannot be removed and stays."""


def remove_last_stride(backbone: Backbone, name: str, *, dense_form: bool = True) -> None:
    """Give the last down-sampling of a backbone stride 1, in all its parallel branches, without changing parameters.

    A dry run finds it: the last module that makes a map smaller, with the parallel modules that must change too. A
    convolution gets stride 1, a pooling becomes the identity (or, beside convolutions without padding, a pooling of
    stride 1). The patch merging of Swin and Twins, the last reduction of Inception-v3 and LeViT get a dense form. A
    network that down-samples only at its entry (ViT, ConvMixer) has nothing to remove. Another, or one that fails on a
    larger map, keeps its stride with a `LastStrideKept` warning, which says what gives more positions instead.

    Args:
        backbone: The backbone, changed in place.
        name: Name of the backbone for the warning.
        dense_form: Whether a dense form may take the place of a module. False keeps that stride, without a warning.
    """
    seen = observe(backbone, backbone.image)
    size = positions(backbone, seen)
    near = range(size, TRIMMED * size + 1)
    shrinking = [call for call in seen.calls if call.leaf and call.shrinks and call.positions in near]
    if _is_isotropic(backbone, seen, shrinking, size):
        return
    groups = _groups(seen, shrinking)
    changes: list[StrideChange] = [partial(_unstride, group, keep) for group in groups for keep in (False, True)]
    for change in [*changes, *([make_dense, make_attention_dense] if dense_form else [])]:
        names, undo = change(backbone)
        if undo and _grew(backbone, size, seen.values):
            backbone.unstrided = tuple(name.removeprefix("body.") for name in names)
            return
        for step in undo:
            step()
    if not dense_form:
        return
    reason = "it fails on a larger map" if groups else "that is not a strided convolution or pooling"
    instead = _instead(backbone, size, seen.values)
    warnings.warn(f"{name} keeps its last stride: {reason}; {instead}", LastStrideKept, stacklevel=3)


def has_dense_form(features: nn.Module) -> bool:
    """Whether the last down-sampling of a backbone, or of one of several, has a dense form."""
    return any(isinstance(m, DENSE_FORMS) or getattr(m, "dense_attention", False) for m in features.modules())


def _instead(backbone: Backbone, size: int, values: bool) -> str:
    """What gives this network more positions."""
    channels, height, width = backbone.image
    try:
        seen = observe(backbone, (channels, 2 * height, 2 * width), values=values)
    except Exception:  # whatever the error is, this network depends on the size of its images
        return f"it takes images of {height} x {width} pixels only, so another backbone gives more positions"
    more = positions(backbone, seen)
    return f"larger images give more positions instead ({2 * height} x {2 * width} pixels: {more} instead of {size})"


def _is_isotropic(backbone: Backbone, seen: Observation, shrinking: list[Call], size: int) -> bool:
    """Whether the only down-sampling acts on the image itself: one module, or the patch embedding."""
    entries = [call for call in seen.calls if call.before[1:] == backbone.image and call.name != "body"]
    if backbone.layout == "tokens":
        return any(call.positions in (size, size + backbone.prefix) for call in entries)
    return bool(shrinking) and shrinking[-1] in entries


def _groups(seen: Observation, shrinking: list[Call]) -> list[list[Call]]:
    """Candidates for the last down-sampling with its parallel branches, smallest first.

    First the last module alone, then all shrinking modules inside a module around it that takes the same map (a
    residual block, an inception block, a stage), then all that shrink to the same size. Attention that shrinks its own
    keys is thus left alone, unless the network runs only when that changes too.
    """
    if not shrinking:
        return []
    last = shrinking[-1]
    around = [call.name for call in reversed(seen.calls) if call.before[2:] == last.before[2:]]
    around = sorted((name for name in around if f"{last.name}.".startswith(f"{name}.")), key=len, reverse=True)
    equal = [call for call in shrinking if call.after[2:] == last.after[2:]]
    groups = [[call for call in equal if f"{call.name}.".startswith(f"{name}.")] for name in around]
    return [group for i, group in enumerate([*groups, equal]) if group not in groups[:i]]


def _unstride(group: list[Call], keep_pooling: bool, backbone: Backbone) -> tuple[list[str], list[Undo]]:
    """Change the modules of a group; return their names and how to undo it. If one cannot change, none does."""
    undo: list[Undo] = []
    calls = {call.name: call for call in group}
    for name, call in calls.items():
        module = backbone.get_submodule(name)
        stride = getattr(module, "stride", None)
        has_parameters = next(module.parameters(), None) is not None
        if stride is not None and (has_parameters or keep_pooling):
            undo.append(partial(setattr, module, "stride", stride))
            setattr(module, "stride", (1, 1) if isinstance(stride, tuple) else 1)  # noqa: B010
        elif not has_parameters and call.before[1] == call.after[1]:
            backbone.set_submodule(name, nn.Identity())
            undo.append(partial(backbone.set_submodule, name, module))
        else:
            for step in undo:
                step()
            return [], []
    return list(calls), undo


def _grew(backbone: Backbone, size: int, values: bool) -> bool:
    try:
        seen = observe(backbone, backbone.image, values=values)
    except Exception:  # whatever the error is, this network depends on the size of its last map
        return False
    return positions(backbone, seen) > size
