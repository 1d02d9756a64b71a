"""The tokenizer of GVRT: lower-case words and punctuation.

A sentence is `BEGIN`, its words, `END`, and `PAD` up to the longest of its batch. The words are those of the
training captions, the frequent ones first, so that the same captions give the same numbers.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from parse_dg.config import require
from parse_dg.errors import InputError

PAD, BEGIN, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<begin>", "<end>", "<unknown>")

_TOKEN = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")
_CLOSING = re.compile(r" ([,.;:!?)\]}%’'])")
_OPENING = re.compile(r"([(\[{]) ")


def split_words(sentence: str) -> list[str]:
    """A sentence's words and punctuation marks, in lower case: `a bird, well-fed` → a · bird · , · well-fed."""
    return _TOKEN.findall(sentence.lower())


@dataclass(frozen=True)
class Tokenizer:
    """Sentences ↔ rows of numbers."""

    words: tuple[str, ...]
    """In the order of their numbers, which begin after those of `SPECIAL`."""
    length: int = 64
    """How many numbers a sentence has at most, `BEGIN` and `END` included; the rest of its words are left out."""

    def __post_init__(self) -> None:
        require(self.length >= 3, "the length of a sentence", self.length, "at least 3")
        wrong = [word for word in self.words if split_words(word) != [word]]
        if wrong:
            raise InputError(f"a vocabulary must hold single words in lower case, found {wrong[0]!r}")
        if len(set(self.words)) < len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise InputError(f"a vocabulary must hold every word once, found {twice!r} again")

    def __len__(self) -> int:
        """How many numbers there are."""
        return len(SPECIAL) + len(self.words)

    def encode(self, sentences: Sequence[str]) -> Int[Tensor, "B T"]:
        """Sentences → int64 numbers, padded to the longest."""
        if not sentences:
            return torch.zeros(0, 0, dtype=torch.long)
        rows = []
        for sentence in sentences:
            words = split_words(sentence)[: self.length - 2]
            rows.append(torch.tensor([BEGIN, *(self._number.get(word, UNKNOWN) for word in words), END]))
        return pad_sequence(rows, batch_first=True, padding_value=PAD)

    def decode(self, tokens: Int[Tensor, "B T"]) -> list[str]:
        """Numbers → sentences, up to the first `END`."""
        return [self._sentence(row) for row in tokens.tolist()]

    def to_bytes(self) -> UInt8[Tensor, "N"]:
        """The words as one tensor, a line each, in UTF-8: a model's weights can carry them."""
        return torch.tensor(list("\n".join(self.words).encode()), dtype=torch.uint8)

    @classmethod
    def from_bytes(cls, data: UInt8[Tensor, "N"], length: int = 64) -> "Tokenizer":
        """The tokenizer whose words were written by `to_bytes`."""
        try:
            text = bytes(data.tolist()).decode()
        except UnicodeDecodeError as error:
            raise InputError(f"a vocabulary must be UTF-8, found other bytes: {error}") from error
        return cls(tuple(text.split("\n")) if text else (), length)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, len(SPECIAL))}

    def _sentence(self, numbers: Sequence[int]) -> str:
        names = (*SPECIAL, *self.words)
        kept = numbers[: numbers.index(END)] if END in numbers else numbers
        joined = " ".join(names[number] for number in kept if number not in (PAD, BEGIN))
        return _OPENING.sub(r"\1", _CLOSING.sub(r"\1", joined))


def learn_tokenizer(sentences: Iterable[str], *, threshold: int = 1, length: int = 64) -> Tokenizer:
    """A tokenizer of the words that occur at least `threshold` times, the most frequent first."""
    counts = Counter(word for sentence in sentences for word in split_words(sentence))
    kept = [word for word, count in counts.items() if count >= threshold]
    return Tokenizer(tuple(sorted(kept, key=lambda word: (-counts[word], word))), length)
