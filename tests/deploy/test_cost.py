"""Costs: counted by hand on a small network, and every figure of the paper's compaction tables."""

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms import BuildContext
from parse_dg.algorithms.parse import ParseConfig
from parse_dg.deploy.compaction import compact
from parse_dg.deploy.cost import cost, count_parameters, feature_operations
from parse_dg.deploy.model_file import Model, ModelSpec
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, build_backbone
from parse_dg.model.backbones.mixstyle import MixStyleConfig
from parse_dg.model.composition import CompositionConfig
from parse_dg.model.network import ParseNetwork
from parse_dg.model.primitives import PrimitiveBottleneck, PrimitivesConfig
from parse_dg.model.structure import StructuralLayer
from parse_dg.model.vocabulary import VocabularyConfig


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


def model_of(backbone: str, classes: int, image_size: int, config: ParseConfig) -> Model:
    draw = torch.Generator().manual_seed(0)
    spec = ModelSpec(
        backbone=BackboneConfig(name=backbone),
        algorithm=config,
        classes=tuple(f"class {i}" for i in range(classes)),
        image_size=image_size,
    )
    built = build_backbone(spec.backbone, MixStyleConfig(stages=()), draw)
    return Model(spec, config.build(BuildContext(built, classes, generator=draw)).eval())


def test_compaction_changes_the_structural_part_and_nothing_else() -> None:
    full = model_of("small", 3, 64, ParseConfig(primitives=PrimitivesConfig(count=4)))
    small, report = compact(full)
    assert (cost(full), cost(small)) == (report.cost_before, report.cost_after)
    assert report.cost_before.features == report.cost_after.features > 0
    assert report.cost_before.structure == 2 * 3 * report.applications_before
    assert report.cost_after.structure == 2 * 3 * report.applications_after
    assert report.applications_after < report.applications_before


M = 130_176
CLASSES = {"DomainNet": 345, "CUB-DG": 200, "OfficeHome": 65, "TerraInc": 10, "PACS": 7, "VLCS": 5}

PER_TARGET = """
DomainNet | Clipart    | 68.50M | 44.91M | 0.333M |   964 | 4.201 | 4.112
DomainNet | Infograph  | 68.50M | 44.91M | 0.288M |   835 | 4.201 | 4.112
DomainNet | Painting   | 68.50M | 44.91M | 0.273M |   792 | 4.201 | 4.112
DomainNet | Quickdraw  | 68.50M | 44.91M | 0.336M |   975 | 4.201 | 4.112
DomainNet | Real       | 68.50M | 44.91M | 0.345M | 1,001 | 4.201 | 4.112
DomainNet | Sketch     | 68.50M | 44.91M | 0.263M |   763 | 4.201 | 4.112
CUB-DG    | Art        | 49.63M | 26.04M | 0.200M |   998 | 4.164 | 4.112
CUB-DG    | Cartoon    | 49.63M | 26.04M | 0.189M |   944 | 4.164 | 4.112
CUB-DG    | Paint      | 49.63M | 26.04M | 0.192M |   959 | 4.164 | 4.112
CUB-DG    | Photo      | 49.63M | 26.04M | 0.184M |   922 | 4.164 | 4.112
OfficeHome| Art        | 32.06M | 8.46M  | 0.078M | 1,194 | 4.128 | 4.112
OfficeHome| Clipart    | 32.06M | 8.46M  | 0.077M | 1,186 | 4.128 | 4.112
OfficeHome| Product    | 32.06M | 8.46M  | 0.079M | 1,213 | 4.128 | 4.112
OfficeHome| Real World | 32.06M | 8.46M  | 0.078M | 1,196 | 4.128 | 4.112
TerraInc  | L100       | 24.90M | 1.30M  | 0.004M |   419 | 4.114 | 4.112
TerraInc  | L38        | 24.90M | 1.30M  | 0.004M |   448 | 4.114 | 4.112
TerraInc  | L43        | 24.90M | 1.30M  | 0.004M |   423 | 4.114 | 4.112
TerraInc  | L46        | 24.90M | 1.30M  | 0.005M |   462 | 4.114 | 4.112
PACS      | Art        | 24.51M | 0.91M  | 0.002M |   272 | 4.113 | 4.112
PACS      | Cartoon    | 24.51M | 0.91M  | 0.002M |   307 | 4.113 | 4.112
PACS      | Photo      | 24.51M | 0.91M  | 0.002M |   253 | 4.113 | 4.112
PACS      | Sketch     | 24.51M | 0.91M  | 0.002M |   349 | 4.113 | 4.112
VLCS      | Caltech    | 24.24M | 0.65M  | 0.001M |   221 | 4.113 | 4.112
VLCS      | LabelMe    | 24.24M | 0.65M  | 0.001M |   238 | 4.113 | 4.112
VLCS      | Pascal     | 24.24M | 0.65M  | 0.001M |   258 | 4.113 | 4.112
VLCS      | SUN        | 24.24M | 0.65M  | 0.001M |   254 | 4.113 | 4.112
"""
"""Appendix C. Data set, target, full parameters, predicate parameters before and after, active predicates after,
GFLOPs before and after."""

SUMMARY = """
DomainNet  | 44.91M | 0.306M | 99.3% | 888   | 4.201 | 4.112
CUB-DG     | 26.04M | 0.191M | 99.3% | 956   | 4.164 | 4.112
OfficeHome | 8.46M  | 0.078M | 99.1% | 1,197 | 4.128 | 4.112
TerraInc   | 1.30M  | 0.004M | 99.7% | 438   | 4.114 | 4.112
PACS       | 0.91M  | 0.002M | 99.8% | 295   | 4.113 | 4.112
VLCS       | 0.65M  | 0.001M | 99.8% | 243   | 4.113 | 4.112
"""
"""Section 4. Data set, #Params, #PParams, reduction, active predicates, GFLOPs before and after."""

POOLING = 2048 * (49 + 1)
"""Of ResNet-50 at 224 pixels: 49 cells are added and divided by their number, in every channel."""
CLASSIFIER = 2048 * 1000
"""ResNet-50's own, for ImageNet's classes."""


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def active_in(row: list[str]) -> int:
    return int(row[5].replace(",", ""))


def millions(number: float, decimals: int) -> str:
    return f"{number / 1e6:.{decimals}f}M"


def gflops(features: int, classes: int, applications: float) -> str:
    return f"{(features + 2 * classes * applications) / 1e9:.3f}"


@pytest.fixture(scope="module")
def resnet50() -> Model:
    """PARSE as the paper has it: ResNet-50, 224 pixels, K = 16, 130,176 applications; 7 classes."""
    zeros = CompositionConfig(start="zeros")
    return model_of(
        "resnet50", 7, 224, ParseConfig(vocabulary=VocabularyConfig(enumeration="paper"), composition=zeros)
    )


@pytest.fixture(scope="module")
def features(resnet50: Model) -> int:
    return cost(resnet50).features


def counted_by_the_paper(features: int) -> int:
    """The whole ResNet-50, with pooling and ImageNet's classifier, in the place of ours with the projection."""
    return features - 49 * 16 * 2048 + POOLING + CLASSIFIER


def test_the_vocabulary_has_the_papers_size(resnet50: Model) -> None:
    assert resnet50.parse_network().structure.composition.weight.shape == (7, M)
    assert len(rows_of(PER_TARGET)) == 26
    assert {row[0] for row in rows_of(PER_TARGET)} == {row[0] for row in rows_of(SUMMARY)} == CLASSES.keys()


def test_resnet50_is_counted_as_it_usually_is(features: int) -> None:
    convolutions, normalised, projection = 4_087_136_256, 11_113_984, 49 * 16 * 2048
    assert features == convolutions + 2 * normalised + projection == 4_110_969_856
    assert counted_by_the_paper(features) == 4_111_514_624  # what thop says of torchvision's resnet50


@pytest.mark.parametrize("row", rows_of(PER_TARGET), ids=lambda row: f"{row[0]}, {row[1]}")
def test_a_row_of_the_appendix(row: list[str], features: int, resnet50: Model) -> None:
    classes, active, base = CLASSES[row[0]], active_in(row), counted_by_the_paper(features)
    without_lambda = count_parameters(resnet50) - 7 * M
    assert row[2:5] + row[6:] == [
        millions(without_lambda + classes * M, 2),
        millions(classes * M, 2),
        millions(classes * active, 3),
        gflops(base, classes, M),
        gflops(base, classes, active),
    ]


@pytest.mark.parametrize("row", rows_of(SUMMARY), ids=lambda row: row[0])
def test_a_row_of_the_summary_is_the_mean_over_targets(row: list[str], features: int) -> None:
    classes, base = CLASSES[row[0]], counted_by_the_paper(features)
    targets = [active_in(other) for other in rows_of(PER_TARGET) if other[0] == row[0]]
    active = sum(targets) / len(targets)
    assert row[1:] == [
        millions(classes * M, 2),
        millions(classes * active, 3),
        f"{100 * (1 - active / M):.1f}%",
        f"{active:,.0f}",
        gflops(base, classes, M),
        gflops(base, classes, active),
    ]
