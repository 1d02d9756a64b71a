from .examples import (
    FigureRequest as FigureRequest,
    draw_errors as draw_errors,
    draw_pipeline as draw_pipeline,
    draw_primitives as draw_primitives,
)
from .explanation import explanation_figure as explanation_figure
