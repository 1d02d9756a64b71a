"""The formulas of the paper as slow loops over plain floats (float64), and descriptors to try them on.

Nothing here is shared with the package but the readable name of an application, which says what a column is.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import torch
from torch import Tensor

from parse_dg.model.composition import Composition
from parse_dg.model.predicates import Predicates
from parse_dg.model.primitives import PrimitiveDescriptors

Tuple = tuple[int, ...]
Point = tuple[float, float]

PREDICATES = {
    "has": 1,
    "above": 2,
    "left": 2,
    "h-align": 2,
    "v-align": 2,
    "near": 2,
    "contains": 2,
    "tri": 3,
    "turn": 3,
    "orient": 4,
    "eqdist": 4,
}
"""Every predicate of section 3.1 and its arity."""

FAMILY_OF_ARITY = {1: "presence", 2: "binary", 3: "ternary", 4: "quaternary"}


# --- section 3.1: descriptors and predicates ------------------------------------------------------


@dataclass(frozen=True)
class Primitive:
    """z = ⟨c, σ, δ⟩ of one primitive of one image."""

    c: Point
    sigma: float
    delta: Point


def images(z: PrimitiveDescriptors) -> list[list[Primitive]]:
    """The same descriptors as plain numbers: [image][primitive]."""
    centre, presence, extent = z.centre.tolist(), z.presence.tolist(), z.extent.tolist()
    return [
        [Primitive((c[0], c[1]), s, (d[0], d[1])) for c, s, d in zip(*image, strict=True)]
        for image in zip(centre, presence, extent, strict=True)
    ]


@dataclass(frozen=True)
class Shape:
    """The parameters of the predicate families, under the paper's letters."""

    kappa: dict[str, float]
    m: dict[str, float]
    tau_h: float
    tau_v: float
    rho: float
    psi: list[float]
    beta: list[float]
    phi: list[float]
    eta: list[float]
    varphi: list[float]
    gamma: list[float]
    tau_d: float


def shape_of(predicates: Predicates) -> Shape:
    """What the module's free parameters stand for: positive numbers are kept as logarithms."""

    def positive(parameter: Tensor) -> list[float]:
        return [math.exp(value) for value in parameter.double().reshape(-1).tolist()]

    def number(parameter: Tensor) -> list[float]:
        return parameter.double().reshape(-1).tolist()

    tolerance, target = predicates.log_tolerance, predicates.target_angle
    return Shape(
        kappa={name: positive(value)[0] for name, value in predicates.log_steepness.items()},
        m={name: number(value)[0] for name, value in predicates.margin.items()},
        tau_h=positive(tolerance["h_align"])[0],
        tau_v=positive(tolerance["v_align"])[0],
        rho=positive(tolerance["near"])[0],
        psi=number(target["tri"]),
        beta=positive(tolerance["tri"]),
        phi=number(target["turn"]),
        eta=positive(tolerance["turn"]),
        varphi=number(target["orient"]),
        gamma=positive(tolerance["orient"]),
        tau_d=positive(tolerance["eqdist"])[0],
    )


def sigmoid(t: float) -> float:
    return 1 / (1 + math.exp(-t))


def box(p: Primitive) -> tuple[float, float, float, float]:
    """b = ⟨x1, y1, x2, y2⟩."""
    return p.c[0] - p.delta[0], p.c[1] - p.delta[1], p.c[0] + p.delta[0], p.c[1] + p.delta[1]


def unit_edge(start: Primitive, end: Primitive) -> Point:
    v = (end.c[0] - start.c[0], end.c[1] - start.c[1])
    norm = math.sqrt(v[0] ** 2 + v[1] ** 2)
    return v[0] / norm, v[1] / norm


def cosine(u: Point, v: Point) -> float:
    return max(-1.0, min(1.0, u[0] * v[0] + u[1] * v[1]))


def above(p: list[Primitive], shape: Shape, angle: int) -> float:
    return sigmoid(shape.kappa["above"] * (p[1].c[1] - p[0].c[1] - shape.m["above"]))


def left(p: list[Primitive], shape: Shape, angle: int) -> float:
    return sigmoid(shape.kappa["left"] * (p[1].c[0] - p[0].c[0] - shape.m["left"]))


def h_align(p: list[Primitive], shape: Shape, angle: int) -> float:
    return math.exp(-((p[0].c[1] - p[1].c[1]) ** 2) / (2 * shape.tau_h**2))


def v_align(p: list[Primitive], shape: Shape, angle: int) -> float:
    return math.exp(-((p[0].c[0] - p[1].c[0]) ** 2) / (2 * shape.tau_v**2))


def near(p: list[Primitive], shape: Shape, angle: int) -> float:
    squared = (p[0].c[0] - p[1].c[0]) ** 2 + (p[0].c[1] - p[1].c[1]) ** 2
    return math.exp(-squared / (2 * shape.rho**2))


def contains(p: list[Primitive], shape: Shape, angle: int) -> float:
    i, j = box(p[0]), box(p[1])
    return sigmoid(shape.kappa["contains"] * min(j[0] - i[0], j[1] - i[1], i[2] - j[2], i[3] - j[3]))


def tri(p: list[Primitive], shape: Shape, angle: int) -> float:
    alpha = math.acos(cosine(unit_edge(p[0], p[1]), unit_edge(p[0], p[2])))  # interior, at the first
    return math.exp(-((alpha - shape.psi[angle]) ** 2) / (2 * shape.beta[angle] ** 2))


def turn(p: list[Primitive], shape: Shape, angle: int) -> float:
    theta = math.acos(cosine(unit_edge(p[0], p[1]), unit_edge(p[1], p[2])))
    return math.exp(-((theta - shape.phi[angle]) ** 2) / (2 * shape.eta[angle] ** 2))


def orient(p: list[Primitive], shape: Shape, angle: int) -> float:
    difference = cosine(unit_edge(p[0], p[1]), unit_edge(p[2], p[3])) - math.cos(shape.varphi[angle])
    return math.exp(-(difference**2) / (2 * shape.gamma[angle] ** 2))


def eqdist(p: list[Primitive], shape: Shape, angle: int) -> float:
    ratio = math.dist(p[0].c, p[1].c) / math.dist(p[2].c, p[3].c)
    return math.exp(-(math.log(ratio) ** 2) / (2 * shape.tau_d**2))


FORMULAS: dict[str, Callable[[list[Primitive], Shape, int], float]] = {
    formula.__name__.replace("_", "-"): formula
    for formula in (above, left, h_align, v_align, near, contains, tri, turn, orient, eqdist)
}

EDGES: dict[str, tuple[Tuple, Tuple]] = {
    "tri": ((0, 1), (0, 2)),
    "turn": ((0, 1), (1, 2)),
    "orient": ((0, 1), (2, 3)),
    "eqdist": ((0, 1), (2, 3)),
}
"""The edges whose direction or length is compared."""


@dataclass(frozen=True)
class Application:
    """What a column's name says."""

    predicate: str
    angle: int | None
    primitives: Tuple

    @property
    def family(self) -> str:
        return FAMILY_OF_ARITY[PREDICATES[self.predicate]]

    @property
    def key(self) -> Hashable:
        """The same for exactly the applications that have the same value whatever the descriptors."""
        return self.predicate, self.angle, symmetry(self.predicate, self.primitives)


def read_name(name: str) -> Application:
    match = re.fullmatch(r"([a-z-]+)(?:\[(\d+)\])?\((.*)\)", name)
    assert match, name
    predicate, angle, inside = match.groups()
    primitives = tuple(int(index) for index in re.findall(r"p(\d+)", inside))
    assert len(primitives) == PREDICATES[predicate], name
    assert (angle is not None) == (predicate in ("tri", "turn", "orient")), name
    assert inside.count("→") == (2 if PREDICATES[predicate] == 4 else 0), name
    return Application(predicate, None if angle is None else int(angle), primitives)


def satisfaction(
    application: Application, image: list[Primitive], shape: Shape, gate: bool, fade: float = 0.0
) -> float:
    """R(p_i, …; X), for one image; the gate is the geometric mean of σ over the places of the tuple, and edges that
    have a direction or are compared fade with their length.
    """
    places = [image[index] for index in application.primitives]
    if application.predicate == "has":
        return places[0].sigma
    value = FORMULAS[application.predicate](places, shape, application.angle or 0)
    for start, end in EDGES.get(application.predicate, ()) if fade else ():
        length = math.dist(places[start].c, places[end].c)
        value *= length**2 / (length**2 + fade**2)
    if gate:
        value *= math.prod(place.sigma for place in places) ** (1 / len(places))
    return value


# --- which applications there are -----------------------------------------------------------------


def valid_tuples(predicate: str, K: int) -> Iterator[Tuple]:
    """Every ordered tuple a predicate is defined on; quaternary ones compare two different directed edges."""
    for places in product(range(K), repeat=PREDICATES[predicate]):
        if PREDICATES[predicate] == 4:
            if places[0] != places[1] and places[2] != places[3] and places[:2] != places[2:]:
                yield places
        elif len(set(places)) == len(places):
            yield places


def symmetry(predicate: str, places: Tuple) -> Hashable:
    """Equal for tuples on which the predicate agrees by symmetry, whatever its parameters."""
    if predicate in ("h-align", "v-align", "near"):
        return frozenset(places)
    if predicate == "tri":
        return places[0], frozenset(places[1:])
    if predicate == "turn":
        return places[1], frozenset((places[0], places[2]))
    if predicate in ("orient", "eqdist"):
        first, second = places[:2], places[2:]
        pair = frozenset((frozenset(first), frozenset(second)))
        same_sign = (first[0] < first[1]) == (second[0] < second[1])
        return (pair, same_sign) if predicate == "orient" else pair
    return places


def own_reverse(application: Application) -> bool:
    """orient of an edge and the same edge backwards: its cosine is -1 on every image."""
    return application.predicate == "orient" and len(set(application.primitives)) == 2


# --- section 3.2: the bottleneck ------------------------------------------------------------------


def describe(
    heatmap: list[list[float]], temperature: float, sparse: bool = False
) -> tuple[Point, float, Point, list[list[float]]]:
    """One heat map [h][w] → c, σ, δ and the map normalised by softmax, or by sparsemax; a map one cell wide has
    coordinate 0.
    """
    rows, columns = len(heatmap), len(heatmap[0])
    highest = max(max(row) for row in heatmap)
    raised = [[math.exp((value - highest) / temperature) for value in row] for row in heatmap]
    total = sum(sum(row) for row in raised)
    normal = [[value / total for value in row] for row in raised]
    if sparse:
        flat = sparsemax_exact([value / temperature for row in heatmap for value in row])
        normal = [flat[h * columns : (h + 1) * columns] for h in range(rows)]

    def g(h: int, w: int) -> Point:
        x = 0.0 if columns == 1 else 2 * w / (columns - 1) - 1
        y = 0.0 if rows == 1 else 2 * h / (rows - 1) - 1
        return x, y

    mean, variance = [0.0, 0.0], [0.0, 0.0]
    for axis in (0, 1):
        for h in range(rows):
            for w in range(columns):
                mean[axis] += normal[h][w] * g(h, w)[axis]
        for h in range(rows):
            for w in range(columns):
                variance[axis] += normal[h][w] * (g(h, w)[axis] - mean[axis]) ** 2
    extent = (2 * math.sqrt(max(variance[0], 1e-6)), 2 * math.sqrt(max(variance[1], 1e-6)))
    return (mean[0], mean[1]), sigmoid(highest), extent, normal


# --- Martins & Astudillo 2016, algorithm 1 --------------------------------------------------------


def sparsemax_exact(z: list[float]) -> list[float]:
    """k(z) = max{k: 1 + k z_(k) > Σ_{j≤k} z_(j)}, τ = (Σ_{j≤k(z)} z_(j) - 1)/k(z), in exact fractions."""
    values = [Fraction(value) for value in z]
    total = best_total = Fraction(0)
    support = 0
    for k, value in enumerate(sorted(values, reverse=True), start=1):
        total += value
        if 1 + k * value > total:
            support, best_total = k, total
    tau = (best_total - 1) / support
    return [float(max(value - tau, Fraction(0))) for value in values]


def sparsemax_by_sorting(z: Tensor) -> Tensor:
    """Algorithm 1 on every row of a matrix, differentiated by autograd."""
    ordered = z.sort(-1, descending=True).values
    rank = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    sums = ordered.cumsum(-1)
    support = (1 + rank * ordered > sums).sum(-1, keepdim=True)
    tau = (sums.gather(-1, support - 1) - 1) / support
    return (z - tau).clamp_min(0)


# --- appendix B -----------------------------------------------------------------------------------


def mean_l1(weight: list[list[float]]) -> float:
    return sum(abs(value) for row in weight for value in row) / (len(weight) * len(weight[0]))


def diversity(maps: list[list[float]]) -> float:
    """L_div of one image; `maps` are flattened."""
    K, total = len(maps), 0.0
    for k in range(K):
        for other in range(K):
            if k != other:
                inner = sum(a * b for a, b in zip(maps[k], maps[other], strict=True))
                total += inner / (math.hypot(*maps[k]) * math.hypot(*maps[other]))
    return total / (K * (K - 1))


def concentration(maps: list[list[float]]) -> float:
    """L_conc of one image; `maps` are flattened."""
    return -sum(sum(value * math.log(value + 0.01) for value in flat) for flat in maps) / len(maps)


def angle_repulsion(angles: list[float]) -> float:
    total, pairs = 0.0, 0
    for m in range(len(angles)):
        for other in range(m + 1, len(angles)):
            total += 1 / ((math.cos(angles[m]) - math.cos(angles[other])) ** 2 + 0.01)
            pairs += 1
    return total / pairs


# --- something to try them on ---------------------------------------------------------------------


def random_descriptors(B: int, K: int, seed: int, dtype: torch.dtype = torch.float64) -> PrimitiveDescriptors:
    """Primitives in general position, far from every floor."""
    draw = torch.Generator().manual_seed(seed)
    return PrimitiveDescriptors(
        centre=(2 * torch.rand(B, K, 2, generator=draw, dtype=torch.float64) - 1).to(dtype),
        presence=(0.05 + 0.9 * torch.rand(B, K, generator=draw, dtype=torch.float64)).to(dtype),
        extent=(0.05 + 0.6 * torch.rand(B, K, 2, generator=draw, dtype=torch.float64)).to(dtype),
        heatmap=torch.ones(B, K, 1, 1, dtype=dtype),
    )


@torch.no_grad()
def shake(predicates: Predicates, seed: int) -> None:
    """Give every family parameters of its own, broad enough that no activation underflows."""
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in predicates.named_parameters():
        noise = torch.rand(parameter.shape, generator=draw, dtype=torch.float64).to(parameter.dtype)
        if name.startswith("log_tolerance"):
            parameter.copy_((0.7 + 0.6 * noise).log())
        elif name.startswith("log_steepness"):
            parameter.copy_((1.0 + 3.0 * noise).log())
        elif name.startswith("margin"):
            parameter.copy_(noise - 0.5)
        else:
            parameter.copy_(0.1 + 2.9 * noise)


@torch.no_grad()
def scatter(composition: Composition, std: float, seed: int = 0) -> None:
    """Draw Λ from N(0, std²): the narrower, the wider the supports."""
    draw = torch.Generator().manual_seed(seed)
    composition.weight.copy_(std * torch.randn(composition.weight.shape, generator=draw, dtype=torch.float64))
