"""How the service would decide about texts it has never seen: measuring sets of harmless texts, the held-out fifth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from inference.classifier import Classifier, UnreadableHeads
from inference.settings import EngineSettings
from webtrace.safety.dataset import EVERYDAY, HARMFUL, LOOK_ALIKES, BadExamples, load_examples, split
from webtrace.safety.decisions import Judgement


class Command(BaseCommand):
    help = (
        "Decide about everyday sentences, harmless look-alikes and held-out examples, with the trained heads and rules."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        # Here, not above: torch, which no other part of the web process imports.
        from inference.encoder import Encoder
        from webtrace.safety.offline import judge_inputs, judge_outputs

        engine = EngineSettings.from_environment()
        try:
            encoder = Encoder.load(engine.encoder)
            classifier = Classifier.load(engine.safety_heads)
            everyday = [example.text for example in load_examples(files=[EVERYDAY])]
            look_alikes = [example.text for example in load_examples(files=[LOOK_ALIKES])]
            examples = load_examples()
        except (BadExamples, UnreadableHeads, OSError) as error:
            raise CommandError(str(error)) from error
        held_out = [examples[index] for index in split(examples).held_out]
        harmless = [example.text for example in held_out if example.label not in HARMFUL]
        harmful = [example.text for example in held_out if example.label in HARMFUL]
        groups = {
            "Everyday sentences": (everyday, judge_inputs),
            "Everyday sentences in an answer": (everyday, judge_outputs),
            "Harmless look-alikes": (look_alikes, judge_inputs),
            "Held out, harmless": (harmless, judge_inputs),
            "Held out, harmful": (harmful, judge_inputs),
            "Held out, harmful, in an answer": (harmful, judge_outputs),
        }
        for name, (texts, judge) in groups.items():
            self._print(name, texts, judge(encoder, classifier, texts))

    def _print(self, name: str, texts: Sequence[str], judgements: Sequence[Judgement]) -> None:
        stopped = sum(not judgement.passes for judgement in judgements)
        counts = ", ".join(f"{decision} {n}" for decision, n in Counter(j.decision for j in judgements).most_common())
        self.stdout.write(f"\n{name}: {stopped} of {len(texts)} do not pass ({stopped / len(texts):.1%}); {counts}")
        # Shown are the minority: what went wrong in a group that should all go one way.
        wrong = stopped <= len(texts) / 2
        for text, judgement in zip(texts, judgements, strict=True):
            if judgement.passes != wrong:
                self.stdout.write(f"  {judgement.decision:9} {text!r}: {judgement.reason}")
