from .classes import ClassComposition as ClassComposition, describe_classes as describe_classes
from .contrast import Contrast as Contrast, Counterfactual as Counterfactual, counterfactual as counterfactual
from .explanation import (
    Explanation as Explanation,
    Reading as Reading,
    Relation as Relation,
    read_image as read_image,
    read_images as read_images,
)
from .logits import LogitReading as LogitReading, read_logits as read_logits
from .primitive_images import PrimitiveImages as PrimitiveImages, strongest_images as strongest_images
