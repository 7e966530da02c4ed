"""What trains the models that Stretto ships. Not part of the wheel."""
