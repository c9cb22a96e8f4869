"""Read and re-encode the schema in a Parquet footer: add the field ids that Spark leaves out and
the annotations that pyarrow leaves out.

Spark's writer gives ids only to members of structs, and pyarrow cannot annotate VARIANT, GEOMETRY
and GEOGRAPHY. Other readers need both, and rewriting the footer alone is cheap: column data stays
where it is (docs/adr/0019). A footer is Thrift's compact protocol (parquet.thrift, FileMetaData and
SchemaElement). Only its second field, the schema, is decoded; the bytes around it are copied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from frazil.errors import CorruptData
from frazil.spec.schema import Schema
from frazil.spec.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    VariantType,
    children,
)

MAGIC = b"PAR1"
_I32, _BINARY, LIST, STRUCT = 5, 8, 9, 12
_TYPE, _NAME, _CHILDREN, _CONVERTED_TYPE, _PRECISION, _FIELD_ID = 1, 4, 5, 6, 8, 9
# numbers of a column's physical type, and of its converted type
INT32, INT64, INT96, BYTE_ARRAY = 1, 2, 3, 6
TIMESTAMP_MICROS = 10  # in UTC
# numbers of a column's logical type; that of Arrow's null type is called unknown
_TIMESTAMP, UNKNOWN = 8, 11
_NANOSECONDS = b"\x3c"  # the head of the third field, a struct
_DEEPEST = 64
_LOGICAL_TYPE = 10
_EDGES = ("spherical", "vincenty", "thomas", "andoyer", "karney")


@dataclass(frozen=True)
class ParquetNode:
    """Hold a column or group of a file's schema. `field_id` None: the file has none. `physical`:
    Parquet's type number, None for groups.
    """

    name: str
    field_id: int | None = None
    physical: int | None = None
    children: tuple[ParquetNode, ...] = ()
    # (number, kind, bytes) of Thrift fields that are copied
    others: tuple[tuple[int, int, bytes], ...] = field(default=(), repr=False)

    @property
    def converted_type(self) -> int | None:
        return self._number(_CONVERTED_TYPE)

    @property
    def precision(self) -> int | None:
        """Return the digits of a decimal; None for other types."""
        return self._number(_PRECISION)

    @property
    def logical_type(self) -> int | None:
        """Return the number of the logical type; None: the column has none."""
        logical = self._logical
        return logical[0] >> 4 if logical else None

    @property
    def is_in_nanoseconds(self) -> bool:
        """Tell whether the column holds timestamps in nanoseconds: the fields of its logical type
        are a flag, of which Thrift writes the head only, and the unit.
        """
        return self.logical_type == _TIMESTAMP and self._logical[3:4] == _NANOSECONDS

    @property
    def _logical(self) -> bytes:
        return next((value for number, _, value in self.others if number == _LOGICAL_TYPE), b"")

    def _number(self, wanted: int) -> int | None:
        """Return a small number of the schema element, a zigzag varint of one byte."""
        return next((value[0] >> 1 for number, _, value in self.others if number == wanted), None)

    def walk(self) -> Iterator[ParquetNode]:
        """List the node and all below it, depth first, as a footer lists them."""
        yield self
        for child in self.children:
            yield from child.walk()


# in a column's metadata: the codec, field 4 of type i32, is BROTLI, and a field of type i64 follows
_BROTLI = b"\x15\x08\x16"


def may_be_brotli(footer: Footer) -> bool:
    """Tell quickly whether columns of a file may be compressed by brotli. It may say yes by mistake
    (statistics may hold such bytes), never no.
    """
    return _BROTLI in footer.after


def file_name(name: str) -> str:
    """Return a column's name as Java Iceberg spells it in files: a character that it takes to be
    none of Avro's becomes `_x` and its code (a dot is `_x2E`). Java looks at UTF-16 units."""
    units = name.encode("utf-16-be", "surrogatepass")
    out = []
    for position in range(0, len(units), 2):
        code = int.from_bytes(units[position : position + 2], "big")
        character = chr(code)
        if character == "_" or character.isalpha() or (position and character.isdecimal()):
            out.append(character)
        else:
            out.append(f"_{character}" if character.isdecimal() else f"_x{code:X}")
    return "".join(out)


@dataclass(frozen=True)
class Footer:
    """Hold the schema of a file and the bytes of its footer before and after the schema."""

    root: ParquetNode
    before: bytes = field(repr=False)
    after: bytes = field(repr=False)

    def encode(self) -> bytes:
        return self.before + self.schema + self.after

    @property
    def schema(self) -> bytes:
        elements = list(self.root.walk())
        return list_head(len(elements)) + b"".join(map(_encoded, elements))


def read_footer(source: BinaryIO, size: int, file: str) -> Footer:
    """Read the footer of an open Parquet file of `size` bytes. Raises CorruptData when there is
    none or it is damaged.
    """
    source.seek(max(0, size - 65536))
    tail = source.read(65536)
    if size < 12 or tail[-4:] != MAGIC:
        raise CorruptData(
            "The file is not a Parquet file: it does not end in PAR1.", file=file, offset=size
        )
    length = int.from_bytes(tail[-8:-4], "little")
    if length > size - 12:
        raise CorruptData(
            "The Parquet footer claims to be longer than its file.", file=file, offset=size
        )
    if length + 8 > len(tail):
        source.seek(size - length - 8)
        tail = source.read(length + 8)
    try:
        return parse(tail[-length - 8 : -8])
    except (IndexError, ValueError, RecursionError) as e:
        raise CorruptData(
            f"The Parquet footer cannot be decoded: {e}.", file=file, offset=size - length - 8
        ) from e


def parse(data: bytes) -> Footer:
    """Decode a footer. Raises ValueError or IndexError when it is damaged."""
    position, last = 0, 0
    while True:
        kind, number, position = read_field(data, position, last)
        if kind == 0:
            raise ValueError("it has no schema")
        if number == 2 and kind == LIST:
            break
        position, last = skip(data, position, kind, 0), number
    root, end = _known_schema(data, position) or _schema(data, position)
    return Footer(root, data[:position], data[end:])


_known: tuple[tuple[bytes, ParquetNode], ...] = ()
_KEPT = 8


def _known_schema(data: bytes, position: int) -> tuple[ParquetNode, int] | None:
    """Look up a schema that another file had, byte for byte, as nearly all files of a table do;
    returns its root and where it ends.
    """
    return next(
        ((root, position + len(text)) for text, root in _known if data.startswith(text, position)),
        None,
    )


def _schema(data: bytes, begin: int) -> tuple[ParquetNode, int]:
    """Decode the list of columns as a tree; returns its root and where the list ends."""
    global _known
    kind, count, position = read_list(data, begin)
    if kind != STRUCT or count > len(data):
        raise ValueError("its schema is not a list of columns")
    flat = []
    for _ in range(count):
        element, position = _element(data, position)
        flat.append(element)
    root, used = _tree(flat, 0, 0)
    if used != len(flat):
        raise ValueError("columns outside the schema's root")
    _known = ((data[begin:position], root), *_known[: _KEPT - 1])
    return root, position


def with_field_ids(footer: Footer, schema: Schema) -> Footer:
    """Set the field ids of `schema` on every column, list element, map key and value of a footer,
    matched by name.
    """
    return replace(footer, root=_numbered_group(footer.root, schema.fields))


def add_field_ids(path: str, schema: Schema) -> None:
    """Rewrite the footer of a local file with field ids and, where its types need them,
    annotations. The caller syncs the file.
    """
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        old = read_footer(file, size, path)
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        numbered = with_field_ids(old, schema)
        new = with_annotations(numbered, schema).encode()
        file.seek(size - 8 - length)
        file.write(closing(new))
        file.truncate()


def with_annotations(footer: Footer, schema: Schema) -> Footer:
    """Annotate the columns of a footer that are VARIANT, GEOMETRY or GEOGRAPHY in `schema`, matched
    by field id.
    """
    return replace(
        footer, root=_annotated(footer.root, {i: f.field_type for i, f in schema.by_id.items()})
    )


def _annotated(node: ParquetNode, types: dict[int, IcebergType]) -> ParquetNode:
    inside = tuple(_annotated(c, types) for c in node.children)
    logical = _logical(types.get(node.field_id)) if node.field_id is not None else None
    others = (
        node.others
        if logical is None
        else (*(o for o in node.others if o[0] != _LOGICAL_TYPE), (_LOGICAL_TYPE, STRUCT, logical))
    )
    return replace(node, children=inside, others=others)


def _logical(type_: IcebergType | None) -> bytes | None:
    """Encode Thrift's LogicalType union, of which VARIANT is member 16, GEOMETRY 17 and GEOGRAPHY
    18; None for other types.
    """
    match type_:
        case VariantType():
            number, inside = 16, b"\x13\x01"  # specification_version 1
        case GeometryType(crs=crs):
            number, inside = 17, _crs(crs)
        case GeographyType(crs=crs, algorithm=algorithm):
            number, inside = 18, _crs(crs)
            if algorithm != "spherical":
                inside += (b"\x15" if inside else b"\x25") + varint(_EDGES.index(algorithm) << 1)
        case _:
            return None
    return b"\x0c" + varint(number << 1) + inside + b"\0\0"


def _crs(crs: str) -> bytes:
    return b"" if crs == "OGC:CRS84" else b"\x18" + varint(len(crs.encode())) + crs.encode()


def _numbered_group(group: ParquetNode, fields: tuple[NestedField, ...]) -> ParquetNode:
    by_name = {f.name: f for f in fields}
    return replace(
        group,
        children=tuple(
            _numbered(c, by_name[c.name]) if c.name in by_name else c for c in group.children
        ),
    )


def _numbered(node: ParquetNode, column: NestedField) -> ParquetNode:
    node = replace(node, field_id=column.field_id)
    return _inside(node, column.field_type)


def _inside(node: ParquetNode, type_: IcebergType) -> ParquetNode:
    match type_:
        case StructType():
            return _numbered_group(node, type_.fields)
        case ListType() | MapType() if (
            len(node.children) == 1
        ):  # the repeated group, whose children are element, or key and value
            repeated = node.children[0]
            pairs = zip(repeated.children, children(type_), strict=True)
            return replace(
                node,
                children=(replace(repeated, children=tuple(_numbered(n, f) for n, f in pairs)),),
            )
    return node


def _tree(flat: list[tuple[ParquetNode, int]], index: int, depth: int) -> tuple[ParquetNode, int]:
    node, count = flat[index]
    if depth > _DEEPEST:
        raise ValueError("columns are nested too deep")
    index += 1
    inside = []
    for _ in range(count):
        child, index = _tree(flat, index, depth + 1)
        inside.append(child)
    return replace(node, children=tuple(inside)), index


def _element(data: bytes, position: int) -> tuple[tuple[ParquetNode, int], int]:
    name, field_id, physical, count, last = "", None, None, 0, 0
    others: list[tuple[int, int, bytes]] = []
    while True:
        kind, number, position = read_field(data, position, last)
        if kind == 0:
            return (ParquetNode(name, field_id, physical, (), tuple(others)), count), position
        end = skip(data, position, kind, 0)
        if number == _NAME and kind == _BINARY:
            length, begin = read_unsigned(data, position)
            name = data[begin : begin + length].decode()
        elif number == _FIELD_ID and kind == _I32:
            field_id = zigzag(read_unsigned(data, position)[0])
        else:
            others.append((number, kind, data[position:end]))
            if number == _CHILDREN:
                count = zigzag(read_unsigned(data, position)[0])
            elif number == _TYPE:
                physical = zigzag(read_unsigned(data, position)[0])
        position, last = end, number


def _encoded(node: ParquetNode) -> bytes:
    name = node.name.encode()
    fields = [*node.others, (_NAME, _BINARY, varint(len(name)) + name)]
    if node.field_id is not None:
        fields.append((_FIELD_ID, _I32, signed(node.field_id)))
    out, last = bytearray(), 0
    for number, kind, value in sorted(fields):
        out += (
            bytes([(number - last) << 4 | kind])
            if number - last < 16
            else bytes([kind]) + varint(number << 1)
        )
        out += value
        last = number
    return bytes(out) + b"\0"


def read_field(data: bytes, position: int, last: int) -> tuple[int, int, int]:
    """Read the head of a Thrift field: (its kind, 0 at the end of the struct; its number; where its
    value begins).
    """
    head = data[position]
    position += 1
    if head == 0:
        return 0, 0, position
    if head >> 4:
        return head & 0x0F, last + (head >> 4), position
    number, position = read_unsigned(data, position)
    return head & 0x0F, zigzag(number), position


def skip(data: bytes, position: int, kind: int, depth: int) -> int:
    """Find the end of a Thrift value of some kind. Raises ValueError or IndexError when it reaches
    beyond the footer.
    """
    if depth > _DEEPEST:
        raise ValueError("values are nested too deep")
    match kind:
        case 1 | 2:
            return position
        case 3:
            return position + 1
        case 4 | 5 | 6:
            return read_unsigned(data, position)[1]
        case 7:
            return position + 8
        case 8:
            length, position = read_unsigned(data, position)
            if length > len(data) - position:
                raise ValueError("a text is longer than the footer")
            return position + length
        case 9 | 10:
            inside, count, position = read_list(data, position)
            if count > len(data):
                raise ValueError("a list is longer than the footer")
            for _ in range(count):
                position = (
                    position + 1 if inside in (1, 2) else skip(data, position, inside, depth + 1)
                )
            return position
        case 12:
            last = 0
            while True:
                inner, last, position = read_field(data, position, last)
                if inner == 0:
                    return position
                position = skip(data, position, inner, depth + 1)
    raise ValueError(f"unknown kind of value {kind}")


def read_unsigned(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint; returns it and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def list_head(count: int) -> bytes:
    """Encode the head of a list of `count` structs."""
    return bytes([count << 4 | STRUCT]) if count < 15 else bytes([0xF0 | STRUCT]) + varint(count)


def read_list(data: bytes, position: int) -> tuple[int, int, int]:
    """Read the head of a list: (the kind of its items, their number, where they begin)."""
    head = data[position]
    count, position = (
        (head >> 4, position + 1) if head >> 4 != 15 else read_unsigned(data, position + 1)
    )
    return head & 0x0F, count, position


def closing(footer: bytes) -> bytes:
    """Append the length and magic number with which a file ends to its footer."""
    return footer + len(footer).to_bytes(4, "little") + MAGIC


def signed(value: int) -> bytes:
    """Encode a signed integer as a zigzag varint."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def zigzag(value: int) -> int:
    """Decode the zigzag form of a signed integer."""
    return (value >> 1) ^ -(value & 1)


def varint(value: int) -> bytes:
    """Encode an unsigned integer as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
