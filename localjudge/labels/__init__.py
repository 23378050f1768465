"""Labels by people: drawing, sheets, reading, corrected means, and figures of judges."""
