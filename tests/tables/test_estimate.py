"""Estimates: which spread stands after the ±, worked out by hand."""

import math

import pytest

from parse_dg.tables.estimate import Estimate, explain_spread

VALUES = {0: 0.5, 1: 0.6, 4: 0.85}


def test_the_standard_deviation_is_that_of_the_sample() -> None:
    mean = sum(VALUES.values()) / 3
    squares = sum((value - mean) ** 2 for value in VALUES.values())
    estimate = Estimate(VALUES)
    assert estimate.spread("std") == pytest.approx(math.sqrt(squares / 2))
    assert estimate.spread("se") == pytest.approx(math.sqrt(squares / 3) / math.sqrt(3))
    assert estimate.say("std") == "65.0 ± 18.0"
    assert estimate.say("se") == str(estimate) == "65.0 ± 8.5"


def test_a_single_trial_has_no_spread() -> None:
    assert Estimate({3: 0.25}, missing=(1,)).say("std") == "25.0 (1 of 2 trials)"
    assert Estimate({}, missing=(1,)).say("std") == "missing"
    assert str(Estimate({3: 0.25})) == "25.0"
    assert explain_spread("std", 1) == "one trial, so that there is no ±"
    assert explain_spread("std", 3) == "mean ± sample standard deviation over 3 trials"
