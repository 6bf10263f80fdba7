"""Fitted models as command, server and reports see them: their files, answers and measures."""
