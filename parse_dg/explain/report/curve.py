"""A training as a picture: accuracy on held-out images and loss, check by check, as SVG within a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from parse_dg.explain.report.data import Curve
from parse_dg.explain.report.html import Html, element, joined

WIDTH, HEIGHT = 480, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 36
DASHES = ("7 4", "2 4", "9 3 2 3", "1 6", "12 4")
"""Lines differ by more than their colour; the last, which stands out, has none."""

CurveLine = Sequence[tuple[int, float]]
"""Steps and values."""


@dataclass(frozen=True)
class Axis:
    """Values along a side of the chart, and how they are said."""

    low: float
    high: float
    spoken: str
    """A format: `{:.0%}`."""

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Where the axis is labelled: at round numbers, about five of them."""
        least = (self.high - self.low) / 5
        power = 10.0 ** floor(log10(least))
        step = next(power * round_ for round_ in (1, 2, 2.5, 5, 10) if power * round_ >= least * (1 - 1e-9))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [step * n for n in range(first, last + 1)]


def curve_figures(curve: Curve) -> Html:
    """Both charts, each with what its lines are."""
    names = list(dict.fromkeys(name for point in curve.points for name in point.validation))
    accuracies = {
        name: [(p.step, p.validation[name]) for p in curve.points if name in p.validation] for name in names
    }
    if len(names) > 1:
        accuracies["mean of the source domains"] = [(p.step, p.mean) for p in curve.points if p.mean is not None]
    losses = [(p.step, p.loss) for p in curve.points if p.loss is not None]
    figures = []
    if any(accuracies.values()):
        figures.append(_figure(f"Accuracy on {curve.images}", accuracies, Axis(0, 1, "{:.0%}"), curve))
    if losses:
        found = [0.0, *(value for _, value in losses)]
        axis = Axis(min(found), max(found) or 1.0, "{:.2f}")
        figures.append(_figure("Training loss, mean since the check before", {"loss": losses}, axis, curve))
    return element("div", joined(figures), class_="charts")


def _figure(title: str, lines: Mapping[str, CurveLine], values: Axis, curve: Curve) -> Html:
    steps = Axis(0, max(point.step for point in curve.points) or 1, "{:,.0f}")
    chart = element(
        "svg",
        *(_grid(steps, values)),
        _chosen(steps, curve.chosen),
        *(_line(number, line, steps, values, len(lines)) for number, line in enumerate(lines.values())),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=_spoken(title, lines, values, curve.chosen),
    )
    names = [
        element("li", _swatch(number, len(lines)), name) for number, name in enumerate(lines) if len(lines) > 1
    ]
    key = element("ul", *names, class_="key") if names else Html("")
    return element("figure", element("figcaption", title), chart, key, class_="chart")


def _spoken(title: str, lines: Mapping[str, CurveLine], values: Axis, chosen: int) -> str:
    last = "; ".join(f"{name} ends at {values.spoken.format(line[-1][1])}" for name, line in lines.items() if line)
    return f"{title}: {last}. The weights of step {chosen:,} are the model."


def _grid(steps: Axis, values: Axis) -> list[Html]:
    parts = []
    for value in values.ticks():
        y = _y(values, value)
        parts.append(element("line", x1=str(LEFT), x2=str(WIDTH - RIGHT), y1=y, y2=y, class_="rule"))
        parts.append(element("text", values.spoken.format(value), x=str(LEFT - 8), y=y, class_="tick left"))
    for step in steps.ticks():
        text = steps.spoken.format(step)
        parts.append(element("text", text, x=_x(steps, step), y=str(HEIGHT - 14), class_="tick below"))
    return parts


def _chosen(steps: Axis, step: int) -> Html:
    """The check whose weights were taken."""
    x = _x(steps, step)
    return element("line", x1=x, x2=x, y1=str(TOP), y2=str(HEIGHT - BOTTOM), class_="chosen")


def _line(number: int, line: CurveLine, steps: Axis, values: Axis, count: int) -> Html:
    points = " ".join(f"{_x(steps, step)},{_y(values, value)}" for step, value in line)
    return element("polyline", points=points, class_=_kind(number, count), stroke_dasharray=_dash(number, count))


def _swatch(number: int, count: int) -> Html:
    line = element(
        "line", x1="0", x2="34", y1="5", y2="5", class_=_kind(number, count), stroke_dasharray=_dash(number, count)
    )
    return element("svg", line, viewBox="0 0 34 10", class_="swatch", aria_hidden="true")


def _kind(number: int, count: int) -> str:
    """The last of several is their mean, and stands out."""
    return "line mean" if number == count - 1 else f"line line{number % 5}"


def _dash(number: int, count: int) -> str:
    return "" if number == count - 1 else DASHES[number % len(DASHES)]


def _x(axis: Axis, value: float) -> str:
    return f"{LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT):.1f}"


def _y(axis: Axis, value: float) -> str:
    return f"{HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM):.1f}"
