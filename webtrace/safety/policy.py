"""The sentences safety speaks: answers given instead of the model's, and what it adds to the instructions."""

REFUSAL = (
    "I won't help to threaten or hurt anyone. If somebody is in danger, please call your local emergency number. "
    "If you are angry with someone, I can help you find words that don't frighten them."
)
NO_WEAPON = (
    "I won't explain how to make something that kills or maims. I can tell you about its history, or how such things "
    "are found and made harmless. If somebody plans to hurt people, please call your local emergency number."
)
KINDNESS = (
    "I'd rather not put anyone down. I can help you say what bothers you in a firm and fair way, or write a joke "
    "that the person themselves would laugh at."
)
SELF_HARM = (
    "I'm sorry that it's this hard right now. I'm a small language model and no help in an emergency, but people are: "
    "if you might hurt yourself, please call your local emergency number or a crisis line now, or go to someone "
    "you trust and tell them what you told me."
)
REVIEW = (
    "This request has been set aside for a person to look at, so there is no answer to it here. "
    "Asking about something else works as usual."
)

GOOD_NATURED = "Keep the answer good-natured: no threats, and nothing that demeans a particular person."
NO_CARD_NUMBER = "The message contains a payment card number. Do not repeat it."
