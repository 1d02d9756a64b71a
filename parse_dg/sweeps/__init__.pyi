from .config import SweepConfig as SweepConfig
from .cost import estimate_cost as estimate_cost
from .file import read_sweep_file as read_sweep_file
from .loop import SweepReport as SweepReport, run_sweep as run_sweep
from .plan import plan_jobs as plan_jobs
from .presets import PRESETS as PRESETS
