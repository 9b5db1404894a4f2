"""One decoder per kernel for the whole run."""

import os
from pathlib import Path

import pytest

from inference.checkpoint import Checkpoint, load_checkpoint
from inference.model.decoder import Decoder
from tests.inference.watched import Run, watched_run

DATA = Path(os.environ.get("WEBTRACE_DATA", Path(__file__).parents[2] / "data"))
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="session")
def checkpoint() -> Checkpoint:
    path = DATA / "models" / MODEL
    if not path.exists():
        pytest.fail(f"{MODEL} is not in {DATA / 'models'}: run `make run` once, or set WEBTRACE_DATA")
    return load_checkpoint(path)


@pytest.fixture(scope="session")
def decoder_float32(checkpoint: Checkpoint) -> Decoder:
    return Decoder.load(checkpoint, device="cpu", kernel="float32")


@pytest.fixture(scope="session")
def decoder_int4(checkpoint: Checkpoint) -> Decoder:
    return Decoder.load(checkpoint, device="cpu", kernel="int4")


@pytest.fixture(scope="session")
def decoder_native(checkpoint: Checkpoint) -> Decoder:
    return Decoder.load(checkpoint, device="cpu", kernel="native")


@pytest.fixture(scope="session")
def watched_float32(decoder_float32: Decoder) -> Run:
    return watched_run(decoder_float32)


@pytest.fixture(scope="session")
def watched_int4(decoder_int4: Decoder) -> Run:
    return watched_run(decoder_int4)


@pytest.fixture(scope="session")
def watched_native(decoder_native: Decoder) -> Run:
    return watched_run(decoder_native)


@pytest.fixture(params=["float32", "int4", "native"])
def any_run(request: pytest.FixtureRequest) -> Run:
    """The same text by each kernel."""
    run: Run = request.getfixturevalue(f"watched_{request.param}")
    return run
