"""Records in, statements out: comparisons, and gates that are kept or missed."""
