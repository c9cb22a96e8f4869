"""Nouns as JSON text and back under pydantic's names, which PyIceberg's users know: `model_dump_json()`, `model_validate_json(text)`."""

from __future__ import annotations

from typing import Any, Self

from frazil.spec.above import from_above

_CODEC = "codec.model_json"


class JsonModel:
    """A noun that the spec gives a JSON form. Optional members that are not set are left out, names are the spec's (`schema-id`)."""

    __slots__ = ()

    def model_dump(self) -> Any:
        """The JSON form as Python objects."""
        return from_above(_CODEC, "to_object")(self)

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """The JSON form as text, on one line unless `indent` is given."""
        text: str = from_above(_CODEC, "to_text")(self, indent)
        return text

    @classmethod
    def model_validate(cls, obj: Any) -> Self:
        """The noun of a JSON form that is parsed already. Raises CorruptData, ValidationError."""
        noun: Self = from_above(_CODEC, "from_object")(cls, obj)
        return noun

    @classmethod
    def model_validate_json(cls, json_data: str | bytes) -> Self:
        """The noun of a JSON text. Raises ParseError for what is no JSON, CorruptData, ValidationError."""
        noun: Self = from_above(_CODEC, "from_text")(cls, json_data)
        return noun
