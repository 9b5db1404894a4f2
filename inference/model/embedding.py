"""Token ids to vectors, and how alike two vectors are."""

import torch
import torch.nn.functional as F
from torch import Tensor


def embedding_lookup(table: Tensor, token_ids: Tensor, multiplier: float) -> Tensor:
    """The rows with these numbers, times the multiplier: table [vocabulary, width], ids [n] -> [n, width]."""
    rows = F.embedding(token_ids, table)
    return rows if multiplier == 1 else rows * multiplier


def cosine(vectors: Tensor, other: Tensor) -> Tensor:
    """Cosine of the angle between each vector [n, d] and the other [d] -> [n]; 0 where one of them is all zeros."""
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=-1) * torch.linalg.vector_norm(other)
    return torch.mv(vectors, other) / lengths.clamp(min=torch.finfo(lengths.dtype).tiny)
