from .library import add as add, added as added, check as check, open_manifest as open_manifest, remove as remove
from .report import DataReport as DataReport
