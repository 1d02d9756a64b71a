from .benchmark import (
    CLASSES as CLASSES,
    DOMAINS as DOMAINS,
    PARTS as PARTS,
    BlueprintsConfig as BlueprintsConfig,
    generate_domain as generate_domain,
)
from .store import open_blueprints as open_blueprints
