"""What the service answers, as it is described in /openapi.json."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class ResponseModel(BaseModel):
    """All answers: nothing that is not described."""

    model_config = ConfigDict(extra="forbid")


class ClassShare(ResponseModel):
    """A class and how probable it is."""

    name: str = Field(examples=["house"])
    probability: float = Field(ge=0, le=1, description="softmax of the logits over all classes", examples=[0.93])


class PlaceData(ResponseModel):
    """Where a primitive is, in the grid's units: x and y in [-1, 1], x to the right, y downwards."""

    primitive: int = Field(examples=[3])
    x: float = Field(examples=[-0.41])
    y: float = Field(examples=[0.2])
    width: float = Field(description="twice the standard deviation of its heat map along x", examples=[0.11])
    height: float = Field(description="twice the standard deviation of its heat map along y", examples=[0.09])
    presence: float = Field(description="in [0, 1]", examples=[0.98])


class RelationData(ResponseModel):
    """One relation in a class's score."""

    name: str = Field(examples=["above(p3, p11)"])
    words: str = Field(examples=["p3 above p11"])
    predicate: str = Field(examples=["above"])
    primitives: list[int] = Field(examples=[[3, 11]])
    weight: float = Field(description="its share of the class's composition; they sum to 1", examples=[0.12])
    satisfaction: float = Field(description="how far it holds in the image, in [0, 1]", examples=[0.97])
    contribution: float = Field(description="weight × satisfaction; they sum to the score", examples=[0.1164])


class PlacedRelation(RelationData):
    """One relation, with the places of what it binds."""

    places: list[PlaceData]


class RestData(ResponseModel):
    """What the relations that are not listed come to together."""

    count: int = Field(examples=[0])
    weight: float = Field(examples=[0.0])
    contribution: float = Field(examples=[0.0])


class ExplanationData(ResponseModel):
    """The score of one class as a sum of relations."""

    predicted: str = Field(examples=["house"])
    explained: str = Field(description="the class whose score the relations sum to", examples=["house"])
    scores: dict[str, float] = Field(description="of every class, in [0, 1], before the logit scale")
    probabilities: dict[str, float] = Field(description="of every class: softmax of the logits")
    relations: list[PlacedRelation] = Field(description="the largest contribution first")
    rest: RestData
    primitives: list[PlaceData]


class PredictionData(ResponseModel):
    """What the model says of the image."""

    predicted: str = Field(description="the most probable class", examples=["house"])
    probability: float = Field(ge=0, le=1, description="of the predicted class", examples=[0.93])
    top: list[ClassShare] = Field(description="the most probable ones, as many as were asked for")
    probability_is: str = Field(examples=["softmax of the model's logits over all 8 classes"])
    model: str = Field(description="the model's file, below its run's name", examples=["seed0/model.safetensors"])
    method: str = Field(description="how it was trained", examples=["parse"])
    explanation: ExplanationData | None = Field(description="null unless it was asked for")


class CaseClass(ResponseModel):
    """A class in a case."""

    name: str = Field(examples=["house"])
    probability: float = Field(description="softmax of the logits over all classes", examples=[0.93])
    score: float | None = Field(description="before the logit scale; null unless the method is parse")


class CaseRest(ResponseModel):
    """Relations that are not listed one by one."""

    count: int
    contribution: float


class CardRelation(ResponseModel):
    """One relation on a class card."""

    words: str = Field(examples=["beak above p11"])
    family: str = Field(description="presence, binary, ternary or quaternary", examples=["binary"])
    marks: list[list[str | int]] = Field(description="its kind, then the primitives", examples=[[["arrow", 3, 11]]])


class DrawnRelation(CardRelation, RelationData):
    """One relation, with what the viewer draws of it."""


class CaseExplanation(ResponseModel):
    """The score of one class as a sum: the largest relations, and the rest."""

    score: float
    relations: list[DrawnRelation]
    rest: CaseRest


class CaseLogit(ResponseModel):
    """The logit of one class of a method other than PARSE: the bias plus what every cell or primitive adds."""

    logit: float
    bias: float
    cells: list[list[float]] | None = Field(description="a class activation map, row by row; null: it has none")
    primitives: list[float] | None = Field(description="of the method no_relations; null: it has none")


class HeatMaps(ResponseModel):
    """A heat map for each of the `places`, in their order, scaled to its own maximum."""

    shape: list[int] = Field(description="maps, rows, columns", examples=[[16, 8, 8]])
    values: str = Field(description="base64 of one byte for each value, row by row")


class CaseData(ResponseModel):
    """All that the page's viewer shows of an image."""

    title: str = Field(examples=["drawing.png"])
    image: str = Field(description="the whole image as data: URI", examples=["data:image/png;base64,iVBORw0KGgo"])
    seen: list[float] = Field(
        description="what the network sees: left, top, right, bottom in pixels", examples=[[0, 0, 384, 288]]
    )
    truth: str | None
    predicted: str = Field(examples=["house"])
    top: list[CaseClass]
    explanations: dict[str, CaseExplanation | CaseLogit] = Field(
        description="by class: relations where the method is parse, else where the logit comes from, if it can say"
    )
    primitives_in_all: int = Field(description="how many the model has", examples=[16])
    places: list[PlaceData] = Field(description="of those of the listed relations, and of the most present")
    heatmaps: HeatMaps | None


class FaceData(ResponseModel):
    """A patch of a source training image where a primitive is strongest."""

    image: str = Field(description="data: URI", examples=["data:image/png;base64,iVBORw0KGgo"])
    words: str = Field(description="the class and the domain it is from", examples=["house, photo"])


class CardFace(ResponseModel):
    """Where a primitive is on a class card."""

    primitive: int = Field(examples=[3])
    at: list[float] = Field(description="x and y from 0 (left, top) to 1", examples=[[0.4, 0.2]])


class CardData(ResponseModel):
    """A class as its strongest relations between primitives, where these are on average."""

    name: str = Field(examples=["house"])
    faces: list[CardFace]
    relations: list[CardRelation]


class PrimitivesData(ResponseModel):
    """What is known of the primitives."""

    names: dict[str, str] = Field(examples=[{"p3": "beak"}])
    faces: list[list[FaceData]] = Field(description="by primitive; empty where the images are not known")
    words: str = Field(description="what the faces are")
    cards: list[CardData]
    may_be_named: bool = Field(description="whether POST /names is answered")


class QueueData(ResponseModel):
    """How busy the service is."""

    waiting: int = Field(description="images that are decoded, wait or are predicted right now")
    limit: int = Field(description="as many at most; further ones are answered with 503")


class HealthData(ResponseModel):
    """That the service is well, and what it is."""

    status: str = Field(examples=["ok"])
    model: str = Field(examples=["seed0/model.safetensors"])
    method: str = Field(examples=["parse"])
    classes: list[str]
    image_size: int = Field(description="the side, in pixels, of what the network sees", examples=[64])
    fit: str = Field(description="how an image becomes a square: squash, crop or pad", examples=["squash"])
    max_bytes: int = Field(description="of one upload")
    max_pixels: int = Field(description="of one image")
    version: str = Field(description="of parse-dg")
    uptime_seconds: float
    images: int = Field(description="predicted since the start")
    batches: int = Field(description="passes of the network since the start")
    queue: QueueData


class ErrorData(ResponseModel):
    """Why there is no answer, in one line."""

    error: str = Field(examples=["the image cannot be read: it is cut short"])


ERRORS: dict[int | str, str] = {
    400: "the image is damaged, the form is, or a parameter is not valid",
    403: "a page of another site asked, or names may not be given from elsewhere",
    408: "the upload did not arrive in time",
    413: "the upload is too long, or the image has too many pixels",
    415: "no image, or not of a format that is read",
    421: "the address names another machine",
    429: "too many uploads from one address; see Retry-After",
    431: "the address and the headers are too long",
    503: "too much to do at the moment; see Retry-After",
    "default": "any other error",
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorData, "description": description} for status, description in ERRORS.items()
}

BINARY = {"type": "string", "format": "binary"}
FORM = {"type": "object", "required": ["image"], "properties": {"image": BINARY}}
RAW = ("image/*", "application/octet-stream")
UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "one image file: JPEG, PNG, PPM, BMP, TIFF, WEBP or GIF, and HEIC where "
        "pillow-heif is installed; of an animation the first frame",
        "content": {"multipart/form-data": {"schema": FORM}, **{kind: {"schema": BINARY} for kind in RAW}},
    }
}
