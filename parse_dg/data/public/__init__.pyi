from .catalogue import (
    DATA_SETS as DATA_SETS,
    SUITE_DATA_SETS as SUITE_DATA_SETS,
    DataSet as DataSet,
    find_data_set as find_data_set,
)
from .cub_parts import PartAnnotations as PartAnnotations, read_parts as read_parts
