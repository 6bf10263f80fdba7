"""Columns of tables: what each one is, how its cells are read, and which inputs it becomes."""

from mercer.columns.audit import ColumnAudit, TableAudit
from mercer.columns.preprocessing import TablePreprocessor
from mercer.columns.tasks import TaskGuess, guess_task, infer_task

__all__ = [
    "ColumnAudit",
    "TableAudit",
    "TablePreprocessor",
    "TaskGuess",
    "guess_task",
    "infer_task",
]
