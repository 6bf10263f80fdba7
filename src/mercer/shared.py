"""One model for several threads: many ask it at once, and who teaches it is alone."""

from __future__ import annotations

import copy
import inspect
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from threading import Condition, get_ident
from typing import Any

from mercer.threads import WITH_LOCKS

__all__ = ["SharedModel"]

# Beginnings of the names of methods that change the model, or need all of it at rest.
_ALONE = ("fit", "partial_fit", "learn", "set_", "calibrate", "find_level", "save", "to_state")
_OWN = "_model", "_turns", "_changed"


@dataclass(eq=False)
class _Turn:
    thread: int
    writes: bool


class SharedModel:
    """Share a model among threads, one of which may teach it while others ask.

    A model alone may be asked by several threads at once, but not while another thread teaches it:
    parts of an answer would be of different states. Through this object, each call of a method sees
    the model between two calls that change it. Calls that ask go on at the same time; calls that
    change it (``fit``, ``partial_fit``, ``learn_one``, ``set_params``, ``calibrate``) or take all
    of it (``save``, copies, pickles) are alone. All take their turns in the order in which they
    come, so that nobody is overtaken.

    All methods and attributes of the model are available here. A copy or a pickle holds a copy of
    the model. Processes share nothing: each has a model of its own. A forked one has it as it was
    at that moment, and nobody's turns: fork within :meth:`writing`, so that the model is at rest.

    Parameters
    ----------
    model : estimator
        Model to share; threads use it only through this object from now on.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from mercer import KernelRegressor, SharedModel
    >>> X = np.linspace(-3, 3, 400)[:, np.newaxis]
    >>> y = np.sin(X[:, 0])
    >>> model = SharedModel(KernelRegressor().partial_fit(X[::2], y[::2]))
    >>> with ThreadPoolExecutor() as pool:
    ...     learned = pool.submit(model.partial_fit, X[1::2], y[1::2])
    ...     answers = [pool.submit(model.predict, X[:1]) for _ in range(4)]
    >>> {answer.result().shape for answer in answers}
    {(1,)}
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._forked()
        WITH_LOCKS.add(self)

    def _forked(self) -> None:
        self._turns: deque[_Turn] = deque()  # active and waiting ones, as they came
        self._changed = Condition()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Context in which nobody changes the model, which it gives.

        Several calls in it are answered by one state. Threads that you wait for inside must take
        the model that is given here: through this object they may wait for you.
        """
        with self._turn(writes=False):
            yield self._model

    @contextmanager
    def writing(self) -> Iterator[Any]:
        """Context in which nobody else uses the model, which it gives.

        It is also for functions that take or copy a whole model, such as :func:`mercer.compact`.
        Threads that you wait for inside must take the model that is given here.

        Raises
        ------
        RuntimeError
            Within :meth:`reading` of the same thread, which would wait for itself.
        """
        with self._turn(writes=True):
            yield self._model

    @contextmanager
    def _turn(self, *, writes: bool) -> Iterator[None]:
        mine = _Turn(get_ident(), writes)
        with self._changed:
            outer = next((turn for turn in self._turns if turn.thread == mine.thread), None)
        if outer is not None:
            if writes and not outer.writes:
                raise RuntimeError(
                    "This thread reads the model, so it cannot change or copy it: it would wait "
                    "for itself. End `reading()` before, or begin with `writing()`."
                )
            yield
            return
        try:
            with self._changed:
                self._turns.append(mine)
                self._changed.wait_for(lambda: self._may_begin(mine))
            yield
        finally:  # also after Ctrl-C while it waited
            with self._changed:
                if mine in self._turns:
                    self._turns.remove(mine)
                self._changed.notify_all()

    def _may_begin(self, mine: _Turn) -> bool:
        if mine.writes:
            return self._turns[0] is mine
        before = iter(self._turns)
        return not any(turn.writes for turn in iter(lambda: next(before), mine))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            super().__setattr__(name, value)
        else:
            with self._turn(writes=True):
                setattr(self._model, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:  # asked for before `__init__`
            raise AttributeError(name)
        with self._turn(writes=False):
            value = getattr(self._model, name)
        if not inspect.isroutine(value):
            return value
        writes = name.startswith(_ALONE)

        @wraps(value)
        def in_turn(*args: Any, **kwargs: Any) -> Any:
            with self._turn(writes=writes):
                answer = value(*args, **kwargs)
            return self if answer is self._model else answer

        return in_turn

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._model)})

    def __repr__(self) -> str:
        with self._turn(writes=False):
            return f"SharedModel({self._model!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        with self._turn(writes=True):
            return SharedModel, (copy.deepcopy(self._model),)
