from .compaction import Compaction as Compaction, compact as compact
from .export import export_model as export_model
from .model_file import Model as Model, ModelSpec as ModelSpec, load_model as load_model, save_model as save_model
from .predictor import Prediction as Prediction, Predictor as Predictor, load as load
