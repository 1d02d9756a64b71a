from .composition import Composition as Composition, CompositionConfig as CompositionConfig
from .network import ParseNetwork as ParseNetwork, ParseOutput as ParseOutput
from .paper_predicates import PREDICATES as PREDICATES
from .predicate import BoundPrimitives as BoundPrimitives, Predicate as Predicate
from .predicates import (
    Predicates as Predicates,
    PredicatesConfig as PredicatesConfig,
    register_predicate as register_predicate,
)
from .primitives import PrimitiveBottleneck as PrimitiveBottleneck, PrimitivesConfig as PrimitivesConfig
from .structure import StructuralLayer as StructuralLayer, StructureConfig as StructureConfig
from .vocabulary import Vocabulary as Vocabulary, VocabularyConfig as VocabularyConfig
