"""Tables as text for people.  Whatever a model or a file wrote is made harmless on the way."""
