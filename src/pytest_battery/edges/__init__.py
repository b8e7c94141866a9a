"""One outside thing each; siblings here don't know each other."""
