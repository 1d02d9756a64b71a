"""All of the paper's predicates in one launch on CUDA, forward and backward.

One program is one application on a row of images, so that which predicate it is decides a branch and not a mask.
What is computed is said in `model.paper_predicates` and `model.geometry`; the backward kernel computes the same
again and multiplies out the chain rule by hand. Nothing but the activations is kept in between. Products and sums
are not contracted, so that what is exactly zero in the plain code (the cross product of parallel edges) is zero
here too.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from triton.language.extra.libdevice import atan2

from parse_dg.model import predicate as plain
from parse_dg.model.fused import PREDICATES, launch
from parse_dg.model.geometry import MIN_LENGTH
from parse_dg.model.predicates import Predicates
from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.vocabulary import Vocabulary

HAS, ABOVE, LEFT, H_ALIGN, V_ALIGN, NEAR, CONTAINS, TRI, TURN, ORIENT, EQDIST = map(tl.constexpr, range(11))
"""Their places in `fused.PREDICATES`."""
MIN_PRESENCE = tl.constexpr(plain.MIN_PRESENCE)
MIN_SQUARED = tl.constexpr(MIN_LENGTH**2)
ENTRIES = tl.constexpr(7)
"""Numbers of an application in the table: predicate, two places among the parameters, four primitives."""

_tables: WeakKeyDictionary[Predicates, dict[torch.device, Tensor]] = WeakKeyDictionary()


def evaluate(
    predicates: Predicates, vocabulary: Vocabulary, z: PrimitiveDescriptors, columns: Int[Tensor, "n"]
) -> Float[Tensor, "B n"]:
    """The satisfaction in [0, 1] of the given applications on every image."""
    tables = _tables.setdefault(predicates, {})
    if columns.device not in tables:
        tables[columns.device] = _table(predicates, vocabulary).to(columns.device)
    config = predicates.config
    result: Tensor = _Evaluate.apply(
        z.centre, z.extent, z.presence, columns, tables[columns.device],
        (config.gate, config.edge_softness, config.edge_fade), *predicates.parameters(),
    )  # fmt: skip
    return result.T


def _table(predicates: Predicates, vocabulary: Vocabulary) -> Int[Tensor, "M 7"]:
    """Every column of the predicates known here, in numbers: its predicate; where, when all parameters stand in a
    row, the one begins that is exponentiated (steepness or tolerance) and the one that is subtracted (margin or
    target angle), -1 for none; four primitives, the last one repeated.
    """
    start, places = 0, {}
    for name, parameter in predicates.named_parameters():
        places[name] = start
        start += parameter.numel()

    def place(predicate: str, *kinds: str) -> int:
        return next((places[name] for kind in kinds if (name := f"{kind}.{predicate}") in places), -1)

    parts = []
    for block in vocabulary.blocks:
        if block.predicate not in PREDICATES:
            break  # it comes after the paper's
        four = block.tuples[:, [min(position, block.tuples.shape[1] - 1) for position in range(4)]]
        first = place(block.predicate, "log_steepness", "log_tolerance")
        second = place(block.predicate, "margin", "target_angle")
        for angle in range(block.angles):
            numbers = (PREDICATES.index(block.predicate), first + angle, second + angle)
            parts.append(torch.cat((torch.tensor(numbers).expand(len(four), 3), four), 1).short())
    return torch.cat(parts)


class _Evaluate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, centre: Tensor, extent: Tensor, presence: Tensor, columns: Tensor, table: Tensor,
        settings: tuple[bool, float, float], *parameters: Tensor,
    ) -> Tensor:  # fmt: skip
        B, K = presence.shape
        packed = torch.cat((centre, extent, presence.unsqueeze(2)), 2).permute(2, 1, 0).contiguous()  # (5, K, B)
        shapes = torch.cat([parameter.view(-1) for parameter in parameters])
        activations = packed.new_empty(len(columns), B)
        ctx.save_for_backward(packed, shapes, columns, table, *parameters)
        ctx.settings = settings
        gate, _, fade = settings
        block = _images_at_once(B)
        launch(
            _forward, (len(columns), triton.cdiv(B, block)), packed,
            packed, shapes, columns, table, activations, K, B, fade * fade,
            GATE=gate, BLOCK=block, enable_fp_fusion=False,
        )  # fmt: skip
        return activations

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        packed, shapes, columns, table, *parameters = ctx.saved_tensors
        gate, softness, fade = ctx.settings
        _, K, B = packed.shape
        of_packed, of_shapes = torch.zeros_like(packed), torch.zeros_like(shapes)
        block = _images_at_once(B)
        launch(
            _backward, (len(columns), triton.cdiv(B, block)), packed,
            packed, shapes, columns, table, gradient.contiguous(), of_packed, of_shapes,
            K, B, softness * softness, fade * fade, GATE=gate, BLOCK=block, enable_fp_fusion=False,
        )  # fmt: skip
        of_centre, of_extent = of_packed[0:2].permute(2, 1, 0), of_packed[2:4].permute(2, 1, 0)
        each = of_shapes.split([parameter.numel() for parameter in parameters])
        of_parameters = (g.view(parameter.shape) for g, parameter in zip(each, parameters, strict=True))
        return of_centre, of_extent, of_packed[4].T, None, None, None, *of_parameters


def _images_at_once(B: int) -> int:
    return min(128, max(16, 1 << (B - 1).bit_length()))


# Below, `here` points at the images of a program in the first row of (5 · K, B): x, y, half width, half height and
# presence of every primitive. `of_here` is the same place in the gradient.


@triton.jit
def _row(here, row, B, inside):
    return tl.load(here + row * B, mask=inside, other=0.5)


@triton.jit
def _add(of_here, row, B, inside, gradient):
    tl.atomic_add(of_here + row * B, gradient, mask=inside, sem="relaxed")


@triton.jit
def _edge(here, i, j, K, B, inside):
    x = _row(here, j, B, inside) - _row(here, i, B, inside)
    y = _row(here, K + j, B, inside) - _row(here, K + i, B, inside)
    return x, y


@triton.jit
def _add_edge(of_here, i, j, K, B, inside, gx, gy):
    _add(of_here, j, B, inside, gx)
    _add(of_here, i, B, inside, -gx)
    _add(of_here, K + j, B, inside, gy)
    _add(of_here, K + i, B, inside, -gy)


@triton.jit
def _sign(x):
    return tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))


@triton.jit
def _norm(x, y):
    return tl.sqrt(tl.maximum(x * x + y * y, MIN_SQUARED))


@triton.jit
def _angle(ux, uy, vx, vy):
    """The angle of two units, with |û×v̂|, û·v̂, and where it has no gradient."""
    sine, cosine = tl.abs(ux * vy - uy * vx), ux * vx + uy * vy
    vanishes = sine * sine + cosine * cosine < MIN_SQUARED
    return atan2(tl.where(vanishes, 0.0, sine), tl.where(vanishes, 1.0, cosine)), sine, cosine, vanishes


@triton.jit
def _through_unit(x, y, gx, gy):
    """From the gradient of v̂ to that of v."""
    norm = _norm(x, y)
    along = tl.where(x * x + y * y >= MIN_SQUARED, (x * gx + y * gy) / (norm * norm), 0.0)
    return (gx - x * along) / norm, (gy - y * along) / norm


@triton.jit
def _damp(x, y, softness, gx, gy):
    squared = x * x + y * y
    share = tl.where(softness > 0, squared / (squared + tl.maximum(softness, 1e-30)), 1.0)
    return gx * share, gy * share


@triton.jit
def _fading(x, y, fade):
    squared = x * x + y * y
    return tl.where(fade > 0, squared / (squared + tl.maximum(fade, 1e-30)), 1.0)


@triton.jit
def _fading_slope(x, y, fade):
    """What, times v, is the gradient of `_fading`."""
    whole = x * x + y * y + tl.maximum(fade, 1e-30)
    return tl.where(fade > 0, 2.0 * fade / (whole * whole), 0.0)


@triton.jit
def _log_presence(presence, primitive, B, inside):
    return tl.log(tl.maximum(_row(presence, primitive, B, inside), MIN_PRESENCE))


@triton.jit
def _gate(presence, p0, p1, p2, p3, arity, B, inside):
    """The geometric mean of presence over the first `arity` primitives."""
    total = _log_presence(presence, p0, B, inside) + _log_presence(presence, p1, B, inside)
    if arity > 2:
        total += _log_presence(presence, p2, B, inside)
    if arity > 3:
        total += _log_presence(presence, p3, B, inside)
    return tl.exp(total / arity)


@triton.jit
def _add_presence(here, of_here, row, B, inside, gradient):
    presence = _row(here, row, B, inside)
    _add(of_here, row, B, inside, tl.where(presence >= MIN_PRESENCE, gradient / presence, 0.0))


@triton.jit
def _look_up(column, table):
    """The numbers of one application."""
    entry = table + tl.load(column) * ENTRIES
    code, one, two = tl.load(entry).to(tl.int32), tl.load(entry + 1).to(tl.int32), tl.load(entry + 2).to(tl.int32)
    p0, p1 = tl.load(entry + 3).to(tl.int32), tl.load(entry + 4).to(tl.int32)
    p2, p3 = tl.load(entry + 5).to(tl.int32), tl.load(entry + 6).to(tl.int32)
    return code, one, two, p0, p1, p2, p3


@triton.jit
def _shape(shapes, place):
    return tl.load(shapes + place, mask=place >= 0, other=0.0)


@triton.jit
def _arity(code):
    return tl.where(code < TRI, 2, tl.where(code < ORIENT, 3, 4))


@triton.jit
def _forward(
    packed, shapes, columns, table, activations, K, B, fade,
    GATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    application = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < B
    here = packed + lane
    code, one, two, p0, p1, p2, p3 = _look_up(columns + application, table)
    first, second = _shape(shapes, one), _shape(shapes, two)

    if code == HAS:
        satisfied = _row(here, 4 * K + p0, B, inside)
    elif code <= LEFT:
        axis = tl.where(code == ABOVE, 1, 0)
        gap = _row(here, axis * K + p1, B, inside) - _row(here, axis * K + p0, B, inside)
        satisfied = tl.sigmoid(tl.exp(first) * (gap - second))
    elif code <= NEAR:
        x, y = _edge(here, p0, p1, K, B, inside)
        squared = tl.where(code == V_ALIGN, 0.0, y * y) + tl.where(code == H_ALIGN, 0.0, x * x)
        satisfied = tl.exp(-0.5 * squared * tl.exp(-2.0 * first))
    elif code == CONTAINS:
        x, y = _edge(here, p0, p1, K, B, inside)
        width = _row(here, 2 * K + p0, B, inside) - _row(here, 2 * K + p1, B, inside)
        height = _row(here, 3 * K + p0, B, inside) - _row(here, 3 * K + p1, B, inside)
        satisfied = tl.sigmoid(tl.exp(first) * tl.minimum(width - tl.abs(x), height - tl.abs(y)))
    else:
        ux, uy = _edge(here, p0, p1, K, B, inside)
        if code == TRI:
            vx, vy = _edge(here, p0, p2, K, B, inside)
        elif code == TURN:
            vx, vy = _edge(here, p1, p2, K, B, inside)
        else:
            vx, vy = _edge(here, p2, p3, K, B, inside)
        u, v = _norm(ux, uy), _norm(vx, vy)
        if code == EQDIST:
            away = tl.log(u) - tl.log(v)
        elif code == ORIENT:
            away = (ux / u) * (vx / v) + (uy / u) * (vy / v) - tl.cos(second)
        else:
            angle, _, _, _ = _angle(ux / u, uy / u, vx / v, vy / v)
            away = angle - second
        satisfied = tl.exp(-0.5 * away * away * tl.exp(-2.0 * first))
        satisfied *= _fading(ux, uy, fade) * _fading(vx, vy, fade)
    if GATE and code != HAS:
        satisfied *= _gate(here + 4 * K * B, p0, p1, p2, p3, _arity(code), B, inside)
    tl.store(activations + application * B + lane, satisfied, mask=inside)


# Each of the next adds the gradient of one kind of predicate to its primitives, given what multiplies its
# satisfaction from outside (gradient and gate), and returns, image by image, the satisfaction and the gradients of
# its two shapes.


@triton.jit
def _directed_backward(here, of_here, code, p0, p1, K, B, inside, outside, first, second):
    axis = tl.where(code == ABOVE, 1, 0)
    steepness = tl.exp(first)
    gap = _row(here, axis * K + p1, B, inside) - _row(here, axis * K + p0, B, inside) - second
    satisfied = tl.sigmoid(steepness * gap)
    of_gap = outside * satisfied * (1.0 - satisfied) * steepness
    _add(of_here, axis * K + p1, B, inside, of_gap)
    _add(of_here, axis * K + p0, B, inside, -of_gap)
    return satisfied, of_gap * gap, -of_gap


@triton.jit
def _close_backward(here, of_here, code, p0, p1, K, B, inside, outside, first):
    sharpness = tl.exp(-2.0 * first)
    x, y = _edge(here, p0, p1, K, B, inside)
    x = tl.where(code == H_ALIGN, 0.0, x)
    y = tl.where(code == V_ALIGN, 0.0, y)
    squared = x * x + y * y
    satisfied = tl.exp(-0.5 * squared * sharpness)
    scale = -outside * satisfied * sharpness
    _add_edge(of_here, p0, p1, K, B, inside, scale * x, scale * y)
    return satisfied, -scale * squared, tl.zeros_like(outside)


@triton.jit
def _contains_backward(here, of_here, p0, p1, K, B, inside, outside, first):
    steepness = tl.exp(first)
    x, y = _edge(here, p0, p1, K, B, inside)
    width = _row(here, 2 * K + p0, B, inside) - _row(here, 2 * K + p1, B, inside)
    height = _row(here, 3 * K + p0, B, inside) - _row(here, 3 * K + p1, B, inside)
    across, down = width - tl.abs(x), height - tl.abs(y)
    slack = tl.minimum(across, down)
    satisfied = tl.sigmoid(steepness * slack)
    of_slack = outside * satisfied * (1.0 - satisfied) * steepness
    share = tl.where(across < down, 1.0, tl.where(across == down, 0.5, 0.0))
    of_across, of_down = of_slack * share, of_slack * (1.0 - share)
    _add(of_here, 2 * K + p0, B, inside, of_across)
    _add(of_here, 2 * K + p1, B, inside, -of_across)
    _add(of_here, 3 * K + p0, B, inside, of_down)
    _add(of_here, 3 * K + p1, B, inside, -of_down)
    _add_edge(of_here, p0, p1, K, B, inside, -of_across * _sign(x), -of_down * _sign(y))
    return satisfied, of_slack * slack, tl.zeros_like(outside)


@triton.jit
def _two_edges_backward(here, of_here, code, p0, p1, p2, p3, K, B, inside, outside, first, second, softness, fade):
    a, b = p2, p3  # the second edge
    if code == TRI:
        a, b = p0, p2
    elif code == TURN:
        a, b = p1, p2
    ux, uy = _edge(here, p0, p1, K, B, inside)
    vx, vy = _edge(here, a, b, K, B, inside)
    sharpness = tl.exp(-2.0 * first)
    fade_u, fade_v = _fading(ux, uy, fade), _fading(vx, vy, fade)
    faded = outside * fade_u * fade_v
    if code == EQDIST:
        satisfied, away, of_second, gux, guy, gvx, gvy = _lengths_backward(ux, uy, vx, vy, faded, sharpness)
    else:
        satisfied, away, of_second, gux, guy, gvx, gvy = _directions_backward(
            code, ux, uy, vx, vy, faded, sharpness, second
        )
    slope_u = outside * satisfied * fade_v * _fading_slope(ux, uy, fade)
    slope_v = outside * satisfied * fade_u * _fading_slope(vx, vy, fade)
    gux, guy, gvx, gvy = gux + slope_u * ux, guy + slope_u * uy, gvx + slope_v * vx, gvy + slope_v * vy
    gux, guy = _damp(ux, uy, softness, gux, guy)
    gvx, gvy = _damp(vx, vy, softness, gvx, gvy)
    _add_edge(of_here, p0, p1, K, B, inside, gux, guy)
    _add_edge(of_here, a, b, K, B, inside, gvx, gvy)
    return satisfied * fade_u * fade_v, faded * satisfied * away * away * sharpness, of_second


@triton.jit
def _lengths_backward(ux, uy, vx, vy, outside, sharpness):
    """Eqdist, in terms of its edges."""
    u, v = _norm(ux, uy), _norm(vx, vy)
    away = tl.log(u) - tl.log(v)
    satisfied = tl.exp(-0.5 * away * away * sharpness)
    of_away = -outside * satisfied * sharpness * away
    along_u = tl.where(ux * ux + uy * uy >= MIN_SQUARED, of_away / (u * u), 0.0)
    along_v = tl.where(vx * vx + vy * vy >= MIN_SQUARED, -of_away / (v * v), 0.0)
    return satisfied, away, tl.zeros_like(outside), ux * along_u, uy * along_u, vx * along_v, vy * along_v


@triton.jit
def _directions_backward(code, ux, uy, vx, vy, outside, sharpness, second):
    """Tri, turn and orient, in terms of their edges."""
    u, v = _norm(ux, uy), _norm(vx, vy)
    nux, nuy, nvx, nvy = ux / u, uy / u, vx / v, vy / v
    angle, sine, cosine, vanishes = _angle(nux, nuy, nvx, nvy)
    away = tl.where(code == ORIENT, cosine - tl.cos(second), angle - second)
    satisfied = tl.exp(-0.5 * away * away * sharpness)
    of_away = -outside * satisfied * sharpness * away
    if code == ORIENT:
        of_cross, of_dot, of_second = tl.zeros_like(outside), of_away, of_away * tl.sin(second)
    else:
        length = tl.where(vanishes, 1.0, sine * sine + cosine * cosine)
        of_angle = tl.where(vanishes, 0.0, of_away / length)
        of_cross = of_angle * cosine * _sign(nux * nvy - nuy * nvx)
        of_dot, of_second = -of_angle * sine, -of_away
    gux, guy = _through_unit(ux, uy, of_cross * nvy + of_dot * nvx, -of_cross * nvx + of_dot * nvy)
    gvx, gvy = _through_unit(vx, vy, -of_cross * nuy + of_dot * nux, of_cross * nux + of_dot * nuy)
    return satisfied, away, of_second, gux, guy, gvx, gvy


@triton.jit
def _backward(
    packed, shapes, columns, table, gradient, of_packed, of_shapes,
    K, B, softness, fade, GATE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    application = tl.program_id(0).to(tl.int64)
    lane = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = lane < B
    here, of_here = packed + lane, of_packed + lane
    code, one, two, p0, p1, p2, p3 = _look_up(columns + application, table)
    first, second = _shape(shapes, one), _shape(shapes, two)
    g = tl.load(gradient + application * B + lane, mask=inside, other=0.0)

    if code == HAS:
        _add(of_here, 4 * K + p0, B, inside, g)
    else:
        outside = g
        if GATE:
            outside = g * _gate(here + 4 * K * B, p0, p1, p2, p3, _arity(code), B, inside)
        if code <= LEFT:
            satisfied, of_first, of_second = _directed_backward(
                here, of_here, code, p0, p1, K, B, inside, outside, first, second
            )
        elif code <= NEAR:
            satisfied, of_first, of_second = _close_backward(
                here, of_here, code, p0, p1, K, B, inside, outside, first
            )
        elif code == CONTAINS:
            satisfied, of_first, of_second = _contains_backward(here, of_here, p0, p1, K, B, inside, outside, first)
        else:
            satisfied, of_first, of_second = _two_edges_backward(
                here, of_here, code, p0, p1, p2, p3, K, B, inside, outside, first, second, softness, fade
            )
        tl.atomic_add(of_shapes + one, tl.sum(tl.where(inside, of_first, 0.0), 0), mask=one >= 0, sem="relaxed")
        tl.atomic_add(of_shapes + two, tl.sum(tl.where(inside, of_second, 0.0), 0), mask=two >= 0, sem="relaxed")
        if GATE:
            arity = _arity(code)
            of_gate = outside * satisfied / arity
            _add_presence(here, of_here, 4 * K + p0, B, inside, of_gate)
            _add_presence(here, of_here, 4 * K + p1, B, inside, of_gate)
            if arity > 2:
                _add_presence(here, of_here, 4 * K + p2, B, inside, of_gate)
            if arity > 3:
                _add_presence(here, of_here, 4 * K + p3, B, inside, of_gate)
