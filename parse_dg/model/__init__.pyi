from .composition import Composition as Composition, CompositionConfig as CompositionConfig
from .network import ParseNetwork as ParseNetwork, ParseOutput as ParseOutput
from .predicate import Predicate as Predicate
from .predicates import Predicates as Predicates, PredicatesConfig as PredicatesConfig
from .primitives import PrimitiveBottleneck as PrimitiveBottleneck, PrimitivesConfig as PrimitivesConfig
from .structure import StructuralLayer as StructuralLayer, StructureConfig as StructureConfig
from .vocabulary import Vocabulary as Vocabulary, VocabularyConfig as VocabularyConfig
