from .benchmarks import (
    DataConfig as DataConfig,
    open_benchmark as open_benchmark,
    register_data_set as register_data_set,
)
from .domain import Benchmark as Benchmark, Domain as Domain
from .listing import Progress as Progress
from .loader import evaluation_batches as evaluation_batches, load_images as load_images
from .manifest import Manifest as Manifest
from .sampling import SamplingConfig as SamplingConfig
from .splits import (
    LeaveOneOut as LeaveOneOut,
    SplitConfig as SplitConfig,
    Subset as Subset,
    leave_one_out as leave_one_out,
    whole as whole,
)
