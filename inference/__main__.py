"""`python -m inference "Tell me a political joke"`: one answer on the command line, from the same engine."""

from __future__ import annotations

import argparse
import logging
import secrets
import sys
from dataclasses import replace
from pathlib import Path

from inference.checkpoint import UnsupportedCheckpoint
from inference.checkpoint.sampling_defaults import Defaults, sampling_defaults
from inference.engine import Engine
from inference.machine import load_engine
from inference.messages import AskedSampling, Ended, Generate, Sampling, Started, Step, Steps
from inference.parameters import validate
from inference.settings import BadSetting, EngineSettings
from inference.text import ChatTemplate, Message

RESPONSE = "cli"


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m inference", description=__doc__)
    options.add_argument("prompt", help="what to say to the model")
    options.add_argument("--system", help="a system prompt in place of the template's own")
    options.add_argument("--raw", action="store_true", help="complete the prompt itself, without the chat template")
    options.add_argument("--temperature", type=float, help="0 is greedy")
    options.add_argument("--top-k", type=int, help="0 is off")
    options.add_argument("--top-p", type=float, help="1 is off")
    options.add_argument("--min-p", type=float, help="0 is off")
    options.add_argument("--repetition-penalty", type=float, help="1 is off")
    options.add_argument("--seed", type=int, help="the same seed gives the same answer")
    options.add_argument("--max-tokens", type=int)
    options.add_argument("--stop", action="append", default=[], help="a string that ends the answer (repeatable)")
    options.add_argument("--model", type=Path, help="a GGUF file or a Hugging Face folder")
    options.add_argument("--kernel", help="auto, float32, bfloat16, int8, int4 or native")
    options.add_argument("--trace", action="store_true", help="the best candidates of every step")
    return options


def prompt_ids(engine: Engine, arguments: argparse.Namespace) -> list[int]:
    if arguments.raw:
        return engine.tokenizer.encode_raw(arguments.prompt)
    messages = [Message.of("user", arguments.prompt)]
    if arguments.system is not None:
        messages.insert(0, Message.of("system", arguments.system))
    segments = ChatTemplate(engine.tokenizer).render(messages)
    return [token for segment in segments for token in segment.token_ids]


def sampling_of(arguments: argparse.Namespace, defaults: Defaults) -> Sampling:
    """What is not said is as the checkpoint states it."""
    asked = AskedSampling(
        repetition_penalty=arguments.repetition_penalty,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        seed=secrets.randbits(32) if arguments.seed is None else arguments.seed,
        max_tokens=arguments.max_tokens,
        stop=arguments.stop,
    )
    return asked.over(Sampling(**defaults))  # type: ignore[arg-type]


def show(step: Step) -> None:
    """One step with its candidates: probability by the raw softmax, and after all filters."""
    print(f"{step.step:4d} {step.token_text!r}  rank {step.rank}  logprob {step.raw_logprob:.3f}")
    for row in step.candidates:
        print(f"       {row.raw_probability:8.4f} {row.probability:8.4f}  {row.text!r}")


def answer(engine: Engine, request: Generate, trace: bool) -> int:
    """Prints the answer as it comes; returns the exit status."""
    engine.submit(request)
    end: Ended | None = None
    while engine.has_work:
        for message in engine.step():
            match message:
                case Started() if message.max_tokens < request.sampling.max_tokens:
                    print(f"The context has room for {message.max_tokens} tokens.", file=sys.stderr)
                case Steps() if trace:
                    for step in message.items:
                        show(step)
                case Steps():
                    print("".join(step.text for step in message.items), end="", flush=True)
                case Ended():
                    end = message
    assert end is not None
    if end.error is not None:
        print(end.error, file=sys.stderr)
        return 1
    print(end.text if not trace else "")
    rate = 1e3 * (len(end.token_ids) - 1) / end.decode_ms if end.decode_ms else 0
    print(
        f"{end.num_prompt_tokens} tokens read in {end.prefill_ms:.0f} ms, {len(end.token_ids)} generated "
        f"({rate:.1f}/s), seed {request.sampling.seed}, ended by {end.stop or end.finish}",
        file=sys.stderr,
    )
    return 0


def main() -> int:
    arguments = parser().parse_args()
    logging.basicConfig(level=logging.WARNING)
    try:
        settings = EngineSettings.all_from_environment()[0]
        settings = replace(
            settings, model=arguments.model or settings.model, kernel=arguments.kernel or settings.kernel
        )
        sampling = sampling_of(arguments, sampling_defaults(settings.model))
        engine = load_engine(settings)
        token_ids = prompt_ids(engine, arguments)
    except (BadSetting, UnsupportedCheckpoint, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if errors := validate(sampling, len(engine.tokenizer)):
        print("\n".join(f"{error.field}: {error.message}" for error in errors), file=sys.stderr)
        return 2
    request = Generate(RESPONSE, token_ids, sampling, engine.tokenizer.end_ids, owner=RESPONSE, record=False)
    return answer(engine, request, arguments.trace)


if __name__ == "__main__":
    sys.exit(main())
