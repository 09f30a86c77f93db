"""Reports of a task scheduler: tables of tasks, and the time of the model."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from tilewright.auto_scheduler import classic_log

if TYPE_CHECKING:
    from tilewright.auto_scheduler.task_scheduler import TaskScheduler


class TaskSchedulerCallback:
    """What is told before and after each round of a task scheduler."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Before a round of a task."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """After a round of a task."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints what each task reached, before each round."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        s = task_scheduler
        wide = max([16, *[len(t.desc or t.workload_key) for t in s.tasks]])
        line = "-" * (wide + 61)
        rows = [line, f"|  ID  | {'Task Description':^{wide}} | Latency (ms) | Speed (GFLOPS) | Trials |", line]
        for i, task in enumerate(s.tasks):
            known = s.best_costs[i] < classic_log.FAILED
            latency = f"{1e3 * s.best_costs[i]:.3f}" if known else "-"
            speed = f"{task.compute_dag.flop_ct / s.best_costs[i] / 1e9:.2f}" if known else "-"
            done = s.task_trials[i]
            rows.append(
                f"| {i:>4} | {task.desc or task.workload_key:>{wide}} | {latency:>12} | {speed:>14} | {done:>6} |"
            )
        total = f"{1e3 * s.cur_score:.3f}" if all([c < classic_log.FAILED for c in s.best_costs]) else "-"
        rows += [
            line,
            f"Estimated total latency: {total} ms\tTrials: {s.ct}\tUsed time : {time.time() - s.tic:.0f} s\tNext ID: {task_id}\t",
        ]
        print("\n".join(rows), flush=True)


class LogEstimatedLatency(TaskSchedulerCallback):
    """Appends the objective after each round to a file, which is begun anew."""

    def __init__(self, log_file: str | os.PathLike[str]) -> None:
        self.log_file = log_file
        if os.path.exists(log_file):
            os.remove(log_file)

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        s = task_scheduler
        known = all([cost < classic_log.FAILED for cost in s.best_costs])
        total = f"{1e3 * s.cur_score:.3f}" if known else "N/A"
        with open(self.log_file, "a") as file:
            file.write(f"ElapsedTime(s)\t{time.time() - s.tic:.0f}\tEstimatedLatency(ms)\t{total}\tTrials\t{s.ct}\n")
