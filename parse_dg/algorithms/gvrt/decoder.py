"""The networks of GVRT that read and write sentences (Min et al. 2022, arXiv:2207.10285).

The explainer writes a sentence about an image, word by word: a first LSTM reads the words so far, a second one sees
its state, the image's embedding and the class. The discriminator reads a sentence and says which class it is about.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from parse_dg.algorithms.base import linear, started
from parse_dg.algorithms.gvrt.text import BEGIN, END, PAD

WRITABLE = END
"""The first number that may be written: `PAD` and `BEGIN`, which come before it, never are."""

LstmState = tuple[Tensor, Tensor] | None


class WordLikelihoods(NamedTuple):
    """The log-likelihood of every word of given sentences."""

    log_probability: Float[Tensor, "B T"]
    """Zero where there is no word."""
    words: Bool[Tensor, "B T"]
    """Where there is one: everything after `BEGIN`, `END` included."""


class CaptionReader(nn.Module):
    """Reads a sentence word by word."""

    def __init__(self, vocabulary: int, width: int, generator: torch.Generator | None):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, generator=generator)
        self.reader = lstm(width, width, generator)

    def read(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The LSTM's state after each word; it does not know what comes later."""
        states: Tensor = self.reader(self.embedding(tokens))[0]
        return states


class Explainer(CaptionReader):
    """Image embedding and class → a sentence."""

    def __init__(self, vocabulary: int, classes: int, width: int = 128, generator: torch.Generator | None = None):
        super().__init__(vocabulary, width, generator)
        self.classes = classes
        self.writer = lstm(2 * width + classes, width, generator)
        self.output = linear(width, vocabulary - WRITABLE, generator)

    def about(self, image: Float[Tensor, "B D"], labels: Int[Tensor, "B"]) -> Float[Tensor, "B E"]:
        """What a sentence is to be about: the image's embedding, and its class."""
        return torch.cat((image, F.one_hot(labels, self.classes).to(image.dtype)), dim=1)

    def speak(
        self, tokens: Int[Tensor, "B T1"], states: Float[Tensor, "B T D"], about: Float[Tensor, "B E"]
    ) -> WordLikelihoods:
        """How likely the sentences are when each word is written after the true ones (teacher forcing).

        `states` are those of `read` on all tokens but the last.
        """
        logits, _ = self._write(states, about)
        targets, words = tokens[:, 1:], tokens[:, 1:] != PAD
        chosen = (targets - WRITABLE).clamp(min=0)
        found = logits.log_softmax(2).gather(2, chosen[..., None])[..., 0]
        return WordLikelihoods(torch.where(words, found, 0.0), words)

    @torch.no_grad()
    def sample(
        self, about: Float[Tensor, "B E"], limit: int, generator: torch.Generator | None = None
    ) -> Int[Tensor, "B T"]:
        """Sentences of at most `limit` words after `BEGIN`, by draws from a generator on the CPU.

        Without one, the likeliest word is written each time. All draws are made at once, however long the sentences
        become. On CUDA they are written to the limit, as asking whether all have ended would wait.
        """
        count, device = len(about), about.device
        uniform = None if generator is None else torch.rand(count, limit, generator=generator).to(device)
        token = torch.full((count,), BEGIN, device=device)
        ended = torch.zeros(count, dtype=torch.bool, device=device)
        tokens, reading, writing = [token], None, None
        for place in range(limit):
            state, reading = self.reader(self.embedding(token[:, None]), reading)
            logits, writing = self._write(state, about, writing)
            token = _choose(logits[:, 0], None if uniform is None else uniform[:, place])
            token = torch.where(ended, PAD, token)
            tokens.append(token)
            ended = ended | (token == END)
            if not about.is_cuda and bool(ended.all()):
                break
        return torch.stack(tokens, dim=1)

    def _write(self, states: Tensor, about: Tensor, before: LstmState = None) -> tuple[Tensor, LstmState]:
        """Logits of the next word, and the second LSTM's state."""
        seen = torch.cat((states, about[:, None].expand(-1, states.shape[1], -1)), dim=2)
        hidden, after = self.writer(seen, before)
        return self.output(hidden), after


class Discriminator(CaptionReader):
    """A sentence → logits of the class it is about."""

    def __init__(self, vocabulary: int, classes: int, width: int = 128, generator: torch.Generator | None = None):
        super().__init__(vocabulary, width, generator)
        self.classifier = linear(width, classes, generator)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        words = tokens[:, 1:]  # `BEGIN` is not read
        logits: Tensor = self.classifier(at_last(self.read(words), words != PAD))
        return logits


def at_last(states: Float[Tensor, "B T D"], words: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """The state at the last word of each sentence."""
    last = (words.sum(1) - 1).clamp(min=0)
    return states[torch.arange(len(states), device=states.device), last]


def lstm(inputs: int, width: int, generator: torch.Generator | None) -> nn.LSTM:
    """One layer, batch first, with its usual start."""
    return started(nn.LSTM(inputs, width, batch_first=True), width, generator)


def _choose(logits: Float[Tensor, "B V"], uniform: Float[Tensor, "B"] | None) -> Int[Tensor, "B"]:
    """The number of the likeliest word, or of the one in whose share of the probability `uniform` falls."""
    if uniform is None:
        return logits.argmax(1) + WRITABLE
    shares = logits.softmax(1).cumsum(1)
    passed = (shares <= (uniform[:, None] * shares[:, -1:])).sum(1)
    return passed.clamp(max=logits.shape[1] - 1) + WRITABLE
