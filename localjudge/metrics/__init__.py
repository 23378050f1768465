"""One file, one definition: its questions and its arithmetic. `catalog` is the one table of them."""
