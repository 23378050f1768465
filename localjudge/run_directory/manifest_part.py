"""The base of all parts of a manifest."""

from typing import Any, Self

from pydantic import SerializerFunctionWrapHandler, model_serializer

from localjudge.types import Record


class ManifestPart(Record, extra="allow", strict=True):
    """Part of a manifest. Fields without a value are not written, so they are not signed either.

    Engines and metrics add fields, which follow the declared ones.
    """

    @model_serializer(mode="wrap")
    def _only_set_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = serialize(self)
        return {name: value for name, value in values.items() if name in self.model_fields_set}

    @property
    def as_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values, which are validated."""
        present = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**present, **values})
