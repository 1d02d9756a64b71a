from .cluster import RayLauncher as RayLauncher
from .local import LocalLauncher as LocalLauncher
from .slurm import write_slurm as write_slurm
