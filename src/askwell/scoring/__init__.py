"""A posterior, a pool and targets in; the score of every item, or the best items, out. Chunk by chunk.

    Search: posterior, pool, targets --> pieces of the pool --> chunks --> beliefs --> scores --> the best so far
                                          |           ^                                               |
                       checkpoint.py: done already?   '------------- the floor to beat --------------'

`search.py` is the question and the chunks, `items.py` the score of every item, `best.py` the race for the best, here
or on an engine, `checkpoint.py` what a stopped job has done.

>>> import askwell
>>> import numpy as np
>>> from sklearn.ensemble import RandomForestClassifier
>>> rng = np.random.default_rng(0)
>>> x, y = rng.normal(size=(40, 2)), np.arange(40) % 2
>>> posterior = askwell.as_model(RandomForestClassifier(50)).fit(x, y, rng=rng)
>>> pool, around = rng.normal(size=(500, 2)), rng.normal(size=(20, 2))
>>> scores = score_items(Search(posterior, pool, around), "epig")
>>> best, _ = best_items(Search(posterior, pool, around), "epig", 3)
>>> bool((np.sort(scores)[::-1][:3] == scores[best]).all())
True
"""

from askwell.scoring.best import Report, best_items
from askwell.scoring.items import flat_warning, score_items
from askwell.scoring.search import Search

__all__ = ["Report", "Search", "best_items", "flat_warning", "score_items"]
