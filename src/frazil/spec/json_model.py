"""Convert classes of the format to JSON text and back under pydantic's names, as in PyIceberg:
`model_dump_json()`, `model_validate_json(text)`."""

from __future__ import annotations

from typing import Any, Self

from frazil.spec.on_demand import on_demand

_CODEC = "codec.model_json"


class JsonModel:
    """Provide a class of the format with its JSON form. Optional members that are not set are left
    out; names are the spec's (`schema-id`)."""

    __slots__ = ()

    def model_dump(self) -> Any:
        """Return the JSON form as Python objects."""
        return on_demand(_CODEC, "to_object")(self)

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """Return the JSON form as text, on one line unless `indent` is given."""
        text: str = on_demand(_CODEC, "to_text")(self, indent)
        return text

    @classmethod
    def model_validate(cls, obj: object) -> Self:
        """Make the object from its parsed JSON form. Raises CorruptData, ValidationError."""
        model: Self = on_demand(_CODEC, "from_object")(cls, obj)
        return model

    @classmethod
    def model_validate_json(cls, json_data: str | bytes) -> Self:
        """Parse the object from JSON text. Raises ParseError for text that is not JSON,
        CorruptData, ValidationError.
        """
        model: Self = on_demand(_CODEC, "from_text")(cls, json_data)
        return model
