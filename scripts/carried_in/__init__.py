"""The parts of `scripts/wheelhouse`: localjudge, what it needs and its judges in one folder that needs no network."""
