"""Training in this process, with callbacks."""
from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from . import _c
from ._detector import Setting, settings
from ._errors import STOPPED, DetrgraphError, Diagnostics


@dataclass(frozen=True)
class Step:
    step: int  # the one just finished, from 1
    steps: int  # of the run; 0: no end
    epoch: int
    epochs: int  # 0: the run's length is in steps
    loss: float
    terms: dict[str, float]  # of the loss
    images_per_s: float
    seconds_left: Optional[float]


@dataclass(frozen=True)
class Evaluation:
    scope: str
    step: int
    metrics: dict[str, float]  # -1: undefined, there is no object for it
    notes: tuple[str, ...]


class Callbacks:
    """Override what is of interest. An exception ends the run, after it has saved, and is raised by
    train()."""

    def on_step(self, step: Step) -> Optional[bool]:
        """After each step; False ends the run after it has saved."""
        return None

    def on_evaluation(self, evaluation: Evaluation) -> Optional[bool]:
        """After each evaluation; False ends the run after it has saved."""
        return None

    def on_log(self, level: str, line: str) -> None:
        """A line for people; level: "debug", "info" or "warning"."""


@dataclass(frozen=True)
class Trained:
    """A run that has ended."""

    folder: Path  # Detector(trained.folder) opens it
    step: int
    complete: bool  # False: it was stopped before its end, and resume=True continues
    evaluations: tuple[Evaluation, ...]


class _Bridge:
    """What C calls. Exceptions cannot pass through C: the first is kept, and the run stops."""

    def __init__(self, callbacks: Sequence[Callbacks]) -> None:
        self.callbacks = callbacks
        self.failure: Optional[BaseException] = None
        self.interrupts = 0
        self.stopping = False
        self.evaluations: list[Evaluation] = []
        # kept here: C has only their addresses
        self.stop = _c.STOP(self._stop)
        self.report = _c.REPORT(self._report)
        self.log = _c.LOG(self._log)

    def first(self) -> Optional[BaseException]:
        """What ended the run: a callback's exception or Ctrl-C."""
        return self.failure or (KeyboardInterrupt() if self.interrupts else None)

    def check(self, d: Diagnostics, status: int) -> None:
        """Raises an error of the library; it counts more than what ended the run before: nothing
        may have been saved."""
        try:
            d.check(status)
        except DetrgraphError as error:
            raise error from self.first()

    def _stop(self, ctx: object) -> int:
        # the second Ctrl-C does not wait for a save
        return 2 if self.interrupts > 1 else int(bool(self.interrupts or self.stopping))

    def _report(self, ctx: object, pointer: Any) -> None:
        try:
            r = pointer.contents
            values = {_c.string(r.names[i]): float(r.values[i]) for i in range(r.n)}
            if r.scope:
                notes = tuple(_c.string(r.notes[i]) for i in range(r.n_notes))
                evaluation = Evaluation(_c.string(r.scope), r.step, values, notes)
                self.evaluations.append(evaluation)
                said = [c.on_evaluation(evaluation) for c in self.callbacks]
            else:
                left = float(r.left_s) if r.left_s >= 0 else None
                step = Step(r.step, r.n_steps, r.epoch, r.n_epochs, r.loss, values,
                            r.images_per_s, left)
                said = [c.on_step(step) for c in self.callbacks]
            self.stopping = self.stopping or any(s is False for s in said)
        except BaseException as e:  # noqa: B902: every one is raised again by train()
            self.failure = self.failure or e
            self.stopping = True

    def _log(self, ctx: object, level: int, line: bytes) -> None:
        try:
            for c in self.callbacks:
                c.on_log(("debug", "info", "warning")[level], _c.string(line))
        except BaseException as e:  # noqa: B902
            self.failure = self.failure or e
            self.stopping = True

    @contextmanager
    def interrupts_counted(self) -> Iterator[None]:
        """Ctrl-C ends the run after its step instead of breaking into a callback. Only the main
        thread may ask for that; in others Ctrl-C reaches the main thread as ever. A handler of C
        code stays: Python could not put it back."""
        if (threading.current_thread() is not threading.main_thread()
                or signal.getsignal(signal.SIGINT) is None):
            yield
            return

        def count(number: int, frame: object) -> None:
            self.interrupts += 1

        before = signal.signal(signal.SIGINT, count)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def train(pipeline: Union[str, "os.PathLike[str]"],
          callbacks: Union[Callbacks, Sequence[Callbacks]] = (), *,
          out: Optional[Union[str, "os.PathLike[str]"]] = None,
          sets: Optional[Mapping[str, Setting]] = None, resume: bool = False, force: bool = False,
          steps: int = 0, minutes: float = 0, precision: Optional[str] = None,
          device: Optional[str] = None, threads: int = 0, seed: Optional[int] = None) -> Trained:
    """Trains a pipeline in this process, as one rank, into the folder `out`: without it that of
    <checkpoint to="...">, else runs/NAME.

    resume: continues from the newest checkpoint in out. force: deletes what a run left there.
    steps, minutes: ends after so many (0: as the pipeline says). Ctrl-C finishes the step, saves,
    and raises KeyboardInterrupt; a second one does not wait for the save.
    """
    if steps < 0 or not minutes >= 0:
        raise ValueError(f"steps {steps}, minutes {minutes}: numbers from 0 on are expected")
    if seed is not None and not 0 <= seed < 1 << 64:
        raise ValueError(f"seed {seed}: a number from 0 to 2^64 - 1 is expected")
    library = _c.library()
    file = os.fspath(pipeline)
    bridge = _Bridge([callbacks] if isinstance(callbacks, Callbacks) else list(callbacks))
    given = settings(sets or {})
    run = ctypes.c_void_p()
    options = _c.RunOptions(
        size=ctypes.sizeof(_c.RunOptions), file=_c.text(file), n_sets=len(given),
        sets=_c.texts(given), precision=_c.text(precision), program=b"detrgraph for Python",
        threads=_c.take_threads(threads), has_seed=seed is not None, seed=seed or 0,
        log=bridge.log, device=_c.text(device),
        resumes=_c.text(str(out) if out is not None else "") if resume else None)
    with Diagnostics() as d:
        try:
            bridge.check(d, library.dg_run_open(ctypes.byref(run), ctypes.byref(options),
                                                d.pointer))
            if bridge.failure:
                raise bridge.failure
            named = _c.string(library.dg_run_folder(run))
            folder = Path(out if out is not None else named or Path("runs") / Path(file).stem)
            how = _c.TrainOptions(
                size=ctypes.sizeof(_c.TrainOptions), out=_c.text(str(folder)), force=force,
                resume=1 if resume else 0, steps=steps, max_minutes=minutes, stop=bridge.stop,
                report=bridge.report)
            with bridge.interrupts_counted():
                status = library.dg_run_train(run, ctypes.byref(how), d.pointer)
            step = int(library.dg_run_step_number(run))
        finally:
            if run:
                library.dg_run_close(ctypes.byref(run))
        if status != STOPPED:
            bridge.check(d, status)
        first = bridge.first()
        if first:
            raise first
    return Trained(folder, step, status != STOPPED, tuple(bridge.evaluations))
