"""What the engine process holds at work, beyond what it holds when idle."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.sides import prompt
from inference.messages import Ended, Generate, Sampling, Started
from inference.process import EngineProcess
from inference.settings import EngineSettings

SEQUENCES, LENGTH, ANSWER = 8, 1024, 24
MB = 1e6


def worker_memory(settings: EngineSettings) -> Figure:
    """Resident memory with eight recorded sequences of 1,024 tokens, minus idle, in the engine's own process."""
    used = asyncio.run(_difference(settings)) / MB
    return Figure("worker_memory_mb", used, (used, used), f"{SEQUENCES} recorded sequences of {LENGTH} tokens")


async def _difference(settings: EngineSettings) -> int:
    engine = await EngineProcess.start(replace(settings, threads=1))
    try:
        await engine.ready()
        idle = _resident(engine.pid)
        for number in range(SEQUENCES):
            await engine.send(_request(number))
        waiting = SEQUENCES
        async for message in engine:
            if isinstance(message, Started) and not message.recorded:
                raise RuntimeError(f"{message.response_id} was not recorded: WEBTRACE_TRACE_MEMORY is too small")
            if isinstance(message, Ended):
                waiting -= 1
                if message.error is not None:
                    raise RuntimeError(message.error)
            if not waiting:
                return _resident(engine.pid) - idle
    finally:
        await engine.stop()
    raise RuntimeError(engine.exit_reason)


def _request(number: int) -> Generate:
    sampling = Sampling(temperature=0, seed=0, max_tokens=ANSWER)
    token_ids = prompt(LENGTH - ANSWER, number)
    return Generate(f"long-{number}", token_ids, sampling, stop_token_ids=[], owner="bench", record=True)


def _resident(pid: int) -> int:
    """Bytes of a process's own memory that are in RAM (Linux); pages of files come and go as the system likes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"process {pid} tells no resident size")
