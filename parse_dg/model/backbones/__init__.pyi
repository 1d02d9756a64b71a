from .backbone import BackboneConfig as BackboneConfig, build_backbone as build_backbone
from .mixstyle import MixStyle as MixStyle, MixStyleConfig as MixStyleConfig
from .resnet import Backbone as Backbone
