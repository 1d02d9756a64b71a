"""SagNet, style-agnostic networks: classify by content whatever the style, and let the style not tell the class.

Nam et al. 2021, arXiv:1910.11645, in the form of Gulrajani & Lopez-Paz 2021, arXiv:2007.01434: style is the mean
and the variance of an image's pooled feature vector, not of the channels of a feature map.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, LossTerms, Minibatch, Turn, linear, widened
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import NotNegative

EPS = 1e-5
"""Added to a variance before its root."""


Exchange = tuple[Float[Tensor, "B 1"], Int[Tensor, "B"]]
"""α, how much of its own style an image keeps, and the number of the image that it takes the rest from."""


class SagNet(Pooled):
    """Three turns a step, each with an exchange of its own.

    Backbone and classifier learn the class from content under a mixed style; a style classifier learns it from the
    style on the content of another image; and the backbone learns to make the style classifier unsure. The backbone
    stands still in the second turn, so that the last two share one pass, where the published code makes two.
    """

    config: "SagNetConfig"
    apart = (("adversary", "style_classifier."),)

    def __init__(self, config: "SagNetConfig", context: BuildContext):
        super().__init__(config, context)
        self.style_classifier = linear(context.backbone.channels, context.classes, context.generator)

    def draw(self, size: int, generator: torch.Generator) -> Exchange:
        """On the CPU: α of each image, uniform in [0, 1), then the permutation of partners."""
        return torch.rand((size, 1), generator=generator), torch.randperm(size, generator=generator)

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        """The first turn: the classes, from content under a mixed style."""
        features = self._wide_features(example, generator)
        mixed = mix_style(features, self._drawn(features, generator))
        return {"cross_entropy": self.cross_entropy(self.classifier(mixed), example.labels)}

    def turns(self, example: Minibatch, generator: torch.Generator) -> Iterator[Turn]:
        yield Turn(self.losses(example, generator), ("backbone", "head"))
        features = self._wide_features(example, generator)
        swapped = swap_content(features.detach(), self._drawn(features, generator))
        style = self.cross_entropy(self.style_classifier(swapped), example.labels)
        yield Turn({"style": style}, ("adversary",))
        swapped = swap_content(features, self._drawn(features, generator))
        yield Turn({"adversary": self.config.weight * unsureness(self.style_classifier(swapped))}, ("backbone",))

    def _drawn(self, features: Float[Tensor, "B D"], generator: torch.Generator) -> Exchange:
        share, partner = self.draw(len(features), generator)
        return share.to(features.device, non_blocking=True), partner.to(features.device, non_blocking=True)

    def _wide_features(self, example: Minibatch, generator: torch.Generator) -> Float[Tensor, "B D"]:
        """Pooled features: a variance needs the digits."""
        return widened(self.features(example.images, generator))


@dataclass(frozen=True, kw_only=True)
class SagNetConfig(PooledConfig):
    """Settings of SagNet."""

    name = "sagnet"
    method = SagNet
    summary = "content classified under mixed styles, and a style that does not tell the class"
    reference = "Nam et al. 2021, arXiv:1910.11645"
    weight: NotNegative = 0.1
    """Of the adversarial loss, which makes the style say nothing of the class."""


def mix_style(features: Float[Tensor, "B D"], exchange: Exchange) -> Float[Tensor, "B D"]:
    """The features with mean and variance mixed with those of the partner: α of their own, 1 - α of the other's."""
    variance, mean = torch.var_mean(features, 1, keepdim=True)  # (B, 1)
    share, partner = exchange
    mixed_mean = share * mean + (1 - share) * mean[partner]
    mixed_variance = share * variance + (1 - share) * variance[partner]
    return (features - mean) / (variance + EPS).sqrt() * (mixed_variance + EPS).sqrt() + mixed_mean


def swap_content(features: Float[Tensor, "B D"], exchange: Exchange) -> Float[Tensor, "B D"]:
    """The partner's normalised features under the image's own mean and variance, through which alone a gradient
    flows.
    """
    variance, mean = torch.var_mean(features, 1, keepdim=True)  # (B, 1)
    std = (variance + EPS).sqrt()
    content = ((features - mean) / std).detach()
    return content[exchange[1]] * std + mean


def unsureness(logits: Float[Tensor, "B C"]) -> Float[Tensor, ""]:
    """The cross-entropy with the uniform distribution, smallest where all classes are alike."""
    return -widened(logits).log_softmax(1).mean()
