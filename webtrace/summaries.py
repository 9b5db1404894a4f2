"""What each stage of the service says about a request: one line of input, operation and output with its own values,
and its report. The stages inside the model speak in `webtrace.model_summaries`."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from inference.messages import Sampling
from webtrace import prompt as prompts
from webtrace import reports
from webtrace.conversations.models import Response
from webtrace.dispatch.routing import Choice
from webtrace.gateway.checks import Verdict
from webtrace.gateway.incoming import Incoming
from webtrace.prompt import Prompt
from webtrace.safety.decisions import Judgement
from webtrace.timing import Account


def with_seed(sampling: Sampling) -> Sampling:
    """The sampling parameters with a seed: drawn here, and shown, where the user gave none."""
    if sampling.seed is not None:
        return sampling
    return msgspec.structs.replace(sampling, seed=secrets.randbelow(2**32))


def created(response: Response, sampling: Sampling) -> dict[str, Any]:
    """The fields of `response.created`."""
    turn = response.user_message
    return {
        "event_id": response.event_id,
        "conversation_id": str(response.conversation_id) if response.conversation_id else None,
        "message_id": str(turn.pk) if turn else None,
        "answer_id": str(response.answer_id) if response.answer_id else None,
        "parent_id": str(turn.parent_id) if turn and turn.parent_id else None,
        "title": response.conversation.title if response.conversation else None,
        "model": response.requested_model,
        "sampling": sampling,
        "created_at": response.created_at.isoformat(),
    }


# ---------------------------------------------------------------- before the model


def request(incoming: Incoming) -> Account:
    data = incoming.report()
    account = Account()
    form = "JSON frame" if data.transport == "websocket" else "HTTP request"
    account.say(
        input=_typed(incoming),
        operation=f"read one {form} of {data.num_bytes:,} bytes",
        output=f"a {incoming.message.__struct_config__.tag} message, event_id {incoming.message.event_id[:40]}",
        data=data,
    )
    return account


def _typed(incoming: Incoming) -> str:
    given = incoming.message.input
    if isinstance(given, str):
        return f"{len(given)} characters: {shorten(given)}"
    return f"{len(given)} messages, {sum(len(one.content) for one in given)} characters"


def gateway(account: Account, verdict: Verdict) -> None:
    passed = sum(check.passed is True for check in verdict.checks)
    output = f"admitted for {verdict.principal.user.get_username()}"
    if verdict.error is not None:
        output = f"refused: {verdict.error.message}"
        account.outcome = "ended_here"
    account.say(
        input=f"event_id {verdict.incoming.message.event_id[:40]} from {_article(verdict.principal.kind)}",
        operation=f"{len(verdict.checks)} checks in order, {passed} passed",
        output=output,
        data=reports.GatewayReport(
            request_id=verdict.incoming.message.event_id,
            principal=verdict.principal.kind,
            checks=verdict.checks,
            refused=verdict.error.code if verdict.error else None,
        ),
    )


def retrieval(account: Account, *, asked: bool) -> None:
    reason = "no document collection is set up on this service" if asked else "not asked for in this request"
    account.outcome = "skipped"
    account.say(
        input="your message",
        operation="none: retrieval is off",
        output=reason,
        data=reports.RetrievalReport(enabled=False, reason=reason),
    )


def prompt(account: Account, made: Prompt) -> None:
    data = prompts.report(made)
    parts = sum(not segment.is_marker for segment in made.segments)
    dropped = f", {len(made.dropped)} earlier messages left out" if made.dropped else ""
    account.say(
        input=f"{parts} stretches of text{dropped}",
        operation="fill the checkpoint's chat template",
        output=f"{data.num_tokens:,} tokens of {data.context_length:,}; {data.room_for_answer:,} left for the answer",
        data=data,
    )


def prompt_too_long(account: Account, problem: prompts.PromptTooLong) -> None:
    account.say(
        input=f"{problem.num_tokens:,} tokens without any history",
        output=str(problem),
        data=reports.PromptReport([], problem.num_tokens, problem.context_length, 0, []),
    )


def input_safety(account: Account, judgement: Judgement, text: str) -> None:
    scores = ", ".join(f"{one.label} {one.score:.2f}" for one in judgement.scores)
    account.say(
        input=f"{len(text):,} characters of yours",
        operation=judgement.technique,
        output=f"{judgement.decision}: {judgement.reason}" + (f" ({scores})" if scores else ""),
        data=judgement.input_report(),
    )
    if not judgement.passes:
        account.outcome = "ended_here"


def routing(choice: Choice, response: Response) -> Account:
    able = sum(not row.reason.startswith("has ") for row in choice.candidates)
    account = Account()
    account.say(
        input=f"model {response.requested_model}; {len(choice.candidates)} living workers",
        operation=f"compare {able} that have the model",
        output=choice.reason,
        data=reports.RoutingReport(
            requested_model=response.requested_model,
            model=response.model,
            fingerprint=response.fingerprint,
            workers=choice.candidates,
            reason=choice.reason,
            queue_ms=response.queue_ms or 0.0,
        ),
    )
    return account


# ---------------------------------------------------------------- back to you


def detokenize(data: reports.DetokenizeReport) -> Account:
    account = Account()
    account.say(
        input=f"{data.num_tokens} token ids",
        operation=f"{data.num_bytes:,} bytes, read as UTF-8; held back after {data.num_held_back} steps",
        output=f"{data.num_characters:,} characters",
        data=data,
    )
    return account


def output_safety(data: reports.OutputSafetyReport) -> Account:
    withheld = data.num_characters_withheld
    account = Account()
    account.say(
        input=f"{data.num_characters_released + withheld:,} characters in {len(data.windows)} windows",
        operation=f"{data.technique}, window by window",
        output=f"{data.num_characters_released:,} characters released, {withheld:,} withheld",
        data=data,
    )
    if withheld:
        account.outcome = "ended_here"
    return account


def stream(data: reports.StreamReport) -> Account:
    first = "no text" if data.time_to_first_token_ms is None else f"first after {data.time_to_first_token_ms:.0f} ms"
    speed = f", {data.tokens_per_second:.1f} tokens/s" if data.tokens_per_second else ""
    account = Account()
    account.say(
        input=f"{data.num_bytes:,} bytes of text",
        operation=f"sent in {data.num_chunks} pieces",
        output=f"{first}{speed}, {data.end_to_end_ms:.0f} ms in all",
        data=data,
    )
    return account


def storage(account: Account, data: reports.StorageReport) -> None:
    total = sum(row.num_bytes or 0 for row in data.rows)
    account.say(
        input="the finished response",
        operation=f"write {len(data.rows)} kinds of rows in one transaction",
        output=f"{total:,} bytes, seen by an admin at {data.admin_path}",
        data=data,
    )


def shorten(text: str, length: int = 60) -> str:
    """A text in quotes, on one line."""
    return repr(text if len(text) <= length else f"{text[: length - 1]}…")


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeio' else 'a'} {noun}"
