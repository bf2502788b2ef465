"""The bridge: other people's labelling tools in front of an askwell project. So far: Label Studio."""

from askwell.bridge.client import LabelStudio, RefusedError, UnreachableError
from askwell.bridge.label_studio import Bridge
from askwell.bridge.passes import Pass

__all__ = ["Bridge", "LabelStudio", "Pass", "RefusedError", "UnreachableError"]
