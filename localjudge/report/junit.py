"""Gates as a JUnit XML file, which CI systems show as tests.

    pass                                   a test case
    fail, undecided that counts as missed  ... with <failure>
    undecided that counts as kept          ... with <skipped>
    the run did not finish                 ... with <error>

There is no standard; this is the part that Jenkins, GitLab, GitHub actions and pytest agree on. Characters that XML
cannot hold are written as visible escapes.
"""

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from localjudge.analysis.gates import Gate, GateDecision
from localjudge.printable import printable

_HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SUITE = "localjudge"
_NO_CHARACTERS = re.compile("[\ufffe\uffff]")


_Problem = tuple[str, str, str] | None
"""What a test case holds unless it passed: the element, its type and its message."""


def finished(decisions: Sequence[GateDecision], properties: Mapping[str, str]) -> str:
    """The file for a finished run. `properties` say which run that is."""
    return _document({decision.gate: _problem(decision) for decision in decisions}, properties)


def unfinished(gates: Sequence[Gate]) -> str:
    """The file to have in place while the run goes on: it must not be taken for an earlier one that passed."""
    problem = ("error", "unfinished", "the run did not finish")
    return _document({str(gate): problem for gate in gates}, {})


def _problem(decision: GateDecision) -> _Problem:
    if decision.outcome == "pass":
        return None
    return "skipped" if decision.kept else "failure", decision.outcome, decision.reason


def _document(cases: Mapping[str, _Problem], properties: Mapping[str, str]) -> str:
    elements = [problem[0] for problem in cases.values() if problem]
    counts = {
        "tests": str(len(cases)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
    }
    suites = ElementTree.Element("testsuites", {"name": _SUITE, **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _SUITE, **counts})
    if properties:
        holder = ElementTree.SubElement(suite, "properties")
        for name, value in properties.items():
            ElementTree.SubElement(holder, "property", {"name": name, "value": _legal(value)})
    for name, problem in cases.items():
        case = ElementTree.SubElement(suite, "testcase", {"classname": f"{_SUITE}.gates", "name": _legal(name)})
        if problem:
            element, kind, message = problem
            attributes = {"type": kind, "message": _legal(message)}
            ElementTree.SubElement(case, element, attributes).text = _legal(f"{name}: {message}")
    ElementTree.indent(suites)
    return f"{_HEADER}{ElementTree.tostring(suites, encoding='unicode')}\n"


def _legal(text: str) -> str:
    return _NO_CHARACTERS.sub(lambda match: f"\\u{ord(match.group()):04x}", printable(text))
