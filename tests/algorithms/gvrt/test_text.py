"""Sentences as numbers: there and back, always the same numbers, and as bytes in a model's weights."""

import json

import pytest
import torch

from parse_dg.algorithms.gvrt.text import BEGIN, END, PAD, SPECIAL, UNKNOWN, Tokenizer, learn_tokenizer, split_words
from parse_dg.config import from_dict, to_dict
from parse_dg.data.blueprints.benchmark import CLASSES, DOMAINS, BlueprintsConfig, sample_example
from parse_dg.errors import InputError

SENTENCES = ["A red bird, with a red head.", "a blue bird", "It's well-fed: a BIRD (of 3)!"]


def test_words_are_lower_case_and_marks_stand_alone() -> None:
    assert split_words(SENTENCES[2]) == ["it's", "well-fed", ":", "a", "bird", "(", "of", "3", ")", "!"]
    assert split_words("  two   spaces\tand\nlines ") == ["two", "spaces", "and", "lines"]
    assert split_words("") == []


def test_frequent_words_have_small_numbers_and_ties_are_alphabetic() -> None:
    tokenizer = learn_tokenizer(SENTENCES)
    assert tokenizer.words[:3] == ("a", "bird", "red")
    assert tokenizer.words[3:] == tuple(sorted(tokenizer.words[3:]))
    assert learn_tokenizer(reversed(SENTENCES)) == tokenizer
    assert len(tokenizer) == len(SPECIAL) + len(tokenizer.words)


def test_sentences_are_padded_to_the_longest() -> None:
    tokenizer = Tokenizer(("a", "bird", "red"))
    tokens = tokenizer.encode(["a red bird", "BIRD", "a purple bird"])
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == [[BEGIN, 4, 6, 5, END], [BEGIN, 5, END, PAD, PAD], [BEGIN, 4, UNKNOWN, 5, END]]
    assert tokenizer.encode([""]).tolist() == [[BEGIN, END]]
    assert tokenizer.encode([]).shape == (0, 0)


def test_what_is_too_long_is_cut_and_still_ends() -> None:
    tokens = Tokenizer(("a", "bird", "red"), length=4).encode(["a red bird", "bird"])
    assert tokens.tolist() == [[BEGIN, 4, 6, END], [BEGIN, 5, END, PAD]]


def test_every_sentence_of_blueprints_comes_back_as_it_was() -> None:
    config = BlueprintsConfig(images_per_class=2)
    sentences = [
        sample_example(domain, label, index, config).caption
        for domain in DOMAINS
        for label in range(len(CLASSES))
        for index in range(2)
    ]
    tokenizer = learn_tokenizer(sentences)
    assert tokenizer.decode(tokenizer.encode(sentences)) == sentences
    assert len(tokenizer) < 40


def test_marks_are_put_back_where_they_belong() -> None:
    tokenizer = learn_tokenizer(SENTENCES)
    expected = [sentence.lower() for sentence in SENTENCES]
    assert tokenizer.decode(tokenizer.encode(SENTENCES)) == expected


def test_words_survive_as_bytes_and_as_json() -> None:
    tokenizer = learn_tokenizer([*SENTENCES, "Zoë sees a grünfink"], length=20)
    data = tokenizer.to_bytes()
    assert data.dtype == torch.uint8
    assert Tokenizer.from_bytes(data, 20) == tokenizer
    assert from_dict(Tokenizer, json.loads(json.dumps(to_dict(tokenizer)))) == tokenizer
    assert Tokenizer.from_bytes(Tokenizer(()).to_bytes()) == Tokenizer(())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", "b", "a"), "every word once, found 'a' again"),
        (("two words",), "single words in lower case, found 'two words'"),
        (("Bird",), "found 'Bird'"),
        (("",), "found ''"),
    ],
)
def test_a_damaged_vocabulary_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tokenizer(words)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="must be UTF-8, found other bytes"):
        Tokenizer.from_bytes(torch.tensor([0xFF, 0x41], dtype=torch.uint8))
