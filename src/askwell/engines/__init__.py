"""Where work is done: in this process, in several of this machine, or on a Ray cluster; the answer is the same."""

from askwell.engines.local import Local, Serial
from askwell.engines.protocol import Engine, as_engine
from askwell.engines.ray import Ray

__all__ = ["Engine", "Local", "Ray", "Serial", "as_engine"]
