"""What all models of a cluster file have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Model(BaseModel):
    """What all models share: nothing in them changes, and a key that they do not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_keys_without_value(cls, data: Any) -> Any:
        """A key with nothing after its colon says as much as a key that is not there."""
        if not isinstance(data, dict):
            return data
        known = {str(field.validation_alias or name) for name, field in cls.model_fields.items()}
        return {key: value for key, value in data.items() if value is not None or key not in known}
