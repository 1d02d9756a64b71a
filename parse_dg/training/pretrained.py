"""Pretrained weights: from a file or the internet into a backbone, or an error that says why not.

Nothing in a file is ever run: `.safetensors` holds tensors alone, and `.pth`/`.pt` are read with PyTorch's
unpickler for tensors, which refuses everything else.
"""

import io
import logging
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from parse_dg.errors import InputError
from parse_dg.model.backbones.backbone import Backbone, BackboneConfig, FeatureAdapter
from parse_dg.model.backbones.resnet import StrideAt
from parse_dg.wording import first_line, some


class PublishedWeights(NamedTuple):
    """A file of weights that somebody has published, for one backbone."""

    name: str
    """What `backbone.weights` calls it."""
    backbone: str
    address: str
    """Its name ends in the first eight hexadecimal digits of the file's SHA-256, which a download is checked by."""
    summary: str
    accuracy: float | None = None
    """On ImageNet's validation images, in per cent, as torchvision says of its own."""
    stride_at: StrideAt = "3x3"

    @property
    def digest(self) -> str:
        return self.address.rpartition("-")[2].removesuffix(".pth")


TORCHVISION = "https://download.pytorch.org/models"
TIMM = "https://github.com/huggingface/pytorch-image-models/releases/download/v0.1-weights"
V1, V2 = "torchvision's IMAGENET1K_V1", "torchvision's IMAGENET1K_V2"
RAM = "timm's resnet50.ram_in1k (RandAugment, AugMix)"
PUBLISHED = (
    PublishedWeights("imagenet-v1", "resnet18", f"{TORCHVISION}/resnet18-f37072fd.pth", V1, 69.758),
    PublishedWeights("imagenet-v1", "resnet50", f"{TORCHVISION}/resnet50-0676ba61.pth", V1, 76.130),
    PublishedWeights("imagenet-v2", "resnet50", f"{TORCHVISION}/resnet50-11ad3fa6.pth", V2, 80.858),
    PublishedWeights("augmix", "resnet50", f"{TIMM}/resnet50_ram-a26f946b.pth", RAM),
)
"""Every file that has a name. All expect RGB in [0, 1], normalised with ImageNet's statistics."""
FORMER_NAMES = {"imagenet": "imagenet-v1"}

SUFFIXES = (".safetensors", ".pth", ".pt")
NESTED = ("state_dict", "model")
PREFIXES = ("module.", "backbone.")
HEADS = ("fc.", "head.", "classifier.")
"""Where timm and torchvision keep the classifier that an adapter leaves out."""
SHOWN = 3
"""How many keys an error names before it stops."""

log = logging.getLogger(__name__)


def load_pretrained(backbone: Backbone, config: BackboneConfig) -> None:
    """Load the weights that `config` names, if any, into a backbone that was built from it."""
    if config.weights is None:
        return
    if names_weights(config.weights):
        state = download_weights(find_weights(config))
    else:
        state = read_weights(Path(config.weights).expanduser())
    network, ignored = (backbone.network, HEADS) if isinstance(backbone, FeatureAdapter) else (backbone, ("fc.",))
    load_weights(network, state, name=config.name, source=config.weights, ignored=ignored)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a `.safetensors`, `.pth` or `.pt` file, by name, also out of a nested dictionary."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"weights file {path} must end in one of {', '.join(SUFFIXES)}")
    try:
        if suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings(action="ignore"):  # about files that are refused anyway
            content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # damaged bytes can make the unpickler raise anything
        raise InputError(f"weights file {path} {_fault_of(error)}") from error
    return _tensors(content, str(path))


def _fault_of(error: Exception) -> str:
    match error:
        case FileNotFoundError():
            return "does not exist"
        case OSError():
            return f"cannot be read: {error.strerror or error}"
        case SafetensorError():
            return f"is not a safetensors file: {first_line(error)}"
        case pickle.UnpicklingError():
            return "is damaged or holds more than tensors: refused, nothing in it was run"
        case _:
            return f"is damaged: {first_line(error)}"


def names_weights(weights: str) -> bool:
    """Whether this is the name of published weights, not a file."""
    return FORMER_NAMES.get(weights, weights) in {known.name for known in PUBLISHED}


def find_weights(config: BackboneConfig) -> PublishedWeights:
    """The published file that `config` names, for its backbone with its strides."""
    assert config.weights is not None
    name = FORMER_NAMES.get(config.weights, config.weights)
    files = {known.backbone: known for known in PUBLISHED if known.name == name}
    if config.name not in files:
        there = f"are published for {', '.join(files)}, not for {config.name}"
        raise InputError(f"weights {config.weights!r} {there}: pass a file, as in --set backbone.weights=FILE")
    found = files[config.name]
    if config.name == "resnet50" and config.stride_at != found.stride_at:
        trained = f"were trained with backbone.stride_at={found.stride_at}"
        raise InputError(f"weights {config.weights!r} {trained}, found {config.stride_at}")
    return found


def download_weights(published: PublishedWeights) -> dict[str, Tensor]:
    """The tensors of a published file, from PyTorch's cache or the internet, its digest checked."""
    url = published.address
    log.info("weights %s of %s: %s", published.name, published.backbone, url)
    try:
        with redirect_stderr(io.StringIO()):  # where it would print the address
            content = torch.hub.load_state_dict_from_url(
                url, map_location="cpu", progress=False, check_hash=True, weights_only=True
            )
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        advice = "fetch that file where there is a network, then --set backbone.weights=FILE"
        raise InputError(f"cannot download {url} ({first_line(error)}): {advice}") from error
    return _tensors(content, url)


def load_weights(
    network: nn.Module, state: Mapping[str, Tensor], *, name: str, source: str, ignored: tuple[str, ...]
) -> None:
    """Copies `state` into `network` if every parameter and buffer is there in its shape, else `InputError`.

    Keys that start with one of `ignored` (classifiers) are left out, a prefix that all keys share (`module.`,
    `backbone.`) is taken off, and BatchNorm's `num_batches_tracked`, which older files lack, may be missing.
    `name` and `source` are what an error calls the network and the file.
    """
    expected = network.state_dict()
    found = _rename(state, expected, ignored)
    problems: dict[str, list[str]] = {"missing": [], "unexpected": [], "of another shape": []}
    for key, value in expected.items():
        if key not in found and not key.endswith("num_batches_tracked"):
            problems["missing"].append(f"{key} (expected {_shape(value)})")
        elif key in found and found[key].shape != value.shape:
            problems["of another shape"].append(f"{key} (expected {_shape(value)}, found {_shape(found[key])})")
    problems["unexpected"] = [f"{key} (found {_shape(found[key])})" for key in found if key not in expected]
    said = [f"{len(keys)} {kind}: {some(keys, SHOWN)}" for kind, keys in problems.items() if keys]
    if said:
        raise InputError(f"weights {source} do not fit {name}: {'; '.join(said)}")
    network.load_state_dict(found, strict=False)  # strict was done above, with a better message


def _rename(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor], ignored: tuple[str, ...]
) -> dict[str, Tensor]:
    """`state` without ignored keys, without a prefix that all others share, in the spelling of `expected`.

    timm writes `stages_0.` for `stages.0.` once a network returns feature maps, so names that differ only in
    dots and underscores are the same.
    """
    found = {key: value for key, value in state.items() if not key.startswith(ignored)}
    while found and not found.keys() & expected.keys():
        prefix = next((p for p in PREFIXES if all(key.startswith(p) for key in found)), None)
        if prefix is None:
            break
        stripped = {key.removeprefix(prefix): value for key, value in found.items()}
        found = {key: value for key, value in stripped.items() if not key.startswith(ignored)}
    spelling = {key.replace(".", "_"): key for key in expected}
    return {spelling.get(key.replace(".", "_"), key): value for key, value in found.items()}


def _tensors(content: object, source: str) -> dict[str, Tensor]:
    """The name → tensor dictionary in a loaded file, also where it lies under `state_dict` or `model`."""
    while isinstance(content, Mapping) and (inner := next((k for k in NESTED if k in content), None)):
        content = content[inner]
    if not isinstance(content, Mapping) or not content:
        kind = "an empty one" if isinstance(content, Mapping) else type(content).__name__
        raise InputError(f"weights {source} must hold a dictionary of tensors, found {kind}")
    for key, value in content.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            found = f"{type(value).__name__} at {key!r}"
            raise InputError(f"weights {source} must hold a dictionary of tensors, found {found}")
    return dict(content)


def _shape(tensor: Tensor) -> str:
    return "x".join(str(size) for size in tensor.shape) or "a scalar"
