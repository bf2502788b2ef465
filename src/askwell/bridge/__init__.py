"""The bridge: other people's labelling tools in front of an askwell project. So far: Label Studio.

```
Label Studio --client--> documents --records--> the project's store      annotations become labels
Session.next ----------> label_studio --client--> Label Studio           questions become tasks, best first
```

It knows the rest of askwell by its public face only: the session and the vocabulary of its log, the store's protocol,
and items as people see them (kept by a test), so that it could live in a package of its own.
"""

from askwell.bridge.client import LabelStudio, RefusedError, UnreachableError
from askwell.bridge.label_studio import Bridge, SyncReport

__all__ = ["Bridge", "LabelStudio", "RefusedError", "SyncReport", "UnreachableError"]
