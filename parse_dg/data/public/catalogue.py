"""What each public benchmark is: its domains and classes, how many images the papers counted, where it is kept.

Sources of the counts: the papers named below; DomainBed (arXiv:2007.01434) for the five it defines; the cleaned
lists of DomainNet's authors; GVRT for CUB-DG. Class names are those of the archives' folders.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import eq
from pathlib import Path
from typing import NamedTuple

from parse_dg.errors import require_known


class Version(NamedTuple):
    """A state of a data set that is known: how many images each domain has, in the order of the domains."""

    name: str  # completes the sentence "this is PACS …"
    counts: tuple[int, ...]


class Address(NamedTuple):
    """A file that is published for download. Sizes and sums are given where somebody has published them."""

    url: str
    file: str  # its name on this machine
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A public benchmark."""

    name: str
    title: str
    paper: str
    domains: tuple[str, ...]  # in DomainBed's order, which is that of the sorted folders; CUB-DG in GVRT's
    classes: tuple[str, ...]  # sorted, so that the position of a class is its label
    expected: tuple[Version, ...]  # what the papers used, then what else is in circulation
    aliases: Mapping[str, str] = field(
        default_factory=dict
    )  # of domains; capitals, blanks, underscores never matter
    class_aliases: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[Address, ...] = ()
    elsewhere: str = "open the address in a browser, save the archive, unpack it"  # if nothing can be downloaded

    @property
    def by_hand(self) -> str:
        return f"{self.elsewhere}, and give the folder: parse-dg data add {self.name} FOLDER"

    @property
    def published_images(self) -> int:
        return sum(self.expected[0].counts)

    def domain_numbers(self) -> dict[str, int]:
        """Every spelling of every domain, as `spelling` writes it, and its number."""
        return _numbers(self.domains, self.aliases)

    def class_numbers(self) -> dict[str, int]:
        return _numbers(self.classes, self.class_aliases)


def spelling(name: str) -> str:
    """A name without what archives disagree about: `Real World`, `real_world` and `RealWorld` are one."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def find_data_set(name: str) -> DataSet:
    """The public benchmark called `name`."""
    require_known("data set", name, DATA_SETS)
    return DATA_SETS[name]


def compare_counts(data_set: DataSet, counts_by_domain: Mapping[str, int]) -> tuple[str, ...]:
    """What differs from the papers' images, a sentence each; nothing if all is as published."""
    found = tuple(counts_by_domain.get(domain, 0) for domain in data_set.domains)
    strange = (name for name in counts_by_domain if name not in data_set.domains)
    differences = [f"{name} is no domain of {data_set.title}" for name in strange]
    nearest = max(data_set.expected, key=lambda version: sum(map(eq, version.counts, found)))
    other, published = nearest is not data_set.expected[0], data_set.published_images
    if nearest.counts == found:
        total = f"{sum(found):,} images; the papers used {published:,}"
        return (*differences, *([f"this is {data_set.title} {nearest.name}, {total}"] if other else []))
    for domain, expected, count in zip(data_set.domains, nearest.counts, found, strict=True):
        if count != expected:
            differences.append(f"{domain}: {count:,} images found, {expected:,} expected")
    if other:
        differences.append(f"otherwise this is {data_set.title} {nearest.name}")
    if sum(found) != published:
        differences.append(f"{sum(found):,} images in all, {published:,} published")
    return tuple(differences)


def _numbers(names: tuple[str, ...], aliases: Mapping[str, str]) -> dict[str, int]:
    numbers = {spelling(name): number for number, name in enumerate(names)}
    return numbers | {spelling(alias): names.index(name) for alias, name in aliases.items()}


def _class_names(data_set: str) -> tuple[str, ...]:
    return tuple((Path(__file__).parent / "class_names" / f"{data_set}.txt").read_text(encoding="utf-8").split())


_DRIVE = "https://drive.google.com/uc?id="
_LILA = "https://storage.googleapis.com/public-datasets-lila/caltechcameratraps/"
_CSR = "http://csr.bu.edu/ftp/visda/2019/multi-source/"
_DOMAINNET_ZIPS = (  # the address of each archive, its bytes, its SHA-256
    ("groundtruth/clipart", 1_270_909_081, "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d"),
    ("infograph", 4_338_659_804, "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa"),
    ("groundtruth/painting", 3_679_366_174, "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015"),
    ("quickdraw", 459_920_701, "9f37df2a8c3733703dbb35ad9964202a65f675ca30137756457537536b485d84"),
    ("real", 6_062_039_589, "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63"),
    ("sketch", 2_633_992_926, "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc"),
)

DATA_SETS: dict[str, DataSet] = {  # every public benchmark that can be added by name
    "pacs": DataSet(
        name="pacs",
        title="PACS",
        paper="Li, Yang, Song, Hospedales: Deeper, Broader and Artier Domain Generalization. ICCV 2017",
        domains=("art_painting", "cartoon", "photo", "sketch"),
        aliases={"art": "art_painting"},
        classes=("dog", "elephant", "giraffe", "guitar", "horse", "house", "person"),
        expected=(Version("as published", (2048, 2344, 1670, 3929)),),
        addresses=(Address(_DRIVE + "1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd", "PACS.zip"),),
    ),
    "vlcs": DataSet(
        name="vlcs",
        title="VLCS",
        paper="Fang, Xu, Rockmore: Unbiased Metric Learning: On the Utilization of Multiple Datasets and Web "
        "Images for Softening Bias. ICCV 2013",
        domains=("Caltech101", "LabelMe", "SUN09", "VOC2007"),
        aliases={"caltech": "Caltech101", "sun": "SUN09", "pascal": "VOC2007", "voc": "VOC2007"},
        classes=("bird", "car", "chair", "dog", "person"),
        class_aliases={"0": "bird", "1": "car", "2": "chair", "3": "dog", "4": "person"},
        expected=(Version("as published", (1415, 2656, 3282, 3376)),),
        addresses=(Address(_DRIVE + "1skwblH1_okBwxWxmRsp9_qi15hyPpxg8", "VLCS.tar.gz"),),
    ),
    "officehome": DataSet(
        name="officehome",
        title="OfficeHome",
        paper="Venkateswara, Eusebio, Chakraborty, Panchanathan: Deep Hashing Network for Unsupervised Domain "
        "Adaptation. CVPR 2017",
        domains=("Art", "Clipart", "Product", "Real World"),
        aliases={"real": "Real World"},
        classes=_class_names("officehome"),
        expected=(Version("as published", (2427, 4365, 4439, 4357)),),
        addresses=(Address(_DRIVE + "1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC", "office_home.zip"),),
        elsewhere="open the address, or the authors' page https://www.hemanthdv.org/officeHomeDataset.html, in a "
        "browser, save and unpack the archive",
    ),
    "terraincognita": DataSet(
        name="terraincognita",
        title="TerraIncognita",
        paper="Beery, Van Horn, Perona: Recognition in Terra Incognita. ECCV 2018",
        domains=("location_100", "location_38", "location_43", "location_46"),
        aliases={f"{prefix}{n}": f"location_{n}" for n in (100, 38, 43, 46) for prefix in ("L", "loc", "")},
        classes=("bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel"),
        expected=(
            Version("as the papers used it", (4879, 9767, 4020, 6122)),
            Version("as downloaded today", (4741, 9736, 3970, 5883)),
        ),
        addresses=(
            Address(_LILA + "eccv_18_all_images_sm.tar.gz", "eccv_18_all_images_sm.tar.gz", 6_492_615_601),
            Address(_LILA + "labels/caltech_camera_traps.json.zip", "caltech_camera_traps.json.zip"),
        ),
        elsewhere="from https://lila.science/datasets/caltech-camera-traps take the images of the CCT20 benchmark "
        "subset (6 GB) and the annotations, unpack both into one folder",
    ),
    "domainnet": DataSet(
        name="domainnet",
        title="DomainNet",
        paper="Peng, Bai, Xia, Huang, Saenko, Wang: Moment Matching for Multi-Source Domain Adaptation. ICCV 2019",
        domains=("clipart", "infograph", "painting", "quickdraw", "real", "sketch"),
        classes=_class_names("domainnet"),
        expected=(
            Version("without its published duplicates", (48_129, 51_605, 72_266, 172_500, 172_947, 69_128)),
            Version("with its published duplicates still in", (48_833, 53_201, 75_759, 172_500, 175_327, 70_386)),
        ),
        addresses=tuple(
            Address(f"{_CSR}{path}.zip", f"{path.rpartition('/')[2]}.zip", size, sha256)
            for path, size, sha256 in _DOMAINNET_ZIPS
        ),
        elsewhere="from http://ai.bu.edu/M3SDA/ take the six archives of the cleaned version, unpack them together",
    ),
    "cub-dg": DataSet(
        name="cub-dg",
        title="CUB-DG",
        paper="Min, Park, Kim, Park, Kim: Grounding Visual Representations with Texts for Domain Generalization. "
        "ECCV 2022",
        domains=("Photo", "Cartoon", "Art", "Paint"),
        classes=_class_names("cub-dg"),
        expected=(Version("as published", (11_788, 11_788, 11_788, 11_788)),),
        addresses=(Address(_DRIVE + "1BU8Jy0a1mdNCbIpUUBrQPqQfNXGXfm1f", "CUB-DG.tar.gz"),),
    ),
}
SUITE_DATA_SETS = tuple(name for name in DATA_SETS if name != "cub-dg")  # those that are in DomainBed's tables
