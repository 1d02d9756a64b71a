"""The networks that read and write, against LSTMs written out word by word in float64."""

import pytest
import torch
from torch import Tensor, nn

from parse_dg.algorithms.gvrt.decoder import WRITABLE, Discriminator, Explainer
from parse_dg.algorithms.gvrt.text import BEGIN, END, PAD
from tests.parts import seeded

VOCABULARY, CLASSES, WIDTH = 9, 3, 5
TOKENS = torch.tensor(
    [
        [BEGIN, 4, 8, 5, END],
        [BEGIN, 7, END, PAD, PAD],
        [BEGIN, END, PAD, PAD, PAD],
        [BEGIN, 6, 6, 6, 3],  # cut off: no end
    ]
)
LABELS = torch.tensor([2, 0, 1, 0])


@pytest.fixture
def explainer() -> Explainer:
    return Explainer(VOCABULARY, CLASSES, WIDTH, seeded()).double()


@pytest.fixture
def about(explainer: Explainer) -> Tensor:
    image = torch.randn(4, WIDTH, generator=seeded(1), dtype=torch.float64)
    return explainer.about(image, LABELS)


def slow_lstm(layer: nn.LSTM, inputs: list[Tensor]) -> list[Tensor]:
    """The hidden state after each input, from the equations."""
    hidden = cell = torch.zeros(layer.hidden_size, dtype=torch.float64)
    states = []
    for x in inputs:
        gates = layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.weight_hh_l0 @ hidden + layer.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        hidden = o.sigmoid() * cell.tanh()
        states.append(hidden)
    return states


def slow_log_softmax(explainer: Explainer, words: list[int], about: Tensor) -> list[Tensor]:
    """log p of every word that may come next, after each of `words`."""
    read = slow_lstm(explainer.reader, [explainer.embedding.weight[word] for word in words])
    written = slow_lstm(explainer.writer, [torch.cat((state, about)) for state in read])
    found = []
    for state in written:
        scores = explainer.output.weight @ state + explainer.output.bias
        found.append(scores - scores.exp().sum().log())
    return found


def test_teacher_forcing_is_word_by_word(explainer: Explainer, about: Tensor) -> None:
    spoken = explainer.speak(TOKENS, explainer.read(TOKENS[:, :-1]), about)
    for row, tokens in enumerate(TOKENS.tolist()):
        expected = slow_log_softmax(explainer, tokens, about[row])
        for place, target in enumerate(tokens[1:]):
            assert spoken.words[row, place] == (target != PAD)
            value = expected[place][target - WRITABLE].item() if target != PAD else 0.0
            assert spoken.log_probability[row, place].item() == pytest.approx(value, abs=1e-12)


def test_a_sentence_is_about_its_image_and_its_class(explainer: Explainer) -> None:
    image = torch.randn(4, WIDTH, dtype=torch.float64, generator=seeded(2))
    about = explainer.about(image, LABELS)
    assert torch.equal(about[:, :WIDTH], image)
    assert about[:, WIDTH:].tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_gradients_reach_everything_and_padding_adds_nothing(explainer: Explainer, about: Tensor) -> None:
    about = about.clone().requires_grad_()
    spoken = explainer.speak(TOKENS, explainer.read(TOKENS[:, :-1]), about)
    spoken.log_probability.sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in explainer.parameters())
    assert about.grad is not None
    mine = {name: p.grad.clone() for name, p in explainer.named_parameters() if p.grad is not None}
    explainer.zero_grad()
    longer = torch.cat((TOKENS, torch.full((4, 3), PAD)), dim=1)
    spoken = explainer.speak(longer, explainer.read(longer[:, :-1]), about)
    spoken.log_probability.sum().backward()
    for name, parameter in explainer.named_parameters():
        assert torch.allclose(parameter.grad, mine[name], atol=1e-12), name


def test_without_a_generator_the_likeliest_word_is_written(explainer: Explainer, about: Tensor) -> None:
    found = explainer.sample(about, 6)
    for row, tokens in enumerate(found.tolist()):
        words = [BEGIN]
        while words[-1] != END and len(words) < 7:
            words.append(int(slow_log_softmax(explainer, words, about[row])[-1].argmax()) + WRITABLE)
        assert tokens == words + [PAD] * (len(tokens) - len(words))


def test_sentences_are_drawn_with_their_probability(explainer: Explainer, about: Tensor) -> None:
    """Of one image, the first two words: chi-squared against the slow reference."""
    with torch.no_grad():
        explainer.output.weight *= 4
    count = 20_000
    found = explainer.sample(about[:1].expand(count, -1), 2, seeded(3))
    kinds = VOCABULARY - WRITABLE
    first = slow_log_softmax(explainer, [BEGIN], about[0])[0].exp()
    statistic, cells = 0.0, 0
    for word in range(kinds):
        after = torch.zeros(kinds + 1, dtype=torch.float64)
        if word + WRITABLE == END:
            after[kinds] = 1.0  # nothing comes after the end
        else:
            after[:kinds] = slow_log_softmax(explainer, [BEGIN, word + WRITABLE], about[0])[1].exp()
        mine = found[found[:, 1] == word + WRITABLE, 2]
        for second, share in enumerate((first[word] * after).tolist()):
            seen = int((mine == (PAD if second == kinds else second + WRITABLE)).sum())
            if share * count < 5:
                assert seen <= 20
                continue
            statistic += (seen - share * count) ** 2 / (share * count)
            cells += 1
    assert cells > 20
    assert statistic < cells + 4 * (2 * cells) ** 0.5


def test_draws_come_from_the_generator_alone(explainer: Explainer, about: Tensor) -> None:
    torch.manual_seed(1)
    one, draws = explainer.sample(about, 30, seeded(5)), seeded(5)
    torch.manual_seed(2)
    assert torch.equal(explainer.sample(about, 30, draws), one)
    assert not torch.equal(explainer.sample(about, 30, draws), one)
    after = seeded(5)
    torch.rand(2, 4, 30, generator=after)
    assert torch.equal(draws.get_state(), after.get_state())  # as many draws, however long the sentences were


def test_sampled_sentences_begin_end_once_and_stop_at_the_limit(explainer: Explainer, about: Tensor) -> None:
    found = explainer.sample(about.repeat(50, 1), 12, seeded(6))
    assert found.shape[1] <= 13
    assert (found[:, 0] == BEGIN).all()
    for tokens in found[:, 1:].tolist():
        words = tokens[: tokens.index(END)] if END in tokens else tokens
        assert all(word > END for word in words)
        assert all(word == PAD for word in tokens[len(words) + 1 :])


def test_the_discriminator_reads_from_the_first_word_to_the_last() -> None:
    discriminator = Discriminator(VOCABULARY, CLASSES, WIDTH, seeded()).double()
    logits = discriminator(TOKENS)
    for row, tokens in enumerate(TOKENS.tolist()):
        words = [token for token in tokens if token not in (PAD, BEGIN)]
        state = slow_lstm(discriminator.reader, [discriminator.embedding.weight[word] for word in words])[-1]
        expected = discriminator.classifier.weight @ state + discriminator.classifier.bias
        assert torch.allclose(logits[row], expected, atol=1e-12)
