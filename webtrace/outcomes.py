"""What a journey comes to in the worker: an answer, a refusal, a failure, as the end that is written."""

from __future__ import annotations

from webtrace.conversations.endings import Ending
from webtrace.conversations.models import Response
from webtrace.events import ErrorBody, FinishReason
from webtrace.generation import Generation
from webtrace.running.engine import EngineLost
from webtrace.running.recorder import Recording


def generated(response: Response, generation: Generation, recording: Recording) -> Ending:
    """The end as the engine saw it, or safety. The wait for the first text adds the queue's time to the worker's.

    Raises EngineLost if the engine has told no end.
    """
    ended, first = generation.ended, generation.time_to_first_token_ms
    if ended is None:
        raise EngineLost("it ended without a word")
    reason: FinishReason
    if generation.withheld is not None:
        reason = "content_filter"
    elif ended.finish == "cancelled":
        reason = recording.stop.reason or "cancelled"
    else:
        reason = ended.finish
    record = {
        "token_ids": recording.token_ids,
        "decoded_prefix": recording.decoded_prefix,
        "resources": generation.resources,
        "time_to_first_token_ms": None if first is None else (response.queue_ms or 0.0) + first,
    }
    error = ErrorBody("engine_error", ended.error or "The engine could not go on.") if reason == "error" else None
    return Ending(reason, recording.text, recording.usage, error, record)


def answered_by_safety(answer: str, recording: Recording) -> Ending:
    """What safety says in the model's place. No token was computed."""
    recording.release(answer)
    return Ending("refusal", answer, record={"refused_at_stage": "input_safety"})


def refused(stage: str, error: ErrorBody) -> Ending:
    """A request that this stage found to be impossible."""
    return Ending("refused", "", error=error, record={"refused_at_stage": stage})


def failed(recording: Recording, code: str, message: str) -> Ending:
    """A failure on the way, with the text that was released before."""
    return Ending(
        "error", recording.text, recording.usage, ErrorBody(code, message), {"token_ids": recording.token_ids}
    )
