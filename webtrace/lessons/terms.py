"""Technical terms that the page's sentences use, each in one sentence for who meets it for the first time."""

from __future__ import annotations

TERMS: dict[str, str] = {
    "attention": "The part of a layer in which a position reads from those before it, in shares that add up to one.",
    "byte": "Eight binary digits; a letter of English takes one, an emoji four or more.",
    "classifier": "A trained function that gives a text a score for each of some labels.",
    "cosine": "How far two vectors point the same way: 1 the same, 0 across, −1 opposite, whatever their lengths.",
    "dot product": "Two lists of numbers multiplied pair by pair, and the products added up.",
    "entropy": "How spread out probabilities are: 0 when one outcome is certain, larger the more are possible.",
    "exponential": "e to the power of a number: always positive, and growing fast.",
    "head": "One of several parts of attention that work side by side, each with numbers of its own.",
    "key": "The numbers by which a position can be found by the queries of later ones.",
    "layer": "One round of attention and feed-forward; a model has many, one after the other.",
    "logit": "A score for one token of the vocabulary, of any size and sign; softmax makes them probabilities.",
    "matrix": "A table of learned numbers; a vector multiplied with it becomes another vector.",
    "nat": "The unit of entropy with natural logarithms; 1 nat is about 1.44 bits.",
    "neuron": "One number inside the feed-forward part, with the weights that lead to it and from it.",
    "position": "A token's place in the text, counted from 0.",
    "query": "The numbers with which a position looks for what it needs from those before it.",
    "residual stream": "The numbers a position carries from layer to layer; each layer adds to them.",
    "seed": "A number that fixes all random draws of an answer: the same seed, the same draws.",
    "softmax": "Exponentials divided by their sum: any scores become shares that add up to one.",
    "step": "One run of the model that yields one token.",
    "template": "The fixed text around messages that tells the model who says what.",
    "token": "A piece of text that the model reads as one: a word, a part of one, or a mark.",
    "value": "The numbers that a position hands on to those that read from it.",
    "vector": "A list of numbers, seen as an arrow with a length and a direction.",
    "vocabulary": "All tokens that a model knows, each with a number.",
    "weight": "A number learned in training; or the share of attention that a position gets.",
}
