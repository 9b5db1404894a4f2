"""The one refusal of everything that reads a checkpoint."""


class UnsupportedCheckpoint(ValueError):
    """The file asks for something this decoder does not do; the message names the feature."""
