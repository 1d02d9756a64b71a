"""CDANN, conditional domain-adversarial training: within a class, the source domain cannot be told.

Li et al. 2018 (ECCV), in the form with alternating updates, a class embedding and class weights of Gulrajani &
Lopez-Paz 2021, arXiv:2007.01434.
"""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from parse_dg.algorithms.base import BuildContext
from parse_dg.algorithms.dann import Dann, DannConfig


class Cdann(Dann):
    """DANN whose discriminator also sees the class; every class of a batch counts the same."""

    apart = (*Dann.apart, ("adversary", "class_embeddings."))

    def __init__(self, config: "CdannConfig", context: BuildContext):
        super().__init__(config, context)
        self.class_embeddings = nn.Embedding(context.classes, context.backbone.channels)
        nn.init.normal_(self.class_embeddings.weight, generator=context.generator)

    def judged(self, features: Float[Tensor, "B D"], labels: Int[Tensor, "B"]) -> Float[Tensor, "B D"]:
        """The features plus the embedding of the class, which learns with the discriminator."""
        seen: Tensor = features + self.class_embeddings(labels)
        return seen

    def averaged(self, each: Float[Tensor, "B"], labels: Int[Tensor, "B"]) -> Float[Tensor, ""]:
        """The sum of the mean of each class, over how many classes there seem to be: the largest label plus one, as
        in the published code, though classes that the batch lacks then make the loss smaller.
        """
        alike = (labels[:, None] == labels).sum(1)  # (B,): images of the same class
        return (each / (alike * (labels.max() + 1))).sum()


@dataclass(frozen=True, kw_only=True)
class CdannConfig(DannConfig):
    """Settings of CDANN."""

    name = "cdann"
    method = Cdann
    summary = "features from which a discriminator that knows the class cannot tell the source domain"
    reference = "Li et al. 2018, ECCV; Gulrajani & Lopez-Paz 2021, arXiv:2007.01434"
