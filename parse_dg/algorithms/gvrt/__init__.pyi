from .method import Gvrt as Gvrt, GvrtConfig as GvrtConfig
