"""Where work is done: in this process, in several of this machine, or on a Ray cluster; the answer is the same.

    jobs --> engine.run(function, jobs, told=..., hint=...) --> [error or None of each job]
                 |  function(job, tell, hint)  in whatever process
                 '-- told(number of the job, message)  here, for each tell(message) there

`Serial` is a loop, `Local` the processes of `askwell.workers`, `Ray` a cluster's tasks.
"""

from askwell.engines.local import Engine, Local, Serial, as_engine
from askwell.engines.ray import Ray

__all__ = ["Engine", "Local", "Ray", "Serial", "as_engine"]
