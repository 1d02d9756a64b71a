"""Costs: counted by hand on a small network, and every figure of the paper's compaction tables."""

from statistics import fmean

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.parse import ParseConfig
from parse_dg.data.public.catalogue import DATA_SETS
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.cost import cost, count_parameters, feature_operations
from parse_dg.deploy.model_file import Model
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.network import ParseNetwork
from parse_dg.model.primitives import PrimitiveBottleneck, PrimitivesConfig
from parse_dg.model.structure import StructuralLayer
from parse_dg.model.vocabulary import VocabularyConfig
from parse_dg.tables.published import PublishedCompaction, published
from tests.parts import model_of


class Handmade(Backbone):
    """8×8 pixels → 4×4 cells: a convolution, a normalisation, attention, and things that are free."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__(channels=6, freeze_batchnorm=False)
        self.conv = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        self.norm = norm

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        x = self.norm(self.conv(images)).relu()
        x = x + nn.functional.avg_pool2d(x, 3, stride=1, padding=1)
        tokens = x.flatten(2).transpose(1, 2)  # (B, 16, 6)
        mixed = torch.bmm(torch.bmm(tokens, tokens.transpose(1, 2)), tokens)
        return mixed.transpose(1, 2).reshape(x.shape)


CONVOLUTION = 16 * 6 * (3 * 9)  # cells × channels out × (channels in × 3 × 3)
ATTENTION = 2 * 16 * 16 * 6
PROJECTION = 16 * 5 * 6  # K = 5
NORMALISATION = 2 * 16 * 6
NORMS = {
    "batch": nn.BatchNorm2d(6),
    "instance": nn.InstanceNorm2d(6),
    "group": nn.GroupNorm(2, 6),
    "layer": nn.LayerNorm([6, 4, 4]),
}


def handmade(norm: nn.Module) -> ParseNetwork:
    bottleneck = PrimitiveBottleneck(6, PrimitivesConfig(count=5))
    return ParseNetwork(Handmade(norm), bottleneck, StructuralLayer(5, 2, ParseConfig()))


@pytest.mark.parametrize("norm", NORMS)
def test_a_network_counted_by_hand(norm: str) -> None:
    found = feature_operations(handmade(NORMS[norm]), 8)
    assert found == CONVOLUTION + ATTENTION + PROJECTION + NORMALISATION
    assert feature_operations(handmade(nn.Identity()), 8) == found - NORMALISATION


def test_compaction_changes_the_structural_part_and_nothing_else() -> None:
    full = model_of(ParseConfig(primitives=PrimitivesConfig(count=4)))
    small, report = compact(full)
    assert (cost(full), cost(small)) == (report.cost_before, report.cost_after)
    assert report.cost_before.features == report.cost_after.features > 0
    assert report.cost_before.structure == 2 * 3 * report.applications_before
    assert report.cost_after.structure == 2 * 3 * report.applications_after
    assert report.applications_after < report.applications_before


M = 130_176
ROWS = [row for row in published().compaction if "Λ before" in row.figures]

POOLING = 2048 * (49 + 1)
"""Of ResNet-50 at 224 pixels: 49 cells are added and divided by their number, in every channel."""
CLASSIFIER = 2048 * 1000
"""ResNet-50's own, for ImageNet's classes."""


def millions(number: float, decimals: int) -> str:
    return f"{number / 1e6:.{decimals}f}M"


def gflops(features: int, classes: int, applications: float) -> str:
    return f"{(features + 2 * classes * applications) / 1e9:.3f}"


@pytest.fixture(scope="module")
def resnet50() -> Model:
    """PARSE as the paper has it: ResNet-50, 224 pixels, K = 16, 130,176 applications; 7 classes."""
    zeros = CompositionConfig(start="zeros")
    config = ParseConfig(vocabulary=VocabularyConfig(enumeration="paper"), composition=zeros)
    return model_of(config, tuple("abcdefg"), backbone=BackboneConfig(name="resnet50"), image_size=224)


@pytest.fixture(scope="module")
def features(resnet50: Model) -> int:
    return cost(resnet50).features


def counted_by_the_paper(features: int) -> int:
    """The whole ResNet-50, with pooling and ImageNet's classifier, in the place of ours with the projection."""
    return features - 49 * 16 * 2048 + POOLING + CLASSIFIER


def test_the_vocabulary_has_the_papers_size(resnet50: Model) -> None:
    assert resnet50.parse_network().structure.composition.weight.shape == (7, M)
    assert sorted(row.data_set for row in ROWS if row.target is None) == sorted(DATA_SETS)
    targets = {(data, domain) for data, known in DATA_SETS.items() for domain in known.domains}
    assert {(row.data_set, row.target) for row in ROWS if row.target is not None} == targets
    assert len(ROWS) == 6 + 26


def test_resnet50_is_counted_as_it_usually_is(features: int) -> None:
    convolutions, normalised, projection = 4_087_136_256, 11_113_984, 49 * 16 * 2048
    assert features == convolutions + 2 * normalised + projection == 4_110_969_856
    assert counted_by_the_paper(features) == 4_111_514_624  # what thop says of torchvision's resnet50


def active(row: PublishedCompaction) -> float:
    """Of a target as it is printed; of a data set the mean over its targets."""
    if row.target is not None:
        return float(row.figures["applications after"].replace(",", ""))
    return fmean(active(other) for other in ROWS if other.target is not None and other.data_set == row.data_set)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.data_set}, {row.target}")
def test_every_printed_figure_is_what_is_counted_here(
    row: PublishedCompaction, features: int, resnet50: Model
) -> None:
    """Table 2 (b), which is the mean over targets, and the table of appendix C."""
    classes, base = len(DATA_SETS[row.data_set].classes), counted_by_the_paper(features)
    counted = {
        "parameters": millions(count_parameters(resnet50) - 7 * M + classes * M, 2),
        "Λ before": millions(classes * M, 2),
        "Λ after": millions(classes * active(row), 3),
        "reduction": f"{100 * (1 - active(row) / M):.1f}%",
        "applications before": f"{M:,}",
        "applications after": f"{active(row):,.0f}",
        "GFLOPs before": gflops(base, classes, M),
        "GFLOPs after": gflops(base, classes, active(row)),
    }
    assert row.figures == {name: counted[name] for name in row.figures}
