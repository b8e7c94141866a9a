"""Models, and how they are reached."""
