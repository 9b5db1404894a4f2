"""One response while a worker runs it: its engine, its record, its holds and its stop."""
