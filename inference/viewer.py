"""Answers questions about a response's inside: from its recording, or from a recomputation where that is gone."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace

from inference.engine import Engine
from inference.messages import Subject, ViewReply, ViewRequest
from inference.query import QueryError, parse_query
from inference.sequence import Sequence
from inference.views import VIEWS, Trace, View, rebuild

logger = logging.getLogger(__name__)
MAX_REPLY_BYTES = 1 << 20
REBUILT_SHARE = 4
"""Recomputed responses are kept in this part of the residual pool's memory beside it, least recently looked-at first
out; the one looked at last is kept whatever it takes."""

Pause = Callable[[], None]


class Viewer:
    """Looks into the responses of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rebuilt: OrderedDict[Hashable, Trace] = OrderedDict()
        cache, residuals = engine.cache, engine.residuals
        num_bytes = residuals.num_blocks * residuals.bytes_per_block // REBUILT_SHARE
        self._most_rebuilt = num_bytes // (cache.bytes_per_token + residuals.bytes_per_token)

    @property
    def _num_rebuilt(self) -> int:
        """Positions of all recomputed responses that are kept."""
        return sum(trace.length for trace in self._rebuilt.values())

    def answer(self, request: ViewRequest, pause: Pause) -> ViewReply:
        """`pause` is called between the pieces of what takes long, so that running responses go on."""
        try:
            body = self._view(request, pause).to_bytes()
            if len(body) > MAX_REPLY_BYTES:
                raise QueryError("query", f"{len(body)} bytes; at most {MAX_REPLY_BYTES} at once: ask for a part")
        except QueryError as error:
            return ViewReply(request.request_id, error=error.message, field=error.field)
        except Exception as error:  # a picture that fails must not end the answers that run
            logger.exception("View %s failed.", request.slug)
            return ViewReply(request.request_id, error=f"The view failed: {error}")
        return ViewReply(request.request_id, body=body)

    def _view(self, request: ViewRequest, pause: Pause) -> View:
        """Nobody who runs waits for blocks that a view reads: if they were given away meanwhile, it is made again, from
        a recomputation."""
        query = parse_query(request.slug, request.query)
        while True:
            other = None if request.other is None else self._trace(request.other, pause)
            trace = self._trace(request.subject, pause, other)
            view = VIEWS[request.slug](trace, query)
            if trace.is_intact() and (other is None or other.is_intact()):
                return view

    def is_quick(self, request: ViewRequest) -> bool:
        """Whether the answer needs no pass over all positions."""
        subjects = [request.subject] if request.other is None else [request.subject, request.other]
        long = request.slug == "kv_cache" or "everywhere" in request.query
        return not long and all(self._is_held(subject) for subject in subjects)

    def _is_held(self, subject: Subject) -> bool:
        return self._sequence(subject) is not None or _key(subject) in self._rebuilt

    def _sequence(self, subject: Subject) -> Sequence | None:
        """The response in the engine, if its recording is there."""
        sequence = self._engine.scheduler.find(subject.response_id)
        return sequence if sequence is not None and sequence.record and sequence.blocks else None

    def _trace(self, subject: Subject, pause: Pause, other: Trace | None = None) -> Trace:
        """What is recorded of the response, or else a rebuilt one."""
        engine = self._engine
        if subject.fingerprint != engine.decoder.fingerprint:
            was, now = subject.fingerprint, engine.decoder.fingerprint
            raise QueryError("response_id", f"was computed by {was}; this engine is {now}, its numbers are others")
        known = engine.scheduler.find(subject.response_id)
        if known is not None and known.is_reading and not known.ended:
            raise QueryError("response_id", "the prompt is still being read")
        sequence = self._sequence(subject)
        if sequence is None:
            return self._rebuild(subject, pause, other)
        allocator = engine.scheduler.allocator
        blocks = sequence.blocks[: allocator.num_needed(sequence.num_computed)]
        times = allocator.times_handed_out(blocks)
        # The asker names the tokens that may be seen; the sequence can be ahead of them.
        seen = tuple(sequence.token_ids[: len(subject.token_ids)])
        return Trace(
            engine.decoder,
            engine.cache,
            engine.residuals,
            blocks,
            seen,
            sequence.num_prompt_tokens,
            min(sequence.num_computed, len(seen) - 1),
            decoded_prefix=tuple(sequence.decoded_prefix),
            pause=pause,
            other=other,
            is_intact=lambda: allocator.times_handed_out(blocks) == times,
        )

    def _rebuild(self, subject: Subject, pause: Pause, other: Trace | None) -> Trace:
        token_ids = tuple(subject.token_ids)
        if not 1 <= subject.num_prompt_tokens <= len(token_ids):
            raise QueryError("num_prompt_tokens", f"must be 1 to {len(token_ids)}, not {subject.num_prompt_tokens}")
        key = _key(subject)
        kept = self._rebuilt.pop(key, None)
        if kept is None:
            engine = self._engine
            while self._rebuilt and self._num_rebuilt + len(token_ids) > self._most_rebuilt:
                self._rebuilt.popitem(last=False)
            blank = Trace(engine.decoder, engine.cache, engine.residuals, (), token_ids, subject.num_prompt_tokens)
            blank = replace(blank, decoded_prefix=tuple(subject.decoded_prefix), pause=pause)
            kept = rebuild(blank, subject.logprobs)
        self._rebuilt[key] = kept
        return replace(kept, pause=pause, other=other)


def _key(subject: Subject) -> Hashable:
    """What a recomputation depends on."""
    prefix, compared = tuple(subject.decoded_prefix), bool(subject.logprobs)
    return subject.num_prompt_tokens, tuple(subject.token_ids), prefix, compared
