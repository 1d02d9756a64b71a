"""A network and a batch small enough for tests of methods: vectors of 12 numbers, as images."""

import torch
from torch import Tensor, nn

from parse_dg.algorithms.base import Algorithm, BuildContext, Group, LossTerms, Minibatch
from tests.algorithms.golden import FlatBackbone, as_images, constant
from tests.parts import seeded, trainer_of

CLASSES = 4
DOMAINS = 3
CHANNELS = 6


def backbone(seed: int = 0) -> FlatBackbone:
    """Started from the seed alone."""
    network = FlatBackbone(12, 10, 3, CHANNELS)
    draws = seeded(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=draws))
    return network


def context(domains: int = DOMAINS, seed: int = 0, smoothing: float = 0.0) -> BuildContext:
    """What a method on that network is built from; the seed is for everything but the backbone."""
    return BuildContext(backbone(), CLASSES, domains=domains, label_smoothing=smoothing, generator=seeded(seed))


def batch(domains: int = DOMAINS, per_domain: int = 5, *, seed: int = 0) -> Minibatch:
    """Domains that differ by their means, one after another; labels by chance."""
    draws = seeded(seed)
    numbers = torch.arange(domains).repeat_interleave(per_domain)
    inputs = torch.randn(len(numbers), 12, generator=draws) + 0.5 * numbers[:, None]
    return Minibatch(as_images(inputs), torch.randint(CLASSES, numbers.shape, generator=draws), numbers)


def double(example: Minibatch) -> Minibatch:
    return example._replace(images=example.images.double())


def step(algorithm: Algorithm, count: int = 1, *, rate: float = 0.01) -> list[dict[str, float]]:
    """The terms of some steps of the trainer, each on a batch of its own."""
    trainer = trainer_of(algorithm.train(), constant(rate))
    found = [trainer.update(number + 1, batch(seed=number)) for number in range(count)]
    return [{name: value.item() for name, value in terms.items()} for terms in found]


def total(terms: LossTerms) -> Tensor:
    return torch.stack(list(terms.values())).sum()


def moved(algorithm: Algorithm, before: dict[str, Tensor]) -> set[Group]:
    """The groups whose parameters, all of them, differ from a state before; of the others all must be as before."""
    names = {id(parameter): name for name, parameter in algorithm.named_parameters()}
    found: set[Group] = set()
    for group, parameters in algorithm.groups().items():
        changed = [not torch.equal(p, before[names[id(p)]]) for p in parameters]
        assert all(changed) or not any(changed), group
        if any(changed):
            found.add(group)
    return found


def copy_of(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
