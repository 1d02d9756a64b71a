from parse_dg.data.public.catalogue import DATA_SETS, DataSet, compare_counts, find_data_set
from tests.parts import refusal


def published(data_set: DataSet) -> dict[str, int]:
    return dict(zip(data_set.domains, data_set.expected[0].counts, strict=True))


PAPERS = {"pacs": (9_991, 4, 7), "vlcs": (10_729, 4, 5), "officehome": (15_588, 4, 65)}
PAPERS |= {"terraincognita": (24_788, 4, 10), "domainnet": (586_575, 6, 345), "cub-dg": (47_152, 4, 200)}
"""Images, domains and classes."""


def test_totals_are_those_of_the_papers() -> None:
    assert all(name == data_set.name for name, data_set in DATA_SETS.items())
    found = {name: (d.published_images, len(d.domains), len(d.classes)) for name, d in DATA_SETS.items()}
    assert found == PAPERS


def test_label_of_tv_follows_the_sorted_folders() -> None:
    # capitals sort before small letters: TV is before Table in a listing
    classes = DATA_SETS["officehome"].classes
    assert classes.index("TV") + 1 == classes.index("Table")
    assert DATA_SETS["domainnet"].classes[2:4] == ("The_Mona_Lisa", "aircraft_carrier")


def test_other_versions_are_recognised_by_name() -> None:
    terra = DATA_SETS["terraincognita"]
    today = dict(zip(terra.domains, (4741, 9736, 3970, 5883), strict=True))
    assert compare_counts(terra, today) == (
        "this is TerraIncognita as downloaded today, 24,330 images; the papers used 24,788",
    )
    net = DATA_SETS["domainnet"]
    raw = dict(zip(net.domains, (48_833, 53_201, 75_759, 172_500, 175_327, 70_386), strict=True))
    (sentence,) = compare_counts(net, raw)
    assert "DomainNet with its published duplicates still in, 596,006 images" in sentence


def test_missing_and_strange_domains_are_named() -> None:
    pacs = DATA_SETS["pacs"]
    counts = published(pacs) | {"etching": 5}
    del counts["photo"]
    sentences = compare_counts(pacs, counts)
    assert "etching is no domain of PACS" in sentences
    assert "photo: 0 images found, 1,670 expected" in sentences


def test_the_nearest_version_is_compared_with() -> None:
    net = DATA_SETS["domainnet"]
    raw = dict(zip(net.domains, (48_833, 53_201, 75_759, 172_500, 175_327, 70_000), strict=True))
    sentences = compare_counts(net, raw)
    assert sentences[0] == "sketch: 70,000 images found, 70,386 expected"
    assert sentences[1] == "otherwise this is DomainNet with its published duplicates still in"


def test_unknown_names_are_answered_with_the_valid_ones() -> None:
    assert find_data_set("pacs").title == "PACS"
    assert "unknown data set 'pax': valid are pacs, vlcs" in refusal(find_data_set, "pax")
