"""Second views: where things go, what stays in place, and what is asked of primitives."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from parse_dg.model.primitives import PrimitiveDescriptors
from parse_dg.model.second_view import (
    SCALES,
    SHIFT,
    TURN,
    EquivarianceConfig,
    Move,
    SecondView,
    Style,
    draw_move,
    draw_style,
    lag,
    restyle,
    with_views,
)
from tests.parts import seeded


def bump(x: float, y: float, size: int = 65) -> Tensor:
    """An image with one soft bright spot at (x, y) of the grid."""
    axis = torch.linspace(-1, 1, size)
    spot = torch.exp(-((axis - x) ** 2) / 0.005) * torch.exp(-((axis - y) ** 2) / 0.005)[:, None]
    return spot.expand(1, 3, size, size)


def place(image: Tensor) -> tuple[float, float]:
    """Where the brightness of an image lies, on average."""
    axis, light = torch.linspace(-1, 1, image.shape[-1]), image[0].clamp_min(0) / image[0].sum()
    return float((light.sum(0) * axis).sum()), float((light.sum(1) * axis).sum())


def primitives(centre: Tensor, presence: Tensor | None = None) -> PrimitiveDescriptors:
    B, K, _ = centre.shape
    present = torch.ones(B, K).to(centre) if presence is None else presence
    return PrimitiveDescriptors(centre, present, torch.ones_like(centre), torch.ones(B, K, 2, 2).to(centre) / 4)


def still(count: int, x: float = 0.0) -> Move:
    """What is seen at p lies at p + (x, 0)."""
    return Move(torch.eye(2).expand(count, 2, 2), torch.tensor([x, 0.0]).expand(count, 2))


def test_a_spot_is_seen_where_its_place_has_moved_to() -> None:
    moves = draw_move(12, seeded())
    for number in range(12):
        move = Move(*(part[number : number + 1] for part in moves))
        x, y = move.places(torch.tensor([[[0.2, -0.3]]]))[0, 0].tolist()
        assert place(move.images(bump(0.2, -0.3))[0]) == pytest.approx((x, y), abs=0.01)


def test_moves_are_within_what_is_said_and_half_are_mirrored() -> None:
    matrix, shift = draw_move(2000, seeded())
    size = matrix.det().abs().sqrt()
    assert SCALES[0] <= size.min() < 0.82
    assert 1.18 < size.max() <= SCALES[1] + 1e-6
    turn = (matrix[:, 0, 1] / size).neg().asin().abs()
    assert TURN - 0.02 < turn.max() <= TURN + 1e-5
    assert SHIFT - 0.01 < shift.abs().max() <= SHIFT
    assert (matrix.det() < 0).double().mean() == pytest.approx(0.5, abs=0.05)


def test_no_style_moves_a_spot() -> None:
    image = bump(0.2, -0.3)
    for seed in range(40):
        restyled = restyle(image, draw_style(1, seeded(seed)))
        assert restyled.shape == image.shape
        away = (restyled - restyled[..., :1, :1]).abs().sum(1, keepdim=True)  # from the corner, which is background
        assert place(away[0]) == pytest.approx((0.2, -0.3), abs=0.05)


def test_the_plainest_style_is_the_image_itself() -> None:
    plain = torch.tensor([[0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9, 0.5, 0.9, 0.5]])
    image = torch.randn(1, 3, 9, 9, generator=seeded())
    torch.testing.assert_close(restyle(image, Style(plain, torch.tensor([[0, 1, 2]]))), image)
    swapped = restyle(image, Style(plain, torch.tensor([[2, 0, 1]])))
    torch.testing.assert_close(swapped, image[:, [2, 0, 1]])


@pytest.mark.parametrize(
    ("number", "value", "expected"),
    [
        (0, 0.1, lambda x: x.mean(1, keepdim=True).expand_as(x)),
        (7, 0.1, lambda x: -x),
        (4, 0.75, lambda x: x + torch.tensor([0.25, 0, 0])[:, None, None]),
        (1, 0.0, lambda x: torch.cat((x.mean() + (x[:, :1] - x.mean()) / 2, x[:, 1:]), 1)),
    ],
    ids=["grey", "negative", "brighter", "less contrast"],
)
def test_single_changes_of_style(number: int, value: float, expected: Callable[[Tensor], Tensor]) -> None:
    plain = torch.tensor([[0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.9, 0.5, 0.9, 0.5]])
    plain[0, number] = value
    image = torch.randn(1, 3, 9, 9, generator=seeded())
    found = restyle(image, Style(plain, torch.tensor([[0, 1, 2]])))
    torch.testing.assert_close(found, expected(image))


def test_primitives_that_follow_lag_by_nothing() -> None:
    move, centre = draw_move(4, seeded()), 0.5 * torch.rand(4, 3, 2, generator=seeded(1))
    assert lag(primitives(centre), primitives(move.places(centre)), move).item() == pytest.approx(0, abs=1e-10)
    assert lag(primitives(centre), primitives(centre), move).item() > 0.01


def test_the_lag_is_a_mean_over_what_is_present_and_in_view() -> None:
    first = primitives(
        torch.tensor([[[0.0, 0.0], [0.0, 0.0], [-0.9, 0.0]]]), torch.tensor([[1.0, 0.5, 1.0]])
    )  # the last leaves the view
    second = primitives(torch.tensor([[[-0.2, 0.1], [-0.2, 0.5], [0.9, 0.9]]]))
    near, far = 0.5 * 0.1**2 / 0.2, 0.5 - 0.1  # quadratic up to 0.2, linear beyond
    expected = (1.0 * near + 0.5 * far) / 1.5
    assert lag(first, second, still(1, 0.2)).item() == pytest.approx(expected, rel=1e-5)


def test_nothing_in_view_is_no_loss() -> None:
    centre = torch.full((2, 3, 2), 0.99, requires_grad=True)
    found = lag(primitives(centre), primitives(centre), still(2, -0.2))
    found.backward()
    assert found.item() == 0
    assert centre.grad is not None
    assert not centre.grad.any()


def test_both_views_are_pulled_and_presence_is_not() -> None:
    first, second = (torch.zeros(1, 1, 2, requires_grad=True) for _ in range(2))
    presence = torch.full((1, 1), 0.7, requires_grad=True)
    lag(primitives(first, presence), primitives(second), still(1, 0.4)).backward()
    assert first.grad is not None
    assert second.grad is not None
    torch.testing.assert_close(first.grad, -second.grad)
    assert math.copysign(1, first.grad[0, 0, 0]) == -1  # to the right; the second to the left
    assert presence.grad is None


def test_a_share_of_a_batch_is_what_the_whole_has_there() -> None:
    images = torch.randn(6, 3, 16, 16, generator=seeded(2))
    view = SecondView(EquivarianceConfig(weight=1.0))
    whole, moves = view(images, 6, seeded())
    view.share = slice(1, None, 2)
    part, same = view(images[1::2], 6, seeded())
    assert torch.equal(part, whole[1::2])
    assert all(torch.equal(one, other) for one, other in zip(moves, same, strict=True))


def test_without_another_style_a_view_is_moved_and_no_more() -> None:
    images = torch.randn(4, 3, 16, 16, generator=seeded(2))
    views, move = SecondView(EquivarianceConfig(weight=1.0, restyle=False))(images, 4, seeded())
    assert torch.equal(views, move.images(images))
    assert not torch.equal(SecondView(EquivarianceConfig(weight=1.0))(images, 4, seeded())[0], views)


def test_a_batch_is_its_images_then_their_views() -> None:
    images, views = torch.zeros(2, 3, 4, 4), torch.ones(2, 3, 4, 4)
    assert with_views(images, None) is images
    assert with_views(images, views)[:, 0, 0, 0].tolist() == [0, 0, 1, 1]
