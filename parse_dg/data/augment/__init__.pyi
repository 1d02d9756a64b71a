from .batches import AugmentConfig as AugmentConfig, register_augmentation as register_augmentation
from .transforms import transform_image as transform_image
