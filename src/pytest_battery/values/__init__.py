"""What a battery is made of: frozen values, no input or output."""
