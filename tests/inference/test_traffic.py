"""What a decoding pass reads and computes."""

from __future__ import annotations

from inference.model.clock import multiply_adds
from inference.model.decoder import Decoder
from inference.traffic import decoding_multiply_adds, weight_bytes
from tests.inference.tiny import CONFIG, alone, request, run, tiny_decoder, tiny_engine

NUM_PARAMETERS = 134_515_008 - 61 * 576  # of SmolLM2-135M without norms; its embedding is the output head too


def test_a_pass_reads_every_weight_once(decoder_float32: Decoder, decoder_int4: Decoder) -> None:
    assert weight_bytes(decoder_float32) == 4 * NUM_PARAMETERS
    bits = 8 * weight_bytes(decoder_int4) / NUM_PARAMETERS
    assert 5 < bits < 6, "four bits and a share of scale and zero, eight in the head"


def test_decoding_counts_what_its_passes_compute() -> None:
    one_by_one = [multiply_adds(CONFIG, 1, context) for context in range(11, 21)]
    assert decoding_multiply_adds(CONFIG, 10, 20) == sum(sum(counts.values()) for counts in one_by_one)
    assert decoding_multiply_adds(CONFIG, 10, 10) == 0


def test_a_response_tells_what_its_passes_read() -> None:
    end = alone(request("a", "abc", max_tokens=4)).end
    rows = sum(range(4, 7))
    per_token = tiny_engine().cache.bytes_per_token
    assert end.bytes_read == 3 * weight_bytes(tiny_decoder()) + rows * per_token
    assert end.multiply_adds == decoding_multiply_adds(CONFIG, 3, 6)
    assert 0 < end.forward_ms <= end.decode_ms
    both = run(tiny_engine(), *(request(name, "abc", max_tokens=4) for name in "ab"))
    assert both["b"].end.bytes_read > end.bytes_read, "its neighbour's keys and values are read as well"
