"""Formats of record values."""

from eagre.connectors.formats.base import Format
from eagre.connectors.formats.json import Json
from eagre.connectors.formats.raw import Bytes, String

__all__ = ["Bytes", "Format", "Json", "String"]
