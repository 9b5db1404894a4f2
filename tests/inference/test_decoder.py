"""What the decoder promises beyond right numbers: the same ones in a crowd, in any blocks, on record."""

import math

import pytest
import torch
from torch import Tensor

from inference.cache import KVCache, ResidualPool, slots_of
from inference.model.attention import apply_mask, causal_mask, softmax
from inference.model.clock import StageClock, multiply_adds
from inference.model.decoder import CUT, Chunk, Decoder
from tests.inference.sequences import Sequencer, new_sequence

PROMPT = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712]
LONG = [(7919 * i + 13) % 49152 for i in range(CUT + 37)]


@pytest.fixture(params=["float32", "int4", "native"])
def decoder(request: pytest.FixtureRequest) -> Decoder:
    loaded: Decoder = request.getfixturevalue(f"decoder_{request.param}")
    return loaded


def test_logits_alone_and_in_a_crowd_are_bit_equal(decoder: Decoder) -> None:
    prompts = [PROMPT, LONG[CUT:], LONG[:3]]
    alone = [new_sequence(decoder, num_blocks=1) for _ in prompts]
    expected = [sequence.feed(prompt) for sequence, prompt in zip(alone, prompts, strict=True)]

    cache, residuals = KVCache(decoder.config, 4), ResidualPool(decoder.config, 4)
    crowd = [Sequencer(decoder, cache, residuals, [block]) for block in (3, 0, 2)]

    def step(pieces: list[list[int]]) -> Tensor:
        chunks = [sequence.chunk(piece) for sequence, piece in zip(crowd, pieces, strict=True)]
        return decoder.forward(chunks, cache, residuals)

    together = step(prompts)
    for _ in range(3):
        for one, other in zip(expected, together, strict=True):
            assert torch.equal(one, other)
        tokens = [[int(logits.argmax())] for logits in expected]
        expected = [sequence.feed(token) for sequence, token in zip(alone, tokens, strict=True)]
        together = step(tokens)


def test_decode_beside_a_prefill_is_bit_equal(decoder: Decoder) -> None:
    alone = new_sequence(decoder, num_blocks=1)
    alone.feed(PROMPT)
    expected = alone.feed([42])

    cache, residuals = KVCache(decoder.config, 4), ResidualPool(decoder.config, 4)
    one, other = Sequencer(decoder, cache, residuals, [1]), Sequencer(decoder, cache, residuals, [2, 3])
    one.feed(PROMPT)
    logits = decoder.forward([other.chunk(LONG[:CUT]), one.chunk([42])], cache, residuals)
    assert torch.equal(logits[1], expected)


def test_scattered_blocks_change_nothing(decoder: Decoder) -> None:
    tidy, scattered = new_sequence(decoder), new_sequence(decoder, blocks=[7, 2, 9])
    assert torch.equal(tidy.feed(LONG), scattered.feed(LONG))
    assert torch.equal(tidy.feed([5]), scattered.feed([5]))
    assert torch.equal(
        tidy.residuals.rows[:, : len(LONG) + 1],
        scattered.residuals.rows[:, scattered.residuals.slots([7, 2, 9], 0, len(LONG) + 1)],
    )


def test_only_recorded_chunks_leave_a_residual_stream(decoder_float32: Decoder) -> None:
    sequence = new_sequence(decoder_float32, num_blocks=1)
    decoder_float32.forward(
        [Chunk(PROMPT, 0, [0], wants_logits=False, record=False)], sequence.cache, sequence.residuals
    )
    assert not sequence.residuals.rows.any()
    logits = decoder_float32.forward(
        [Chunk([5], len(PROMPT), [0], wants_logits=True, record=True)], sequence.cache, sequence.residuals
    )
    rows = sequence.residuals.rows[:, len(PROMPT)]
    assert torch.equal(rows[0], decoder_float32.embedding[5])
    assert torch.equal(decoder_float32.logits(rows[-1:]), logits)
    assert not sequence.residuals.rows[:, len(PROMPT) + 1 :].any()


def test_no_logits_are_computed_unless_wanted(decoder_float32: Decoder) -> None:
    sequence = new_sequence(decoder_float32, num_blocks=1)
    logits = decoder_float32.forward([Chunk(PROMPT, 0, [0], wants_logits=False, record=False)], sequence.cache, None)
    assert logits.shape == (0, decoder_float32.config.vocabulary)


def test_masked_weights_are_exactly_zero_below_any_score() -> None:
    scores = torch.tensor([[-3e5, 4.0, 7.0], [-3e5, -2e5, 7.0], [1.0, 1.0, -1e30]])
    weights = softmax(apply_mask(scores, causal_mask(0, 3, 3)))
    assert weights[0].tolist() == [1.0, 0.0, 0.0]
    assert weights[1].tolist() == [0.0, 1.0, 0.0]
    assert weights[2].tolist() == [0.5, 0.5, 0.0]


def test_clock_tells_every_stage_of_a_prefill_and_sums_to_the_pass(decoder_float32: Decoder) -> None:
    sequence, clock = new_sequence(decoder_float32, num_blocks=1), StageClock()
    chunk = Chunk(PROMPT, 0, [0], wants_logits=True, record=True)
    decoder_float32.forward([chunk], sequence.cache, sequence.residuals, clock)
    times = clock.stages()
    assert list(times) == [
        *("embeddings", "residual_norm", "qkv", "positions", "kv_cache", "scores", "scale", "mask", "softmax"),
        *("weighted_sum", "heads", "feed_forward", "logits"),
    ]
    starts = [time.started_ns for time in times.values()]
    assert starts == sorted(starts)
    assert starts[0] == 0
    assert all(time.spent_ns > 0 for time in times.values())


def test_clock_adds_up_repeated_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([100, 107, 110, 121])
    monkeypatch.setattr("inference.model.clock.perf_counter_ns", lambda: next(ticks))
    clock = StageClock()
    for stage in ("qkv", "scores", "qkv"):
        clock.mark(stage)
    times = clock.stages()
    assert (times["qkv"].started_ns, times["qkv"].spent_ns) == (0, 18)
    assert (times["scores"].started_ns, times["scores"].spent_ns) == (7, 3)


def test_clock_leaves_out_what_came_between(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([100, 107, 1000, 1011])
    monkeypatch.setattr("inference.model.clock.perf_counter_ns", lambda: next(ticks))
    clock = StageClock()
    clock.mark("qkv")
    clock.skip()
    clock.mark("qkv")
    assert {stage: time.spent_ns for stage, time in clock.stages().items()} == {"qkv": 18}


def test_multiply_adds_count_every_weight_once_and_every_pair(decoder_float32: Decoder) -> None:
    config = decoder_float32.config
    counts = multiply_adds(config, 1, 35)
    assert counts["scores"] == counts["weighted_sum"] == 30 * 35 * 9 * 64
    weights_used = sum(count for stage, count in counts.items() if stage not in ("scores", "weighted_sum"))
    assert weights_used == 134_479_872  # all matrices of this checkpoint, the tied table once
    whole, by_piece = multiply_adds(config, 9, 9), [multiply_adds(config, 1, n) for n in range(1, 10)]
    assert whole["scores"] == math.fsum(piece["scores"] for piece in by_piece)


@pytest.mark.parametrize(
    ("chunk", "field"),
    [
        (Chunk([], 0, [0], True, False), "token_ids"),
        (Chunk([5] * (CUT + 1), 0, [0, 1, 2], True, False), "token_ids"),
        (Chunk([49152], 0, [0], True, False), "token_ids"),
        (Chunk([-1], 0, [0], True, False), "token_ids"),
        (Chunk([5], 8192, [0], True, False), "start"),
        (Chunk([5], 64, [0], True, False), "blocks"),
    ],
)
def test_a_wrong_chunk_is_refused_by_name(decoder_float32: Decoder, chunk: Chunk, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        decoder_float32.forward([chunk], KVCache(decoder_float32.config, 1))


def test_slots_of_neighbouring_blocks_are_a_slice() -> None:
    device = torch.device("cpu")
    assert slots_of([4, 5, 6], 3, 9, 4, device) == slice(19, 25)
    scattered = slots_of([4, 9, 2], 3, 9, 4, device)
    assert isinstance(scattered, Tensor)
    assert scattered.tolist() == [19, 36, 37, 38, 39, 8]
