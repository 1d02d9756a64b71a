"""The live display: a few lines on a check, and nothing where nobody looks."""

import io

from rich.console import Console

from parse_dg.cli.show.progress import check_line, counting_display, training_display
from parse_dg.training.accuracy import Accuracy
from parse_dg.training.check import Check

CHECK = Check(
    step=4,
    losses={"cross_entropy": 1.25, "diversity": 0.5, "total": 1.75},
    validation={"photo": Accuracy(3, 4, 0.7), "paint": Accuracy(1, 2, 0.9)},
    rates={"backbone": 5e-5, "head": 1e-3},
)


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=200)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_check_in_three_lines() -> None:
    assert check_line(CHECK).splitlines() == [
        "  step 4: source validation 62.5%",
        "  loss 1.750 = cross_entropy 1.250 + diversity 0.500",
        "  rate backbone 5.0e-05, head 1.0e-03",
    ]


def test_a_line_a_check_where_there_is_no_terminal() -> None:
    pipe = console(terminal=False)
    with training_display(pipe, "erm, sketch held out", 4) as observe:
        for step in range(1, 5):
            observe(step, CHECK if step == 4 else None)
    with counting_display(pipe) as bars:
        bars.update(bars.add_task("drawing", total=2), completed=2)
    said = "erm, sketch held out: step 4 of 4, source validation 62.5%, loss 1.750"
    assert shown(pipe).splitlines() == [said]


def test_a_terminal_sees_the_steps_and_the_last_check() -> None:
    screen = console(terminal=True)
    with training_display(screen, "erm, sketch held out", 4) as observe:
        observe(3, None)
        observe(4, CHECK)
    assert "erm, sketch held out" in shown(screen)
    assert "4/4" in shown(screen)
    assert "source validation 62.5%" in shown(screen)
