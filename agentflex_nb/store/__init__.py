"""Keeps turns: in memory, in SQLite while they live, in DuckDB for good and for questions."""
