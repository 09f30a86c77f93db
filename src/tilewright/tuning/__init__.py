"""The tuning engine: it searches for faster schedules of kernels by measuring candidates.

AutoTVM, auto_scheduler and meta_schedule are its faces: each defines spaces of its own, and has its classic names.

space       what the candidates of a kernel are: how they are drawn, changed, applied and written
task        a kernel, its target and its space
measure     builders and runners: from scheduled programs to times
building    the builder: libraries, compiled in processes of their own
running     runners: in a process of this machine, on boards, in a Ray cluster
log         files of records, a line of JSON each, that several processes append to
record      what was measured of a candidate
features    what cost models know of a program: a row of numbers for each statement that stores
cost_model  which programs are fast: an estimate, or trees that learn
search      which candidates to measure next
allocation  which task of a model to measure next
session     the loop: search, build, run, record
"""

from __future__ import annotations

from tilewright.support import lazy

lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
