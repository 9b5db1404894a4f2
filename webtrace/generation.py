"""Stages 8-26: follows the engine's progress on one response and reports it, releasing text as it may be shown."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from statistics import median, quantiles
from typing import NamedTuple

from inference import messages as m
from inference.text import Tokenizer
from webtrace import digits
from webtrace.breakpoints import TELLING, stations_of_step
from webtrace.events import KVState, StepTiming, TraceStep, Usage
from webtrace.release import OutputGate
from webtrace.reporting import model_reports, model_summaries, service_reports, service_summaries
from webtrace.reporting.timing import Stages
from webtrace.running.engine import Arrived
from webtrace.running.holds import Holds
from webtrace.running.recorder import Recording
from webtrace.safety.decisions import Judgement


class Withheld(NamedTuple):
    """The window that ended an answer because it did not pass; it began at character `start`."""

    judgement: Judgement
    text: str
    start: int


class _Held(NamedTuple):
    """A step whose text has not been released yet; it arrived `at_ms`."""

    step: m.Step
    at_ms: float


class _Chunk(NamedTuple):
    at_ms: float
    num_bytes: int


class Generation:
    """What is known of one response while it is generated."""

    def __init__(
        self,
        request: m.Generate,
        ready: m.Ready,
        tokenizer: Tokenizer,
        gate: OutputGate,
        stages: Stages,
        recording: Recording,
        holds: Holds,
    ) -> None:
        self._request = request
        self._ready = ready
        self._tokenizer = tokenizer
        self._gate = gate
        self._stages = stages
        self._recording = recording
        self._holds = holds
        recording.token_ids = list(request.token_ids)
        self._sequence_started_ms = 0.0
        self._prefilled: m.Prefilled | None = None
        self._held: list[_Held] = []
        self._arrivals_ms: list[float] = []
        self._chunks: list[_Chunk] = []
        self._num_held_back = 0
        self._num_prefix_tokens = 0
        self._token_ids: list[int] = []
        self._tail = ""  # text that the end released without a step
        self.withheld: Withheld | None = None
        self.ended: m.Ended | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Time and memory it took, as far as the engine said."""
        if self.ended is None:
            return {}
        return {
            "prefill_ms": self.ended.prefill_ms,
            "decode_ms": self.ended.decode_ms,
            "num_blocks": self.ended.num_blocks,
            "num_bytes": self.ended.num_bytes,
        }

    @property
    def time_to_first_token_ms(self) -> float | None:
        """From the taking of the job to the first released text."""
        return self._chunks[0].at_ms if self._chunks else None

    async def follow(self, progress: AsyncIterator[Arrived], proceed: Callable[[list[int]], None]) -> None:
        """Take every message of the engine until the sequence has ended. `proceed` ends a hold of the engine and
        takes the steps of the next."""
        sent_ms = self._stages.elapsed_ms()
        async for message, arrived in progress:
            match message:
                case m.Started():
                    # What the engine measured is added to our clock; when its message came says nothing.
                    self._sequence_started_ms = sent_ms + message.queue_ms
                    self._num_prefix_tokens = message.num_prefix_tokens
                    self._recording.decoded_prefix = message.decoded_prefix
                    self._count()
                case m.Prefilled():
                    self._prefilled = message
                    self._report_layers(message)
                case m.Step():
                    await self._take(message, self._stages.at_ms(arrived))
                case m.Held():
                    await self._stand(message.step, arrived)
                    proceed(self._holds.breakpoints.steps(done=message.step))
                case m.Ended():
                    self.ended = message
                    self._tail = message.text
                    await self._release()
                    if self._token_ids:
                        await self._stand(len(self._token_ids) - 1, time.perf_counter())

    async def _take(self, step: m.Step, at_ms: float) -> None:
        self._arrivals_ms.append(at_ms)
        self._token_ids.append(step.token)
        self._count()
        self._num_held_back += step.held_bytes > 0
        self._held.append(_Held(step, at_ms))
        if self._gate.is_due(self._held_text):
            await self._release()

    async def _stand(self, step: int, since: float) -> None:
        """The sequence stands after this step, whose token is the newest: hold where there are breakpoints."""
        for station in stations_of_step(step):
            if self._holds.would_hold(station) and (step or station.stage in TELLING):
                await self._release_early()
            await self._holds.stand(station, since)
            since = time.perf_counter()

    async def _release_early(self) -> None:
        """Show what is held back now, unless a piece of it cannot be judged without what follows."""
        if self._held and not self._held[-1].step.held_bytes and self._gate.may_end_after(self._held_text):
            await self._release()

    def _count(self) -> None:
        self._recording.usage = Usage(len(self._request.token_ids), len(self._token_ids), self._num_prefix_tokens)

    @property
    def _held_text(self) -> str:
        return "".join(one.step.text for one in self._held) + self._tail

    async def _release(self) -> None:
        """Show the steps that were held, if their text passes: the text first, then what the trace says of them.

        Text that does not pass ends the generation, and nothing after it is shown.
        """
        text = self._held_text
        if self.withheld is not None:
            self._gate.withhold(text)
            self._held.clear()
            return
        if text:
            judgement = await self._gate.passes(text)
            if not judgement.passes:
                self.withheld = Withheld(judgement, text, start=len(self._recording.text))
                self._held.clear()
                self._recording.stop.ask("content_filter")
                return
            self._chunks.append(_Chunk(self._stages.elapsed_ms(), len(text.encode())))
            self._recording.release(text)
        held, self._held = self._held, []
        self._recording.token_ids += [one.step.token for one in held]
        for one in held:
            if one.step.step == 0:
                self._report_first_choice(one.step)
            self._report_step(one)

    # ------------------------------------------------------------ stages, as soon as they are known

    def _report_layers(self, prefilled: m.Prefilled) -> None:
        for one in prefilled.stages:
            if one.stage != "logits":
                account = model_summaries.model_stage(one, self._ready.model, prefilled)
                self._stages.report(one.stage, account, self._after_start(one.started_ms), one.duration_ms)

    def _report_first_choice(self, step: m.Step) -> None:
        if self._prefilled is None:
            return
        spent = next((one for one in self._prefilled.stages if one.stage == "logits"), None)
        logits = model_summaries.logits(self._prefilled, self._tokenizer, self._ready.model["width"])
        started_ms = self._after_start(spent.started_ms) if spent else None
        self._stages.report("logits", logits, started_ms, spent.duration_ms if spent else None)
        self._stages.report("probabilities", model_summaries.probabilities(step), None, None)
        self._stages.report("sampling", model_summaries.sampling(step, self._request.sampling), None, step.sample_ms)

    def _report_step(self, held: _Held) -> None:
        step = held.step
        earlier = len(self._request.token_ids) - 1 + step.step  # positions before this step's newest
        first = step.step == 0 and self._prefilled is not None
        self._recording.trace(
            TraceStep,
            step=step.step,
            position=earlier + 1,
            token=step.token,
            token_text=step.token_text,
            text=step.text,
            held_bytes=step.held_bytes,
            raw_logprob=digits.of_number(step.raw_logprob),
            logprob=digits.of_number(step.logprob),
            rank=step.rank,
            entropy=digits.of_number(step.entropy),
            candidates=digits.of_candidates(step.candidates),
            ledger=digits.of_ledger(step.ledger),
            kv=KVState(
                num_blocks=step.num_blocks,
                rows_computed=self._prefilled.num_computed if first and self._prefilled else 1,
                rows_reused=self._prefilled.num_reused if first and self._prefilled else earlier,
            ),
            given=step.given,
            timing=StepTiming(
                round(held.at_ms, 3), round(step.forward_ms, 3), round(step.sample_ms, 3), step.batch_size
            ),
        )

    def _after_start(self, ms: float | None) -> float | None:
        return None if ms is None else self._sequence_started_ms + ms

    # ------------------------------------------------------------ stages that only the end completes

    def report_end(self, finish_reason: str) -> list[str]:
        """Stages 22-26. Returns those that had something to report."""
        ended = self.ended
        if ended is None or self._prefilled is None:
            return []
        first, last = (self._arrivals_ms[0], self._arrivals_ms[-1]) if self._arrivals_ms else (None, None)
        num_steps = len(self._token_ids)
        loop_ms = last - first if first is not None and last is not None else None
        self._stages.report("append", model_summaries.append(num_steps, finish_reason, ended.stop), first, loop_ms)
        self._stages.report("kv_cache", model_summaries.kv_cache(self._cache(ended, self._prefilled)), None, None)
        self._stages.report("detokenize", service_summaries.detokenize(self._detokenized()), None, None)
        safety = self._gate.report()
        if safety:
            self._stages.report("output_safety", service_summaries.output_safety(safety), None, self._gate.spent_ms)
        stream = self._stream()
        duration = self._chunks[-1].at_ms - self._chunks[0].at_ms if self._chunks else None
        self._stages.report("stream", service_summaries.stream(stream), stream.time_to_first_token_ms, duration)
        return ["append", "kv_cache", "detokenize", *(["output_safety"] if safety else []), "stream"]

    def _cache(self, ended: m.Ended, prefilled: m.Prefilled) -> model_reports.KVCacheReport:
        decode_steps = max(0, len(self._token_ids) - 1)
        num_prompt = len(self._request.token_ids)
        read = sum(num_prompt + step for step in range(decode_steps))
        return model_reports.KVCacheReport(
            block_size=self._ready.block_size,
            num_blocks=ended.num_blocks,
            num_blocks_total=self._ready.num_blocks,
            num_bytes=ended.num_bytes,
            num_prompt_tokens=num_prompt,
            num_prefix_tokens=ended.num_prefix_tokens,
            decoded_prefix=self._recording.decoded_prefix,
            rows_computed=prefilled.num_computed + decode_steps,
            rows_reused=prefilled.num_reused + read,
            prefill_ms=ended.prefill_ms,
            decode_ms=ended.decode_ms,
            num_decode_steps=decode_steps,
            decode_multiply_adds=ended.multiply_adds,
            decode_forward_ms=ended.forward_ms,
            decode_bytes_read=ended.bytes_read,
            gigabytes_per_second=1e-6 * ended.bytes_read / ended.forward_ms if ended.forward_ms else None,
            events=ended.events,
        )

    def _detokenized(self) -> model_reports.DetokenizeReport:
        spoken = [token for token in self._token_ids if not self._tokenizer.is_control(token)]
        return model_reports.DetokenizeReport(
            num_tokens=len(self._token_ids),
            num_bytes=sum(len(self._tokenizer.token_bytes(token)) for token in spoken),
            num_characters=len(self._recording.text),
            num_held_back=self._num_held_back,
        )

    def _stream(self) -> service_reports.StreamReport:
        gaps = [later - earlier for earlier, later in pairwise(self._arrivals_ms)]
        return service_reports.StreamReport(
            num_chunks=len(self._chunks),
            num_bytes=sum(chunk.num_bytes for chunk in self._chunks),
            time_to_first_token_ms=self.time_to_first_token_ms,
            inter_token_ms_median=median(gaps) if gaps else None,
            inter_token_ms_p95=quantiles(gaps, n=20)[-1] if len(gaps) > 1 else None,
            tokens_per_second=1000 * len(gaps) / sum(gaps) if gaps and sum(gaps) > 0 else None,
            end_to_end_ms=self._stages.elapsed_ms(),
        )
