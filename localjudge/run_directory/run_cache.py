"""Keep results computed from a run while this run is in use, and no longer."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from localjudge.run_directory.run_record import RunRecord

_RESULTS_EACH = 8
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def cached_by_run(
    compute: Callable[Concatenate[RunRecord, _Arguments], _Result],
) -> Callable[Concatenate[RunRecord, _Arguments], _Result]:
    """Remember the last results for each run, by the other arguments, which must be hashable.

    Unlike with `lru_cache`, a run and its temporary folder can be freed.
    """
    results_by_run: WeakKeyDictionary[RunRecord, OrderedDict[Hashable, _Result]] = (
        WeakKeyDictionary()
    )

    @wraps(compute)
    def cached(
        run: RunRecord, /, *arguments: _Arguments.args, **options: _Arguments.kwargs
    ) -> _Result:
        results = results_by_run.setdefault(run, OrderedDict())
        key = (arguments, tuple(sorted(options.items())))
        if key not in results:
            results[key] = compute(run, *arguments, **options)
        results.move_to_end(key)
        while len(results) > _RESULTS_EACH:
            results.popitem(last=False)
        return results[key]

    return cached
