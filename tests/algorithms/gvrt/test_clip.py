"""CLIP's text encoder through a stand-in for transformers."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.gvrt.clip import CLIP, ClipEncoder, load_clip
from parse_dg.algorithms.gvrt.text import Tokenizer, learn_tokenizer
from tests.parts import refusal

SENTENCES = ["a red bird, flying", "a fish", "a red bird, flying"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(SENTENCES)


class Numbers(dict[str, Tensor]):
    def to(self, device: torch.device) -> "Numbers":
        return self


class FakeText(nn.Module):
    """The vector of a text is all its length."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.seen: list[Tensor] = []

    def forward(self, lengths: Tensor) -> Any:
        self.seen.append(lengths)
        return SimpleNamespace(text_embeds=lengths[:, None] * self.weight)


class FakeTransformers:
    """Has the weights of some places only; remembers what it was asked for."""

    def __init__(self, *there: str):
        self.there, self.asked = there, []
        self.network = FakeText(512)
        self.CLIPTokenizerFast = SimpleNamespace(from_pretrained=self.words)
        self.CLIPTextModelWithProjection = SimpleNamespace(from_pretrained=self.text)

    def words(self, repository: str, **options: Any) -> Any:
        return lambda texts, **settings: Numbers(lengths=torch.tensor([float(len(text)) for text in texts]))

    def text(self, repository: str, **options: Any) -> FakeText:
        self.asked.append((repository, options))
        if repository not in self.there:
            raise OSError(f"{repository} is not here\nsecond line")
        return self.network


def test_clip_sees_sentences_once_and_without_a_gradient(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeTransformers("openai/clip-vit-base-patch32")
    monkeypatch.setitem(sys.modules, "transformers", fake)
    encoder = ClipEncoder("clip-vit-b-32", tokenizer)
    assert (encoder.width, fake.asked) == (512, [])  # not loaded before it is asked
    tokens = tokenizer.encode(SENTENCES)
    found = encoder(tokens)
    assert found.shape == (3, 512)
    assert not found.requires_grad
    assert found[:, 0].tolist() == [len(sentence) for sentence in SENTENCES]
    assert torch.equal(encoder(tokens), found)
    assert [seen.tolist() for seen in fake.network.seen] == [[18, 6]]
    assert len(fake.asked) == 1


def test_only_files_that_are_here_and_execute_nothing_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTransformers("sentence-transformers/clip-ViT-B-32")
    monkeypatch.setitem(sys.modules, "transformers", fake)
    _, network = load_clip("clip-vit-b-32")
    assert not network.training
    assert not network.weight.requires_grad
    options = {"local_files_only": True, "use_safetensors": True}
    assert fake.asked == [
        ("openai/clip-vit-base-patch32", options | {"subfolder": ""}),
        ("sentence-transformers/clip-ViT-B-32", options | {"subfolder": "0_CLIPModel"}),
    ]


@pytest.mark.parametrize("name", CLIP)
def test_missing_weights_are_one_clear_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", FakeTransformers())
    message = refusal(load_clip, name)
    assert f"the weights of the sentence encoder {name} are not on this" in message
    assert "algorithm.encoder=trained" in message


def test_a_missing_library_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = refusal(load_clip, "clip-vit-b-32")
    assert "clip-vit-b-32 needs transformers or sentence-transformers" in message
    assert "algorithm.encoder=trained" in message
