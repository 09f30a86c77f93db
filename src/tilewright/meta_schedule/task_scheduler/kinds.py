"""The order in which tasks are tuned."""

from __future__ import annotations

from random import Random

from tilewright.meta_schedule.task_scheduler.task_scheduler import TaskRecord, TaskScheduler


class RoundRobin(TaskScheduler, kind="round-robin"):
    """All tasks in turn."""

    def __init__(self) -> None:
        super().__init__()
        self._last = -1

    def next_task_id(self) -> int:
        self._last = self._next_in_turn(self._last)
        return self._last


class GradientBased(TaskScheduler, kind="gradient"):
    """The task whose next batch is expected to save most of the weighted time, once each had one.

    alpha: the weight of how fast its time fell in the last window_size batches; the rest is that of the fall that may still come, the time
    divided by the number of batches (Ansor, OSDI 2020, section 6.1). seed: of the choice among equals; -1 and None draw one.
    """

    def __init__(self, *, alpha: float = 0.2, window_size: int = 3, seed: int | None = -1) -> None:
        super().__init__()
        self.alpha, self.window_size = alpha, window_size
        self.random = Random(None if seed == -1 else seed)

    def next_task_id(self) -> int:
        for task_id in range(len(self.tasks_)):
            self.touch_task(task_id)
        waiting = [i for i, task in enumerate(self.tasks_) if not task.is_terminated]
        fresh = [i for i in waiting if not self.tasks_[i].best and self.tasks_[i].runner_futures is None]
        if fresh:
            return fresh[0]
        for task_id in waiting:
            if self.tasks_[task_id].runner_futures is not None:
                self.join_running_task(task_id)
        waiting = [i for i in waiting if not self.tasks_[i].is_terminated]
        gains = [self.gain(self.tasks_[i]) for i in waiting]
        best = [i for i, gain in zip(waiting, gains, strict=True) if gain == max(gains)]
        return self.random.choice(best) if best else -1

    def gain(self, task: TaskRecord) -> float:
        """Weighted seconds that the next batch may save; 0 for a task none of whose schedules ran."""
        if task.fastest == float("inf"):
            return 0.0
        rounds = len(task.best)
        before = task.best[-1 - self.window_size] if rounds > self.window_size else task.best[0]
        fell = (before - task.fastest) / self.window_size if before < float("inf") else task.fastest
        return task.task_weight * (self.alpha * fell + (1 - self.alpha) * task.fastest / rounds)
