"""The version of this package, which is the version of the agent that it was made with."""

VERSION = "0.1.0"
