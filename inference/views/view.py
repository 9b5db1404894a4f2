"""The answer to a query: a structured part and named arrays, in one self-describing piece of bytes."""

import json
from dataclasses import dataclass
from typing import Any

import safetensors.numpy
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
"""float32 or int32"""


@dataclass(frozen=True)
class View:
    """What a view returns. `info` is JSON-able and holds token ids, never text."""

    info: dict[str, Any]
    tensors: dict[str, Array]

    def to_bytes(self) -> bytes:
        """safetensors; `info` stands as JSON under the metadata key "view"."""
        packed: bytes = safetensors.numpy.save(self.tensors, {"view": json.dumps(self.info, allow_nan=False)})
        return packed


def array(tensor: Tensor) -> Array:
    """A tensor as the wire carries it: int32 for whole numbers and truth values, float32 for the rest.

    Always a copy, for a view of the cache would change under the reader.
    """
    on_wire = tensor.float() if tensor.is_floating_point() else tensor.int()
    return on_wire.cpu().numpy().copy()
