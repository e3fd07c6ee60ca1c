"""Pooled spectra of tensor sketches on the GPU, forward and backward, as raw operations without autograd.

Two positions of an image share one complex transform: z = psi(x) + i psi(x') for their count sketches psi. The spectra
of both are sums of Z at the frequencies k and -k. A transform is written once and read once in each pass.

The rounding error of both is that of the longer position. The result shows it if the longer one has a far smaller
weight than the other. A position of weight zero is left out.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from covpool.kernels.plan import launch_kernel

# fmt: off

MOST_SKETCHES = 4  # the kernels hold the spectra of all sketches in registers
BUCKETS = 1024  # of a pair of positions, per program
FREQUENCIES = 128  # of an image, per program
CHANNELS = 256  # of a pair of positions, per program


@triton.jit
def has_weight(w, image, position, n, WEIGHTED: tl.constexpr):
    """Whether a position exists and its weight is not zero."""
    inside = position < n
    if WEIGHTED:
        inside &= tl.load(w + image * n + position, mask=inside, other=0.0) != 0
    return inside


@triton.jit
def place_kernel(x, w, starts, order, signs, out, n, size, channels, x_b, x_n, x_c, sketch_stride, blocks,
                 WEIGHTED: tl.constexpr, BUCKETS: tl.constexpr):
    """Store the count sketches of two positions as the real and imaginary parts of one row.

    The channels of bucket k are order[starts[k]] to order[starts[k + 1] - 1].
    """
    sketch = tl.program_id(1)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    k = tl.program_id(0) % blocks * BUCKETS + tl.arange(0, BUCKETS)
    pairs = (n + 1) // 2
    part = tl.arange(0, 2)
    position = 2 * (row % pairs) + part
    counts = has_weight(w, row // pairs, position, n, WEIGHTED)
    x += row // pairs * x_b
    starts += sketch * (size + 1)
    first = tl.load(starts + k, mask=k < size, other=0)
    end = tl.load(starts + k + 1, mask=k < size, other=0)
    total = tl.zeros((BUCKETS, 2), tl.float32)
    for step in range(tl.max(end - first, 0)):
        inside = first + step < end
        channel = tl.load(order + sketch * channels + first + step, mask=inside, other=0)
        sign = tl.load(signs + sketch * channels + channel, mask=inside, other=0.0)
        pointers = x + position[None, :] * x_n + channel[:, None].to(tl.int64) * x_c
        value = tl.load(pointers, mask=inside[:, None] & counts[None, :], other=0.0)
        total += sign[:, None] * value
    out += tl.cast(sketch, tl.int64) * sketch_stride + row * (2 * size)
    tl.store(out + 2 * k[:, None] + part[None, :], total, mask=(k < size)[:, None])


@triton.jit
def times(a, b, c, d):
    """(a + i b) (c + i d)."""
    return a * c - b * d, a * d + b * c


@triton.jit
def spectra_of_pair(z, k, mirror, inside, PRESENT: tl.constexpr):
    """The spectra of both positions of a row z, real and imaginary parts; zeros if the sketch is not PRESENT."""
    part = tl.arange(0, 2)
    if PRESENT:
        a, b = tl.split(tl.load(z + 2 * k[:, None] + part[None, :], mask=inside[:, None], other=0.0))
        c, d = tl.split(tl.load(z + 2 * mirror[:, None] + part[None, :], mask=inside[:, None], other=0.0))
    else:
        a = tl.zeros(k.shape, tl.float32)
        b, c, d = a, a, a
    return 0.5 * (a + c), 0.5 * (b - d), 0.5 * (b + d), 0.5 * (c - a)


@triton.jit
def weight_of(w, image, position, n, uniform, WEIGHTED: tl.constexpr):
    """The weight of a position, zero behind the last one."""
    if WEIGHTED:
        value = tl.load(w + image * n + position, mask=position < n, other=0.0)
    else:
        value = tl.where(position < n, uniform, 0.0)
    return value


@triton.jit
def store_spectrum(out, k, real, imaginary, inside):
    part = tl.arange(0, 2)
    tl.store(out + 2 * k[:, None] + part[None, :], tl.join(real, imaginary), mask=inside[:, None])


@triton.jit
def pool_kernel(z, w, out, n, size, sketch_stride, uniform,
                SKETCHES: tl.constexpr, WEIGHTED: tl.constexpr, FREQUENCIES: tl.constexpr):
    """Store the sums over positions of w T_1, w T_1 T_2, ... for the spectra T of an image."""
    sketch_stride = tl.cast(sketch_stride, tl.int64)  # three strides may pass the range of int32
    image = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * FREQUENCIES + tl.arange(0, FREQUENCIES)
    width = size // 2 + 1
    inside = k < width
    mirror = tl.where(k == 0, 0, size - k)
    pairs = (n + 1) // 2
    z += image * pairs * (2 * size)
    zero = tl.zeros((FREQUENCIES,), tl.float32)
    re_1, im_1, re_2, im_2, re_3, im_3, re_4, im_4 = zero, zero, zero, zero, zero, zero, zero, zero
    for pair in range(pairs):
        row = z + tl.cast(pair, tl.int64) * (2 * size)
        u = weight_of(w, image, 2 * pair, n, uniform, WEIGHTED)
        v = weight_of(w, image, 2 * pair + 1, n, uniform, WEIGHTED)
        a, b, c, d = spectra_of_pair(row, k, mirror, inside, True)
        re_1 += u * a + v * c
        im_1 += u * b + v * d
        e, f, g, h = spectra_of_pair(row + sketch_stride, k, mirror, inside, SKETCHES > 1)
        a, b = times(a, b, e, f)
        c, d = times(c, d, g, h)
        re_2 += u * a + v * c
        im_2 += u * b + v * d
        e, f, g, h = spectra_of_pair(row + 2 * sketch_stride, k, mirror, inside, SKETCHES > 2)
        a, b = times(a, b, e, f)
        c, d = times(c, d, g, h)
        re_3 += u * a + v * c
        im_3 += u * b + v * d
        e, f, g, h = spectra_of_pair(row + 3 * sketch_stride, k, mirror, inside, SKETCHES > 3)
        a, b = times(a, b, e, f)
        c, d = times(c, d, g, h)
        re_4 += u * a + v * c
        im_4 += u * b + v * d
    out += image * (SKETCHES * 2) * width
    store_spectrum(out, k, re_1, im_1, inside)
    if SKETCHES > 1:
        store_spectrum(out + 2 * width, k, re_2, im_2, inside)
    if SKETCHES > 2:
        store_spectrum(out + 4 * width, k, re_3, im_3, inside)
    if SKETCHES > 3:
        store_spectrum(out + 6 * width, k, re_4, im_4, inside)


@triton.jit
def slopes(p, q, r, s, t, u, v, w, g1, h1, g2, h2, g3, h3, g4, h4, weight):
    """The gradients of the four spectra p + i q, ..., v + i w of a position; g + i h are those of the pooled ones."""
    a, b = times(p, q, r, s)
    c, d = times(a, b, t, u)
    e, f = g4 * weight, h4 * weight
    v4, w4 = times(c, -d, e, f)
    e, f = times(v, -w, e, f)
    e, f = e + g3 * weight, f + h3 * weight
    t3, u3 = times(a, -b, e, f)
    e, f = times(t, -u, e, f)
    e, f = e + g2 * weight, f + h2 * weight
    r2, s2 = times(p, -q, e, f)
    e, f = times(r, -s, e, f)
    return e + g1 * weight, f + h1 * weight, r2, s2, t3, u3, v4, w4


@triton.jit
def gradient_of_pooled(g, k, inside, PRESENT: tl.constexpr):
    part = tl.arange(0, 2)
    if PRESENT:
        real, imaginary = tl.split(tl.load(g + 2 * k[:, None] + part[None, :], mask=inside[:, None], other=0.0))
    else:
        real = tl.zeros(k.shape, tl.float32)
        imaginary = real
    return real, imaginary


@triton.jit
def store_gradient_of_pair(out, k, mirror, inside, a, b, c, d):
    """Store V + i V', whose inverse transform has the gradients of two count sketches as its parts.

    a + i b is the gradient of the spectrum of the first position, at frequencies up to one half, and c + i d that of
    the second. V is Hermitian: half of the gradient at k and half of its conjugate at -k.
    """
    alone = k == mirror
    store_spectrum(out, k, tl.where(alone, a, 0.5 * (a - d)), tl.where(alone, c, 0.5 * (b + c)), inside)
    store_spectrum(out, mirror, 0.5 * (a + d), 0.5 * (c - b), inside & (k != mirror))


@triton.jit
def pool_gradient_kernel(z, w, g, out, n, size, sketch_stride, uniform,
                         SKETCHES: tl.constexpr, WEIGHTED: tl.constexpr, FREQUENCIES: tl.constexpr):
    """Store the gradients of all transforms of an image, given those of its pooled spectra."""
    sketch_stride = tl.cast(sketch_stride, tl.int64)  # three strides may pass the range of int32
    image = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * FREQUENCIES + tl.arange(0, FREQUENCIES)
    width = size // 2 + 1
    inside = k < width
    mirror = tl.where(k == 0, 0, size - k)
    pairs = (n + 1) // 2
    g += image * (SKETCHES * 2) * width
    g1, h1 = gradient_of_pooled(g, k, inside, True)
    g2, h2 = gradient_of_pooled(g + 2 * width, k, inside, SKETCHES > 1)
    g3, h3 = gradient_of_pooled(g + 4 * width, k, inside, SKETCHES > 2)
    g4, h4 = gradient_of_pooled(g + 6 * width, k, inside, SKETCHES > 3)
    for pair in range(pairs):
        at = (image * pairs + pair) * (2 * size)
        row = z + at
        p, q, pp, qq = spectra_of_pair(row, k, mirror, inside, True)
        r, s, rr, ss = spectra_of_pair(row + sketch_stride, k, mirror, inside, SKETCHES > 1)
        t, u, tt, uu = spectra_of_pair(row + 2 * sketch_stride, k, mirror, inside, SKETCHES > 2)
        v, y, vv, yy = spectra_of_pair(row + 3 * sketch_stride, k, mirror, inside, SKETCHES > 3)
        weight = weight_of(w, image, 2 * pair, n, uniform, WEIGHTED)
        p, q, r, s, t, u, v, y = slopes(p, q, r, s, t, u, v, y, g1, h1, g2, h2, g3, h3, g4, h4, weight)
        weight = weight_of(w, image, 2 * pair + 1, n, uniform, WEIGHTED)
        pp, qq, rr, ss, tt, uu, vv, yy = slopes(
            pp, qq, rr, ss, tt, uu, vv, yy, g1, h1, g2, h2, g3, h3, g4, h4, weight
        )
        row = out + at
        store_gradient_of_pair(row, k, mirror, inside, p, q, pp, qq)
        if SKETCHES > 1:
            store_gradient_of_pair(row + sketch_stride, k, mirror, inside, r, s, rr, ss)
        if SKETCHES > 2:
            store_gradient_of_pair(row + 2 * sketch_stride, k, mirror, inside, t, u, tt, uu)
        if SKETCHES > 3:
            store_gradient_of_pair(row + 3 * sketch_stride, k, mirror, inside, v, y, vv, yy)


@triton.jit
def collect_kernel(z, w, hashes, signs, out, n, size, channels,
                   WEIGHTED: tl.constexpr, ADD: tl.constexpr, CHANNELS: tl.constexpr):
    """Store, or add, the gradient of two positions, given that of their count sketches in the parts of row z.

    As in `place_kernel`, a channel whose bucket does not exist is left out.
    """
    row = tl.program_id(0).to(tl.int64)
    pairs = (n + 1) // 2
    position = 2 * (row % pairs)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < channels
    both = channel < tl.where(position + 1 < n, channels, 0)
    bucket = tl.load(hashes + channel, mask=inside, other=0)
    exists = (bucket >= 0) & (bucket < size)
    sign = tl.load(signs + channel, mask=inside, other=0.0)
    z += row * (2 * size)
    counts = channel < tl.where(has_weight(w, row // pairs, position, n, WEIGHTED), channels, 0)
    first = tl.load(z + 2 * bucket, mask=counts & exists, other=0.0) * sign
    counts = channel < tl.where(has_weight(w, row // pairs, position + 1, n, WEIGHTED), channels, 0)
    second = tl.load(z + 2 * bucket + 1, mask=counts & exists, other=0.0) * sign
    out += (row // pairs * n + position) * channels + channel
    if ADD:
        first += tl.load(out, mask=inside, other=0.0)
        second += tl.load(out + channels, mask=both, other=0.0)
    tl.store(out, first, mask=inside)
    tl.store(out + channels, second, mask=both)


# fmt: on
def _forward(x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor, size: int) -> tuple[Tensor, Tensor]:
    b, n, c = x.shape
    sketches, pairs = len(hashes), (n + 1) // 2
    buckets, order = hashes.sort(dim=-1, stable=True)
    edges = torch.arange(size + 1, device=x.device).expand(sketches, -1).contiguous()
    starts = torch.searchsorted(buckets, edges, out_int32=True)
    placed = x.new_empty(sketches, b, pairs, size, 2)
    blocks = triton.cdiv(size, BUCKETS)
    launch_kernel(
        place_kernel, (b * pairs * blocks, sketches), x, _weights(w, x), starts, order.contiguous(),
        signs.contiguous(), placed, n, size, c, *x.stride(), placed.stride(0), blocks,
        WEIGHTED=w is not None, BUCKETS=BUCKETS,
    )  # fmt: skip
    z = torch.fft.fft(torch.view_as_complex(placed))
    pooled = x.new_empty(b, sketches, size // 2 + 1, 2)
    launch_kernel(
        pool_kernel, (triton.cdiv(size // 2 + 1, FREQUENCIES), b), torch.view_as_real(z), _weights(w, x), pooled,
        n, size, placed.stride(0), 1 / n, SKETCHES=sketches, WEIGHTED=w is not None, FREQUENCIES=FREQUENCIES,
    )  # fmt: skip
    return torch.view_as_complex(pooled), z


def _backward(
    x: Tensor, w: Tensor | None, z: Tensor, g: Tensor, hashes: Tensor, signs: Tensor, size: int
) -> Tensor:  # (b, n, c)
    b, n, c = x.shape
    sketches, pairs = len(hashes), (n + 1) // 2
    dz = x.new_empty(sketches, b, pairs, size, 2)
    launch_kernel(
        pool_gradient_kernel, (triton.cdiv(size // 2 + 1, FREQUENCIES), b),
        torch.view_as_real(z), _weights(w, x), torch.view_as_real(g.resolve_conj()).contiguous(), dz,
        n, size, dz.stride(0), 1 / n, SKETCHES=sketches, WEIGHTED=w is not None, FREQUENCIES=FREQUENCIES,
    )  # fmt: skip
    dx = x.new_empty(b, n, c)
    hashes, signs = hashes.contiguous(), signs.contiguous()
    for i in range(sketches):  # one after the other, so that the inverse transforms share their memory
        placed = torch.fft.ifft(torch.view_as_complex(dz[i]), norm="forward")
        launch_kernel(
            collect_kernel, (b * pairs, triton.cdiv(c, CHANNELS)), torch.view_as_real(placed), _weights(w, x),
            hashes[i], signs[i], dx, n, size, c, WEIGHTED=w is not None, ADD=i > 0, CHANNELS=CHANNELS,
        )  # fmt: skip
    return dx


def _weights(w: Tensor | None, x: Tensor) -> Tensor:
    """The weights, or any tensor in their place."""
    return x if w is None else w.contiguous()


def forward(x: Tensor, w: Tensor | None, hashes: Tensor, signs: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The pooled spectra (b, p, size // 2 + 1) of orders 1 to p, and the transforms for the backward pass.

    Args:
        x: Features (b, n, c) in float32, with any strides.
        w: Weights (b, n) that sum to one, or None.
        hashes: Buckets (p, c), int64.
        signs: Signs (p, c), float32.
        size: Number of buckets.
    """
    with torch.cuda.device_of(x):  # does nothing for a CPU tensor
        return _forward(x, w, hashes, signs, size)


def backward(
    x: Tensor, w: Tensor | None, z: Tensor, g: Tensor, hashes: Tensor, signs: Tensor, size: int
) -> Tensor:  # (b, n, c)
    """The gradient in x, given that of the pooled spectra and the transforms z of `forward`."""
    with torch.cuda.device_of(x):
        return _backward(x, w, z, g, hashes, signs, size)
