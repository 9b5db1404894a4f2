"""The blocks in which GGUF keeps four-bit weights, taken apart without loss. Never imports torch.

All of them say weight = code * scale + minimum for 32 weights in a row, so one packed kernel computes them all.
"""

from collections.abc import Callable, Mapping
from typing import Any

import gguf
import numpy as np

from inference.checkpoint.weights import GROUP, Float32, FourBit

_K_GROUPS = 8  # groups of 32 in a block of a K-quant
_K_HEADER = 4 + 12  # two halves, then eight scales and eight minimums of 6 bits


def _unpack_q4_0(data: Any) -> FourBit:
    """Scale (half), codes: 18 bytes. The codes are centred on 8."""
    header, nibbles = _split(data, 2)
    scales = _halves(header)[..., 0]
    return _four_bit(_codes(nibbles), scales, -8 * scales)


def _unpack_q4_1(data: Any) -> FourBit:
    """Scale (half), minimum (half), codes: 20 bytes."""
    header, nibbles = _split(data, 4)
    scales, minimums = np.moveaxis(_halves(header), -1, 0)
    return _four_bit(_codes(nibbles), scales, minimums)


def _unpack_q4_k(data: Any) -> FourBit:
    """For 256 weights a scale and a minimum (halves) of eight scales and eight minimums in 6 bits, codes: 144 bytes.

    Of the twelve bytes of 6-bit numbers, the first four hold scales 0-3 and the next four minimums 0-3 in their low
    six bits. Scales 4-7 and minimums 4-7 have their low four bits in the halves of the last four bytes, and their
    high two on top of the first eight. Codes: each 32 bytes hold group 2j in their low nibbles, 2j + 1 in the high.
    """
    out = data.shape[0]
    blocks = data.reshape(out, -1, _K_HEADER + _K_GROUPS * GROUP // 2)
    scale, minimum = np.moveaxis(_halves(blocks[..., :4]), -1, 0)
    first, second, third = (blocks[..., 4 + 4 * part : 8 + 4 * part] for part in range(3))
    scales = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1)
    minimums = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1)
    nibbles = blocks[..., _K_HEADER:].reshape(out, -1, _K_GROUPS // 2, GROUP)
    codes = np.stack([nibbles & 15, nibbles >> 4], axis=-2)
    return _four_bit(codes, scale[..., None] * scales, -(minimum[..., None] * minimums))


def _split(data: Any, header_bytes: int) -> tuple[Any, Any]:
    """Header and code bytes of every block of 32."""
    blocks = data.reshape(data.shape[0], -1, header_bytes + GROUP // 2)
    return blocks[..., :header_bytes], blocks[..., header_bytes:]


def _halves(header: Any) -> Float32:
    return np.ascontiguousarray(header).view(np.float16).astype(np.float32)


def _codes(nibbles: Any) -> Any:
    """16 bytes -> 32 codes: low nibbles are weights 0-15, high nibbles 16-31."""
    return np.concatenate([nibbles & 15, nibbles >> 4], axis=-1)


def _four_bit(codes: Any, scales: Any, minimums: Any) -> FourBit:
    """Any grouping of each, in order, as rows of the matrix."""
    out = len(codes)
    return FourBit(
        np.ascontiguousarray(codes.reshape(out, -1)),
        np.ascontiguousarray(scales.reshape(out, -1), dtype=np.float32),
        np.ascontiguousarray(minimums.reshape(out, -1), dtype=np.float32),
    )


UNPACK: Mapping[gguf.GGMLQuantizationType, Callable[[Any], FourBit]] = {
    gguf.GGMLQuantizationType.Q4_0: _unpack_q4_0,
    gguf.GGMLQuantizationType.Q4_1: _unpack_q4_1,
    gguf.GGMLQuantizationType.Q4_K: _unpack_q4_k,
}
