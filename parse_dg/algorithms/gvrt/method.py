"""GVRT, grounding visual representations with texts (Min et al. 2022, ECCV, arXiv:2207.10285).

Every training image comes with a sentence. The image's features are pulled towards a sentence's vector in a joint
space, and must suffice to write the sentence: word by word as it stands, and, for sentences the explainer makes up,
so that a discriminator recognises the image's class in them (REINFORCE). Predicting takes the image alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, LossTerms, Minibatch, Width, linear, widened
from parse_dg.algorithms.gvrt.clip import ClipEncoder, EncoderName, load_clip
from parse_dg.algorithms.gvrt.decoder import Discriminator, Explainer, WordLikelihoods, at_last
from parse_dg.algorithms.gvrt.text import END, PAD, Tokenizer, learn_tokenizer
from parse_dg.algorithms.pooled import Pooled, PooledConfig
from parse_dg.config import Count, NotNegative, at_least, at_most
from parse_dg.data.sampling import captions_of
from parse_dg.data.splits import Subset
from parse_dg.errors import InputError


class Gvrt(Pooled):
    """ERM whose features are grounded in sentences."""

    config: "GvrtConfig"

    words: Tensor

    def __init__(self, config: "GvrtConfig", context: BuildContext):
        super().__init__(config, context)
        backbone, classes, generator = context.backbone, context.classes, context.generator
        vocabulary = context.vocabulary or Tokenizer(())
        assert isinstance(vocabulary, Tokenizer)
        self.vocabulary = vocabulary
        self.clip = None if config.encoder == "trained" else ClipEncoder(config.encoder, vocabulary)
        self.visual = linear(backbone.channels, config.width, generator)  # W_v
        self.textual = linear(self.clip.width if self.clip else config.width, config.width, generator)  # W_t
        self.joint_classifier = linear(config.width, classes, generator)
        self.explainer = Explainer(len(vocabulary), classes, config.width, generator)
        self.discriminator = Discriminator(len(vocabulary), classes, config.width, generator)
        self.register_buffer("words", vocabulary.to_bytes())  # so that a saved model can put things in words

    def losses(self, example: Minibatch, generator: torch.Generator) -> LossTerms:
        if example.captions is None:
            raise InputError("gvrt needs a sentence about every image, found a batch that has none")
        features = self.features(example.images, generator)
        terms = {"cross_entropy": self.cross_entropy(self.classifier(features), example.labels)}
        with torch.autocast(features.device.type, enabled=False):  # LSTMs are small: exactness costs little
            return terms | self._ground(widened(features), example.labels, example.captions, generator)

    def _ground(
        self,
        features: Float[Tensor, "B D"],
        labels: Int[Tensor, "B"],
        captions: Int[Tensor, "B T"],
        generator: torch.Generator,
    ) -> LossTerms:
        """The terms that know the captions."""
        config = self.config
        if config.repeat_end:
            captions = F.pad(captions, (0, config.caption_length - captions.shape[1]), value=PAD)
            captions = captions.masked_fill(captions == PAD, END)
        image = self.visual(features)
        about = self.explainer.about(image, labels)
        states = self.explainer.read(captions[:, :-1])
        made_up = self.explainer.sample(about, config.sample_length, generator)
        made_up_states = self.explainer.read(made_up[:, :-1])
        vector = self.clip(captions) if self.clip else at_last(made_up_states, made_up[:, 1:] != PAD)
        terms = {
            "align": config.align * F.mse_loss(image, self.textual(vector)),
            "align_class": config.align * self.cross_entropy(self.joint_classifier(image), labels),
            "tokens": config.tokens * self._per_word(self.explainer.speak(captions, states, about)),
            "discriminator": config.discriminator * self.cross_entropy(self.discriminator(captions), labels),
        }
        if config.reinforce:
            spoken = self.explainer.speak(made_up, made_up_states, about)
            terms["reinforce"] = config.reinforce * self._reinforce(made_up, spoken, labels)
        return terms

    def _per_word(self, spoken: WordLikelihoods) -> Float[Tensor, ""]:
        """The mean over domains of the mean over their words of -log p; all other terms are plain means."""
        parts = zip(*(part.chunk(self.domains) for part in spoken), strict=True)
        return torch.stack([-found.sum() / words.sum() for found, words in parts]).mean()

    def _reinforce(
        self, made_up: Int[Tensor, "B T1"], spoken: WordLikelihoods, labels: Int[Tensor, "B"]
    ) -> Float[Tensor, ""]:
        """-log p of made-up sentences, each times its reward: how sure the discriminator is of the right class."""
        with torch.no_grad():
            reward = self.discriminator(made_up).softmax(1).gather(1, labels[:, None])[:, 0]
        rewarded: Tensor = -(spoken.log_probability.sum(1) * reward).mean()
        return rewarded

    @torch.no_grad()
    def sentences(self, images: Float[Tensor, "B 3 H W"], labels: Int[Tensor, "B"] | None = None) -> list[str]:
        """What the explainer writes, the likeliest word each time."""
        features = self.backbone(images).mean((2, 3))
        if labels is None:
            labels = self.classifier(features).argmax(1)
        about = self.explainer.about(self.visual(features), labels)
        return self.vocabulary.decode(self.explainer.sample(about, self.config.sample_length))


@dataclass(frozen=True, kw_only=True)
class GvrtConfig(PooledConfig):
    """Settings of GVRT; the defaults are those published for CUB-DG, but for the encoder."""

    name = "gvrt"
    method = Gvrt
    writes_sentences = True
    summary = "features grounded in the images' captions"
    reference = "Min et al. 2022, arXiv:2207.10285"
    compares_domains = True
    encoder: EncoderName = "trained"
    """What an image is aligned with: `trained`, the state of the explainer's reader after the sentence it made up
    about the image (the authors' self-trained encoder), or the vector a CLIP text encoder gives of the caption."""
    width: Width = 128
    """Of the joint space, the word embeddings and the LSTMs."""
    align: NotNegative = 1.0
    """On the distance between image and sentence in the joint space, and on the class read from the image there."""
    tokens: NotNegative = 1.0
    """λ, on the cross-entropy of the words; 0.1 on DomainBed's data sets."""
    reinforce: NotNegative = 1.0
    """λ, on REINFORCE; 0.1 on DomainBed's data sets."""
    discriminator: NotNegative = 1.0
    """On the discriminator's cross-entropy."""
    word_count: Count = 1
    """How often a word must occur in the training captions to be known."""
    caption_length: Annotated[int, at_least(3), at_most(2**16)] = 64
    """How many words of a caption are read, its beginning and end included."""
    repeat_end: bool = False
    """Every caption is filled up with ends to `caption_length`, which are written and read like words, as in the
    authors' program; false: a caption ends once."""
    sample_length: Count = 80
    """How many words a made-up sentence has at most."""

    def least_parameters(self, classes: int) -> Mapping[str, int]:
        return {"width": 8 * self.width**2}  # of an LSTM

    def learn_vocabulary(self, sources: Sequence[Subset]) -> Tokenizer:
        """Raises if images have no captions, or if the sentence encoder is not on this machine."""
        sentences = (sentence for source in sources for some in captions_of(source) for sentence in some)
        tokenizer = learn_tokenizer(sentences, threshold=self.word_count, length=self.caption_length)
        if self.encoder != "trained":
            load_clip(self.encoder)
        return tokenizer

    def read_vocabulary(self, state: Mapping[str, Tensor]) -> Tokenizer:
        if "words" not in state:
            raise InputError("a model of gvrt must hold its vocabulary, found no tensor called words")
        return Tokenizer.from_bytes(state["words"], self.caption_length)
