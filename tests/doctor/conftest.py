"""What the tests of the doctor share."""

from localjudge.types import VerdictRequest


def users_text(request: VerdictRequest) -> str:
    """All of a prompt that is not the judge's own wording."""
    return "\n".join(piece.text for node in request.path for piece in node if not piece.trusted)
