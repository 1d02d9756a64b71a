"""The live display: a few lines on a check, and nothing where nobody looks."""

import io

from rich.console import Console

from parse_dg.cli.show.progress import check_line, training_display
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.check import Check

CHECK = Check(
    step=4,
    losses={"cross_entropy": 1.25, "diversity": 0.5, "total": 1.75},
    validation={"photo": Accuracy(3, 4, 0.7), "paint": Accuracy(1, 2, 0.9)},
    rates={"backbone": 5e-5, "head": 1e-3},
)


def test_a_check_in_three_lines() -> None:
    assert check_line(CHECK).splitlines() == [
        "  step 4: source validation 62.5%",
        "  loss 1.750 = cross_entropy 1.250 + diversity 0.500",
        "  rate backbone 5.0e-05, head 1.0e-03",
    ]


def test_a_terminal_sees_the_steps_and_the_last_check() -> None:
    screen = io.StringIO()
    with training_display(
        Console(file=screen, force_terminal=True, width=200), "erm, sketch held out", 4
    ) as observe:
        observe(3, None)
        observe(4, CHECK)
    for words in ("erm, sketch held out", "4/4", "source validation 62.5%"):
        assert words in screen.getvalue()
