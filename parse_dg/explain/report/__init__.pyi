from .gather import gather_report as gather_report
from .page import write_report as write_report
