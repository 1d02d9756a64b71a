"""CLIP's text encoder, frozen, which turns a caption into a vector where GVRT does not train its own.

Its weights must be on this machine already: nothing is downloaded, and `.safetensors` cannot execute anything.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from parse_dg.algorithms.gvrt.text import Tokenizer
from parse_dg.errors import InputError

EncoderName = Literal["trained", "clip-vit-b-32", "clip-vit-b-16", "clip-vit-l-14"]


CLIP = {
    "clip-vit-b-32": (512, "openai/clip-vit-base-patch32", "sentence-transformers/clip-ViT-B-32"),
    "clip-vit-b-16": (512, "openai/clip-vit-base-patch16", "sentence-transformers/clip-ViT-B-16"),
    "clip-vit-l-14": (768, "openai/clip-vit-large-patch14", "sentence-transformers/clip-ViT-L-14"),
}
"""How long its vectors are, and the repositories of Hugging Face that have it, the second in a folder 0_CLIPModel.
The published encoder of GVRT is the first."""


class ClipEncoder:
    """CLIP's text encoder, as it is; what it said of a sentence is kept.

    It is loaded when it is first asked: a trained model is used without it, and its weights are not saved with one.
    """

    def __init__(self, name: str, tokenizer: Tokenizer):
        self.name, self.tokenizer = name, tokenizer
        self.width = CLIP[name][0]
        self._parts: tuple[Any, Any] | None = None
        self._known: dict[str, Tensor] = {}

    def __call__(self, captions: Int[Tensor, "B T"]) -> Float[Tensor, "B E"]:
        sentences = self.tokenizer.decode(captions)
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        if new:
            self._known |= zip(new, self._embed(new, captions.device), strict=True)
        return torch.stack([self._known[sentence] for sentence in sentences]).to(captions.device)

    @torch.no_grad()
    def _embed(self, sentences: Sequence[str], device: torch.device) -> Float[Tensor, "n E"]:
        words, network = self._parts = self._parts or load_clip(self.name)
        numbers = words(list(sentences), padding=True, truncation=True, return_tensors="pt").to(device)
        found: Tensor = network.to(device)(**numbers).text_embeds
        return found.float()


def load_clip(name: str) -> tuple[Any, Any]:
    """CLIP's own tokenizer and its text encoder, frozen; an `InputError` if they are not on this machine."""
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        needs = f"the sentence encoder {name} needs transformers or sentence-transformers ({error})"
        raise InputError(f"{needs}: install one of them, or set algorithm.encoder=trained") from error
    _, *repositories = CLIP[name]
    for repository, folder in zip(repositories, ("", "0_CLIPModel"), strict=True):
        here = {"subfolder": folder, "local_files_only": True}
        try:
            words = transformers.CLIPTokenizerFast.from_pretrained(repository, **here)
            network = transformers.CLIPTextModelWithProjection.from_pretrained(
                repository, use_safetensors=True, **here
            )
        except (OSError, ValueError):  # what transformers raises for files that are not there
            continue
        return words, network.eval().requires_grad_(False)
    expected = f"expected {' or '.join(repositories)} as .safetensors in the cache of Hugging Face"
    missing = f"the weights of the sentence encoder {name} are not on this machine"
    raise InputError(f"{missing}, {expected}: fetch them there, or set algorithm.encoder=trained")
