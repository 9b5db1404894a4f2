"""Root-mean-square normalisation."""

import torch.nn.functional as F
from torch import Tensor


def rms_norm(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Every row divided by the root of its mean square, times a learned weight per column.

    states [..., width], weight [width] -> [..., width]. Zhang and Sennrich (2019).
    """
    return F.rms_norm(states, weight.shape, weight, epsilon)
