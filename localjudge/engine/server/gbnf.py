r"""A grammar for one line of a reason, in llama.cpp's notation (GBNF), for a server that writes it.

    root ::= ([^"\\\x00-\x1F\x7F-\x9F] | "\\" ["\\/bfnrt])+ "\""        ended by a quotation mark, inside JSON
    root ::= [^\[\x00-\x1F\x7F-\x9F]+ "["                              ended by another character

It may allow more than the answer's own grammar: each token that comes back is held against that.
"""

_CONTROLS = "\\x00-\\x1F\\x7F-\\x9F"
_QUOTE = '"'
_ESCAPED = frozenset('"\\[]^-')


def one_line(end: str) -> str:
    """At least one character, and then the one that ends it."""
    inside_class = f"\\{end}" if end in _ESCAPED else end
    literal = f"\\{end}" if end in '"\\' else end
    if end == _QUOTE:
        return f'root ::= ([^"\\\\{_CONTROLS}] | "\\\\" ["\\\\/bfnrt])+ "{literal}"'
    return f'root ::= [^{inside_class}{_CONTROLS}]+ "{literal}"'
