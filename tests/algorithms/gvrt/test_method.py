"""GVRT: each term against a loop over domains, what each one trains, and sentences from a saved model."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from parse_dg.algorithms.base import BuildContext, Minibatch
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.algorithms.gvrt.method import Gvrt, GvrtConfig
from parse_dg.algorithms.gvrt.text import END, PAD, Tokenizer, learn_tokenizer
from parse_dg.config import from_dict, to_dict
from parse_dg.data.augment.batches import AugmentConfig, normalise, to_unit
from parse_dg.data.benchmarks import DataConfig, open_benchmark
from parse_dg.data.blueprints.benchmark import BlueprintsConfig
from parse_dg.data.domain import Benchmark
from parse_dg.data.loader import TrainingBatches, load_images
from parse_dg.data.sampling import Sampler, SamplingConfig
from parse_dg.data.splits import leave_one_out, whole
from parse_dg.errors import InputError
from parse_dg.runs.recipes import build_config
from parse_dg.training.optimizer import OptimizerConfig, build_optimizer
from tests.conftest import Numbered
from tests.parts import seeded, small_backbone, trainer_of

SMALL = GvrtConfig(width=8, sample_length=6)
SENTENCES = ["a red bird", "a blue fish, swimming", "a bird", "red", "a fish is a fish", "a blue bird"]
LABELS = torch.tensor([0, 1, 0, 2, 1, 2])


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return learn_tokenizer(SENTENCES)


@pytest.fixture(scope="module")
def example(tokenizer: Tokenizer) -> Minibatch:
    images = torch.randn(6, 3, 32, 32, generator=seeded(1), dtype=torch.float64)
    domains = torch.tensor([0, 0, 1, 1, 2, 2])
    return Minibatch(images, LABELS, domains, tokenizer.encode(SENTENCES))


def build(vocabulary: Tokenizer, config: GvrtConfig = SMALL, classes: int = 3, smoothing: float = 0.0) -> Gvrt:
    start = seeded()
    backbone = small_backbone(start)
    return Gvrt(
        config,
        BuildContext(
            backbone, classes, domains=3, vocabulary=vocabulary, label_smoothing=smoothing, generator=start
        ),
    )


def literal_losses(gvrt: Gvrt, example: Minibatch, draws: torch.Generator) -> dict[str, Tensor]:
    """Every term as its authors' program has it, domain by domain and sentence by sentence, at weight one.

    The discriminator reads what comes after BEGIN; the image is aligned with the state of the reader that chose the
    last word of the made-up sentence.
    """
    sums: dict[str, Tensor] = {}
    features = gvrt.backbone(example.images).mean((2, 3))
    about = gvrt.explainer.about(gvrt.visual(features), example.labels)
    made_up = gvrt.explainer.sample(about, gvrt.config.sample_length, draws)
    assert example.captions is not None
    for part in torch.arange(6).chunk(3):
        z, y = features[part], example.labels[part]
        found = {
            "cross_entropy": F.cross_entropy(gvrt.classifier(z), y),
            "align_class": F.cross_entropy(gvrt.joint_classifier(gvrt.visual(z)), y),
            "align": torch.zeros(()).double(),
            "reinforce": torch.zeros(()).double(),
            "discriminator": torch.zeros(()).double(),
        }
        words: list[Tensor] = []
        for number in part.tolist():
            label = example.labels[number]
            caption = example.captions[number][example.captions[number] != PAD]
            if gvrt.config.repeat_end:
                ends = [END] * (gvrt.config.caption_length - len(caption))
                caption = torch.cat((caption, torch.tensor(ends, dtype=torch.long)))
            words += spoken(gvrt, caption, about[number])
            sentence = made_up[number][made_up[number] != PAD]
            vector = gvrt.textual(gvrt.explainer.reader(gvrt.explainer.embedding(sentence[:-1]))[0][-1])
            found["align"] += (gvrt.visual(features[number]) - vector).square().mean() / 2
            found["discriminator"] -= judged(gvrt, caption).log_softmax(0)[label] / 2
            reward = judged(gvrt, sentence).softmax(0)[label].item()
            found["reinforce"] -= torch.stack(spoken(gvrt, sentence, about[number])).sum() * reward / 2
        found["tokens"] = -torch.stack(words).mean()
        for name, value in found.items():
            sums[name] = sums.get(name, 0.0) + value / 3
    return sums


def judged(gvrt: Gvrt, sentence: Tensor) -> Tensor:
    """The discriminator's logits of one sentence."""
    judge = gvrt.discriminator
    logits: Tensor = judge.classifier(judge.reader(judge.embedding(sentence[1:]))[0][-1])
    return logits


def spoken(gvrt: Gvrt, sentence: Tensor, about: Tensor) -> list[Tensor]:
    """log p of each word of one sentence."""
    before = sentence[None, :-1]
    return list(gvrt.explainer.speak(sentence[None], gvrt.explainer.read(before), about[None]).log_probability[0])


@pytest.mark.golden
@pytest.mark.parametrize("repeat_end", [False, True])
def test_steps_are_those_of_the_literal_program(tokenizer: Tokenizer, example: Minibatch, repeat_end: bool) -> None:
    """Four steps at the published rates: one Adam, everything but the backbone ten times as fast."""
    config = replace(SMALL, repeat_end=repeat_end, caption_length=9)
    gvrt, literal = (build(tokenizer, config).double().eval() for _ in range(2))
    rates = build_config("domainbed", "gvrt").optimizer
    run = trainer_of(gvrt, rates, steps=4)
    run.generator = seeded(7)
    others = [p for name, p in literal.named_parameters() if not name.startswith("backbone")]
    groups = [{"params": literal.backbone.parameters(), "lr": 5e-5}, {"params": others, "lr": 5e-4}]
    adam, draws = torch.optim.Adam(groups), seeded(7)
    for step in range(1, 5):
        expected = literal_losses(literal, example, draws)
        found = run.update(step, example)
        assert found.keys() - {"total"} == expected.keys()
        for name, value in expected.items():
            assert found[name].item() == pytest.approx(value.item(), rel=1e-6), name
        adam.zero_grad()
        torch.stack(list(expected.values())).sum().backward()
        adam.step()
    for (name, mine), other in zip(gvrt.named_parameters(), literal.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=0, atol=1e-6), name


def test_every_weight_is_a_setting(tokenizer: Tokenizer, example: Minibatch) -> None:
    weights = {"align": 0.5, "tokens": 0.25, "reinforce": 3.0, "discriminator": 2.0}
    plain = build(tokenizer).double().losses(example, seeded(7))
    weighted = build(tokenizer, replace(SMALL, **weights)).double().losses(example, seeded(7))
    for name, value in plain.items():
        factor = weights.get("align" if name == "align_class" else name, 1.0)
        assert weighted[name].item() == pytest.approx(factor * value.item(), rel=1e-9), name
    assert "reinforce" not in build(tokenizer, replace(SMALL, reinforce=0.0)).double().losses(example, seeded())


def test_the_published_weights_are_the_defaults() -> None:
    config = GvrtConfig()
    assert (config.align, config.tokens, config.reinforce, config.discriminator) == (1, 1, 1, 1)
    assert (config.width, config.word_count, config.caption_length, config.sample_length) == (128, 1, 64, 80)
    assert from_dict(GvrtConfig, {k: v for k, v in to_dict(config).items() if k != "name"}) == config


@pytest.mark.parametrize(
    ("term", "untouched"),
    [
        ("discriminator", ("backbone", "classifier", "explainer", "visual", "textual", "joint_classifier")),
        ("reinforce", ("discriminator", "classifier", "textual", "joint_classifier")),
        ("tokens", ("discriminator", "classifier", "textual", "joint_classifier")),
        ("align", ("discriminator", "classifier", "joint_classifier", "explainer.writer", "explainer.output")),
        ("align_class", ("discriminator", "classifier", "textual", "explainer")),
        ("cross_entropy", ("discriminator", "visual", "textual", "explainer", "joint_classifier")),
    ],
)
def test_each_term_trains_what_it_is_about(
    tokenizer: Tokenizer, example: Minibatch, term: str, untouched: tuple[str, ...]
) -> None:
    gvrt = build(tokenizer).double()
    gvrt.losses(example, seeded())[term].backward()
    for name, parameter in gvrt.named_parameters():
        moved = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert moved == (not name.startswith(tuple(f"{part}." for part in untouched))), name


def test_a_batch_by_domain_keeps_its_captions(example: Minibatch) -> None:
    parts = example.by_domain(3)
    assert [part.domains.tolist() for part in parts] == [[0, 0], [1, 1], [2, 2]]
    assert torch.equal(torch.cat([part.captions for part in parts if part.captions is not None]), example.captions)
    assert all(part.captions is None for part in example._replace(captions=None).by_domain(3))


def test_a_batch_without_captions_is_one_clear_line(tokenizer: Tokenizer, example: Minibatch) -> None:
    with pytest.raises(InputError, match="gvrt needs a sentence about every image"):
        build(tokenizer).losses(example._replace(captions=None), seeded())


def test_a_benchmark_without_captions_is_one_clear_line(numbered: Numbered) -> None:
    with pytest.raises(InputError, match=r"5 of the 5 of domain photo have none: blueprints has them, cub-dg in"):
        SMALL.learn_vocabulary([whole(numbered("photo", 5))])


def test_methods_that_read_nothing_need_no_words(numbered: Numbered) -> None:
    assert ErmConfig().learn_vocabulary([whole(numbered("photo", 5))]) is None
    assert ErmConfig().read_vocabulary({}) is None


def test_a_clip_encoder_that_is_not_there_is_told_before_training(
    numbered: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    domain = replace(numbered("photo", 2), captions=(("a bird",), ("a fish",)))
    with pytest.raises(InputError, match="clip-vit-b-32 needs transformers"):
        replace(SMALL, encoder="clip-vit-b-32").learn_vocabulary([whole(domain)])


def test_a_saved_model_knows_its_words(tokenizer: Tokenizer, example: Minibatch, tmp_path: Path) -> None:
    gvrt = build(tokenizer).eval()
    save_file(gvrt.state_dict(), tmp_path / "model.safetensors")
    state = load_file(tmp_path / "model.safetensors")
    vocabulary = SMALL.read_vocabulary(state)
    assert vocabulary == tokenizer
    loaded = build(vocabulary)
    loaded.load_state_dict(state)
    images = example.images.float()
    assert loaded.eval().sentences(images) == gvrt.sentences(images)
    with pytest.raises(InputError, match="must hold its vocabulary, found no tensor called words"):
        SMALL.read_vocabulary({})


def test_a_model_grounded_in_clip_is_used_without_it(tokenizer: Tokenizer, example: Minibatch) -> None:
    gvrt = build(tokenizer, replace(SMALL, encoder="clip-vit-b-32")).eval()
    assert gvrt.textual.in_features == 512
    assert len(gvrt.sentences(example.images.float())) == 6
    assert not any("encoder" in name for name in gvrt.state_dict())


def test_a_description_argues_for_the_predicted_class_or_another(tokenizer: Tokenizer, example: Minibatch) -> None:
    gvrt, images = build(tokenizer).eval(), example.images.float()
    with torch.no_grad():
        gvrt.explainer.writer.weight_ih_l0[:, -3:] *= 50  # so that the class matters
        predicted = gvrt(images).argmax(1)
    assert gvrt.sentences(images) == gvrt.sentences(images, predicted)
    arguments = [gvrt.sentences(images[:1], torch.tensor([label]))[0] for label in range(3)]
    assert len(set(arguments)) > 1


@pytest.fixture(scope="module")
def blueprints() -> Benchmark:
    return open_benchmark(DataConfig(blueprints=BlueprintsConfig(images_per_class=5)))


def examples(benchmark: Benchmark, vocabulary: Tokenizer) -> Iterator[Minibatch]:
    """Endless batches of four images a domain, at half their size."""
    split = leave_one_out(benchmark, "sketch", 0)
    sampler = Sampler(
        split.training, 4, SamplingConfig(), AugmentConfig(), order=seeded(), draws=seeded(1), captions=True
    )
    for batch in TrainingBatches(sampler, benchmark.image_size, captions=vocabulary):
        images = normalise(to_unit(batch.images[..., ::2, ::2]))
        yield Minibatch(images, batch.labels, batch.domains, batch.captions)


def test_it_learns_to_put_blueprints_in_words(blueprints: Benchmark) -> None:
    config = GvrtConfig(width=64, sample_length=24)
    vocabulary = config.learn_vocabulary(leave_one_out(blueprints, "sketch", 0).training)
    assert vocabulary is not None
    assert "sketch" not in vocabulary.words  # no word of the target's
    assert {"photo", "strider", "beak", ":", ","} <= set(vocabulary.words)
    gvrt = build(vocabulary, config, classes=8)
    optimizer = build_optimizer(gvrt, OptimizerConfig(backbone_rate=1e-3, head_rate=1e-2))
    draws, tokens = seeded(2), []
    for _, example in zip(range(60), examples(blueprints, vocabulary), strict=False):
        terms = gvrt.losses(example, draws)
        optimizer.zero_grad()
        torch.stack(list(terms.values())).sum().backward()
        optimizer.step()
        tokens.append(terms["tokens"].item())
    assert tokens[0] > 3
    assert sum(tokens[-5:]) / 5 < 1.6
    images, _ = load_images(whole(blueprints.domain("photo")), np.arange(4))
    for sentence in gvrt.eval().sentences(normalise(to_unit(images[..., ::2, ::2]))):
        assert re.match(r"a (photo|cartoon|painting) of a \w+: \w+ ", sentence)
