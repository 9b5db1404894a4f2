"""One request from Send to stored answer: the stages in order.

`admit` runs in the web process (stages 1 and 2), `run` in the worker (retrieval to storage). Both read like the
catalogue of stages; how a stage's report is worded stands in `webtrace.reporting.service_summaries`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
from channels.db import database_sync_to_async
from django.db import transaction

from inference.classifier import Card
from inference.messages import Generate, Sampling
from inference.text import TemplateFailed
from webtrace import events, outcomes, storage
from webtrace.accounts.models import User
from webtrace.breakpoints import after_stage
from webtrace.conversations import endings, log, services
from webtrace.conversations.branching import CannotBranch, given_tokens
from webtrace.conversations.endings import Ending
from webtrace.conversations.models import Conversation, Response
from webtrace.dispatch import bell, jobs
from webtrace.dispatch.routing import Choice
from webtrace.events import ErrorBody
from webtrace.gateway import checks, limits, rejections
from webtrace.gateway.address import address_group
from webtrace.gateway.checks import Verdict
from webtrace.gateway.incoming import Incoming
from webtrace.gateway.principal import Principal
from webtrace.generation import Generation
from webtrace.prompt import Assembler, Prompt, PromptTooLong, num_shared_tokens
from webtrace.release import OutputGate
from webtrace.reporting import model_summaries, service_summaries
from webtrace.reporting.timing import Account, Stages
from webtrace.running.engine import Engine, EngineFailed, EngineLost
from webtrace.running.holds import Holds
from webtrace.running.recorder import Recording
from webtrace.running.stop import Stopped
from webtrace.safety.decisions import Judgement, judge_input
from webtrace.safety.passages import score_passages
from webtrace.safety.services import record_decision
from webtrace.turns import Turns, turns_of

logger = logging.getLogger(__name__)

# ---------------------------------------------------------------- in the web process


@dataclass(frozen=True)
class Admitted:
    """The response that will answer; `is_new` is false when this `event_id` had already made it."""

    response_id: UUID
    is_new: bool


@dataclass(frozen=True)
class Refused:
    """The gateway said no. `response_id` names the stored journey, if there is one."""

    error: ErrorBody
    response_id: UUID | None


async def admit(incoming: Incoming, principal: Principal, *, keep: bool = True) -> Admitted | Refused:
    """Stages 1 and 2. `keep` false makes no conversation (for clients that send the whole history each time)."""
    outcome: Admitted | Refused = await database_sync_to_async(_admit)(incoming, principal, keep)
    if isinstance(outcome, Admitted) and outcome.is_new:
        await bell.ring_job(outcome.response_id)
    return outcome


def _admit(incoming: Incoming, principal: Principal, keep: bool) -> Admitted | Refused:
    reports: list[dict[str, Any]] = []
    stages = Stages(incoming.arrived, "web", reports.append)
    stages.report("request", service_summaries.request(incoming), 0.0, stages.elapsed_ms())
    try:
        if earlier := services.repeated_response(owner=principal.user, message=incoming.message):
            return Admitted(earlier.pk, is_new=False)
        with stages.run("gateway") as account:
            verdict = checks.run_checks(incoming, principal)
            service_summaries.gateway(account, verdict)
        if verdict.error is not None and not limits.may_store_refusal(principal):
            _count_refusal(incoming, principal, verdict.error)
            return Refused(verdict.error, None)
        response, is_new = _store(verdict, keep, reports)
    except services.EventIdReused as problem:
        return Refused(ErrorBody("event_id_reused", str(problem), "event_id"), None)
    except CannotBranch as problem:  # likewise
        return Refused(ErrorBody(problem.code, str(problem), problem.field), None)
    except (Conversation.DoesNotExist, services.UnknownParent):  # deleted since it was checked
        return Refused(ErrorBody("not_found", "There is no such conversation of yours.", "conversation_id"), None)
    except User.DoesNotExist:  # a guest who has signed in elsewhere since, or somebody an admin deleted
        return Refused(ErrorBody("unauthenticated", "This account is no longer there; connect again."), None)
    logger.info(
        "Response %s: %s, for user %s by %s.",
        response.pk,
        f"refused ({verdict.error.code})" if verdict.error else "admitted",
        principal.user.pk,
        principal.kind,
    )
    return Refused(verdict.error, response.pk) if verdict.error else Admitted(response.pk, is_new)


@transaction.atomic
def _store(verdict: Verdict, keep: bool, reports: Sequence[dict[str, Any]]) -> tuple[Response, bool]:
    """The response with its first events, and its job; a refused one with its end instead."""
    incoming, principal, refusal = verdict.incoming, verdict.principal, verdict.error
    sampling = service_summaries.recorded(verdict.sampling)
    response, is_new = services.start_response(
        owner=principal.user,
        message=incoming.message,
        sampling=sampling,
        transport=incoming.transport,
        defaults=incoming.defaults,
        keep=keep,
        refused=refusal is not None,
    )
    if not is_new:
        return response, False
    numbering = log.Numbering(response.pk, log.START)
    lines = [numbering.line(events.ResponseCreated, **service_summaries.created(response, sampling))]
    if response.trace:
        lines += [numbering.line(events.TraceStage, **report) for report in reports]
    if refusal is None:
        position = jobs.enqueue(response, asked_from=address_group(principal.address))
        lines.append(numbering.line(events.ResponseQueued, position=position))
        log.append([log.Write(response.pk, 0, lines)])
        return response, True
    ending = Ending("refused", "", error=refusal, record={"refused_at_stage": "gateway"})
    place = log.Place(0, numbering.place.number + 1)
    lines.append(endings.end_line(response_id=response.pk, place=place, ending=ending))
    endings.end_response(response_id=response.pk, epoch=0, lines=lines, ending=ending)
    return response, True


def _count_refusal(incoming: Incoming, principal: Principal, error: ErrorBody) -> None:
    rejections.record(
        code=error.code,
        message=error.message,
        transport=incoming.transport,
        field=error.field,
        owner=principal.user,
        address=principal.address,
        num_bytes=len(incoming.frame.encode()),
    )


# ---------------------------------------------------------------- in the worker


@dataclass(frozen=True)
class Tools:
    """What a worker lends to every journey."""

    engine: Engine
    assembler: Assembler
    safety_card: Card | None  # null: no heads are loaded, and rules decide alone


@dataclass(frozen=True)
class Routed:
    """Stage 5: it precedes the taking of the job, since template and tokenizer belong to the model it chooses."""

    choice: Choice
    duration_ms: float


async def run(
    taken: jobs.Taken, routed: Routed, tools: Tools, recording: Recording, stages: Stages, holds: Holds
) -> Ending:
    """Retrieval to storage. Returns the end, which the caller writes.

    Does not raise for what can happen to a request: a refusal, a cancel, a lost engine are ends.
    """
    try:
        return await _run(taken.response, routed, tools, recording, stages, holds)
    except PromptTooLong as problem:
        return outcomes.refused("prompt", ErrorBody("context_length_exceeded", str(problem), "input"))
    except CannotBranch as problem:
        return outcomes.refused("prompt", ErrorBody(problem.code, str(problem), problem.field))
    except TemplateFailed as problem:
        return outcomes.refused("prompt", ErrorBody("invalid_value", str(problem), "input"))
    except Stopped:
        return Ending(recording.stop.reason or "cancelled", "")
    except EngineFailed as problem:
        return outcomes.failed(recording, "engine_error", f"The engine could not judge this: {problem}")
    except EngineLost as problem:
        return outcomes.failed(recording, "engine_lost", f"The engine stopped while it worked on this. {problem}")


async def _run(
    response: Response, routed: Routed, tools: Tools, recording: Recording, stages: Stages, holds: Holds
) -> Ending:
    """The stages in order. After each the response may be held."""
    tokenizer = tools.assembler.tokenizer
    sampling = msgspec.convert(response.sampling, Sampling, str_keys=True)
    for reported in ("request", "gateway"):
        await holds.after(reported)

    with stages.run("retrieval") as account:
        service_summaries.retrieval(account, asked=response.request["retrieval"])
    await holds.after("retrieval")

    with stages.run("prompt") as account:
        turns: Turns = await database_sync_to_async(turns_of)(response)
        prompt = await _assemble(account, tools.assembler, turns, sampling)
    await holds.after("prompt")

    with stages.run("input_safety") as account:
        judgement = await _judge_input(account, response, turns.to_judge, tools)
    await holds.after("input_safety")
    if judgement.answer is not None:
        return outcomes.answered_by_safety(judgement.answer, recording)
    if judgement.amendment is not None:
        with stages.run("prompt") as account:
            prompt = await _assemble(account, tools.assembler, turns, sampling, constraint=judgement.amendment)

    given = await database_sync_to_async(given_tokens)(response, prompt.token_ids, tokenizer)

    stages.report("routing", service_summaries.routing(routed.choice, response), None, routed.duration_ms)
    await holds.after("routing")

    with stages.run("tokens") as account:
        model_summaries.tokens(account, prompt, tokenizer)
    await holds.after("tokens")
    with stages.run("token_ids") as account:
        model_summaries.token_ids(account, prompt.token_ids, tokenizer)
    await holds.after("token_ids")

    request = _request(response, prompt, given, sampling, tools, holds)
    gate = OutputGate(tools.engine.judge, tools.safety_card)
    generation = Generation(request, tools.engine.require(), tokenizer, gate, stages, recording, holds)
    async with aclosing(tools.engine.generate(request, recording.stop, on_lost=holds.wake)) as progress:
        # stages 8 to 21, and the text
        await generation.follow(progress, partial(tools.engine.proceed, request.response_id))
    if generation.withheld is not None:
        await database_sync_to_async(record_decision)(response_id=response.pk, **generation.withheld._asdict())
    ending = outcomes.generated(response, generation, recording)
    for reported in generation.report_end(ending.finish_reason):  # stages 22 to 26
        await holds.stand(after_stage(reported))

    with stages.run("storage") as account:
        service_summaries.storage(account, await database_sync_to_async(storage.report)(response, recording))
    await holds.stand(after_stage("storage"))
    return ending


async def _judge_input(account: Account, response: Response, text: str, tools: Tools) -> Judgement:
    """Judge what this request brought, and store the judgement."""
    scored = await score_passages(text, tools.engine.judge) if tools.safety_card else []
    judgement = judge_input(text, scored, tools.safety_card)
    await database_sync_to_async(record_decision)(response_id=response.pk, judgement=judgement, text=text)
    service_summaries.input_safety(account, judgement, text)
    return judgement


async def _assemble(
    account: Account, assembler: Assembler, turns: Turns, sampling: Sampling, *, constraint: str | None = None
) -> Prompt:
    """In a thread: a long history takes a while to tokenise, and the loop has sockets to serve."""
    try:
        prompt = await asyncio.to_thread(
            assembler.assemble,
            instructions=turns.instructions,
            history=turns.history,
            newest=turns.newest,
            max_tokens=sampling.max_tokens,
            constraint=constraint,
        )
    except PromptTooLong as problem:
        service_summaries.prompt_too_long(account, problem)
        raise
    service_summaries.prompt(account, prompt)
    return prompt


def _request(
    response: Response, prompt: Prompt, given: list[int], sampling: Sampling, tools: Tools, holds: Holds
) -> Generate:
    return Generate(
        response_id=str(response.pk),
        token_ids=prompt.token_ids,
        sampling=msgspec.structs.replace(sampling, max_tokens=min(sampling.max_tokens, prompt.room)),
        stop_token_ids=sorted(tools.assembler.tokenizer.end_ids),
        owner=f"user {response.owner_id}",
        record=response.trace,
        num_shared_tokens=num_shared_tokens(prompt),
        breakpoints=holds.breakpoints.steps(),
        given=given,
    )
