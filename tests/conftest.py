"""What every test shares."""

import torch

torch.set_num_threads(1)  # tests are small: two threads wait for each other more than they help
