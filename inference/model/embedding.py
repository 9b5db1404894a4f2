"""Token ids to vectors, and how alike two vectors are."""

import torch.nn.functional as F
from torch import Tensor


def embedding_lookup(table: Tensor, token_ids: Tensor) -> Tensor:
    """The rows of the table with these numbers: table [vocabulary, width], ids [n] -> [n, width]."""
    return F.embedding(token_ids, table)


def cosine(one: Tensor, other: Tensor) -> Tensor:
    """Cosine of the angle between vectors, over the last dimension; 0 where a vector is all zeros."""
    return F.cosine_similarity(one, other, dim=-1)
