"""From what a task file says to records in the store."""
