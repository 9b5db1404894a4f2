"""Answers questions about a response's inside: from its recording, or from a recomputation where that is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable

from inference.engine import Engine
from inference.messages import ViewReply, ViewRequest
from inference.views import VIEWS, QueryError, Trace, parse_query, rebuild

logger = logging.getLogger(__name__)
MAX_REPLY_BYTES = 1 << 20


class Viewer:
    """Looks into the responses of one engine. The latest recomputed response is kept: who looks once looks again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rebuilt: Trace | None = None

    def answer(self, request: ViewRequest, pause: Callable[[], None]) -> ViewReply:
        """`pause` is called between the cuts of a recomputation, so that running responses go on."""
        try:
            derive = VIEWS.get(request.slug)
            if derive is None:
                raise QueryError("slug", f"must be one of {', '.join(VIEWS)}, not {request.slug!r}")
            body = derive(self._trace(request, pause), parse_query(request.query)).to_bytes()
            if len(body) > MAX_REPLY_BYTES:
                raise QueryError("query", f"{len(body)} bytes; at most {MAX_REPLY_BYTES} at once: ask for a part")
        except QueryError as error:
            return ViewReply(request.request_id, error=error.message, field=error.field)
        except Exception as error:  # a picture that fails must not end the answers that run
            logger.exception("View %s failed.", request.slug)
            return ViewReply(request.request_id, error=f"The view failed: {error}")
        return ViewReply(request.request_id, body=body)

    def _trace(self, request: ViewRequest, pause: Callable[[], None]) -> Trace:
        engine = self._engine
        sequence = engine.scheduler.find(request.response_id)
        if sequence is not None and sequence.is_reading and not sequence.ended:
            raise QueryError("response_id", "the prompt is still being read")
        if sequence is not None and sequence.record and sequence.blocks:
            # The asker names the tokens that may be seen; the sequence can be ahead of them.
            seen = tuple(sequence.token_ids[: len(request.token_ids)])
            return Trace(
                engine.decoder,
                engine.cache,
                engine.residuals,
                sequence.blocks,
                seen,
                sequence.num_prompt_tokens,
                min(sequence.num_computed, len(seen) - 1),
            )
        return self._rebuild(request, pause)

    def _rebuild(self, request: ViewRequest, pause: Callable[[], None]) -> Trace:
        token_ids = tuple(request.token_ids)
        if not 1 <= request.num_prompt_tokens <= len(token_ids):
            raise QueryError("num_prompt_tokens", f"must be 1 to {len(token_ids)}, not {request.num_prompt_tokens}")
        kept = self._rebuilt
        decoded = tuple(request.decoded_prefix)
        asked = (token_ids, request.num_prompt_tokens, decoded)
        if kept is not None and (kept.token_ids, kept.num_prompt_tokens, kept.decoded_prefix) == asked:
            return kept
        self._rebuilt = None  # its memory may be needed for the next
        engine = self._engine
        blank = Trace(
            engine.decoder, engine.cache, engine.residuals, (), token_ids, request.num_prompt_tokens, pause=pause,
            decoded_prefix=decoded,
        )  # fmt: skip
        self._rebuilt = rebuild(blank)
        return self._rebuilt
