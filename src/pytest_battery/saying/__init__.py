"""What can be said of the records: gaps, verdicts, and their rendering.  Computes only; reads and writes nothing."""
