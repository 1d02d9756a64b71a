from .estimate import Estimate as Estimate
from .records import FinishedRun as FinishedRun
from .selection import Record as Record, select as select
from .selection_tables import SelectionTables as SelectionTables, selection_tables as selection_tables
from .text_table import TextTable as TextTable
from .views import VIEWS as VIEWS
