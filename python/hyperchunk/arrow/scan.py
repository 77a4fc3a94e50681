"""Lazy tables for polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack, cast

from hyperchunk.arrow.optional_imports import import_optional
from hyperchunk.arrow.table import CONVERSION_OPTIONS, Table, to_slice
from hyperchunk.typing import ArrowData, ConversionOptions, FileName, OpenOptions, Rows

if TYPE_CHECKING:
    import polars as pl

    from hyperchunk.group import Group


class TableOptions(ConversionOptions, total=False):
    """Options of a table: see :meth:`hyperchunk.Group.table`."""

    mapped: bool
    batch_rows: int | None


class ScanOptions(TableOptions, OpenOptions, total=False):
    """Options of :func:`scan_hyperchunk`: of a table, and for opening its file."""


def scan_hyperchunk(
    source: FileName | Group | Table,
    table: str = "/",
    *,
    columns: Sequence[str] | None = None,
    rows: Rows | None = None,
    **options: Unpack[ScanOptions],
) -> pl.LazyFrame:
    """Returns a :class:`polars.LazyFrame` over a table of an HDF5 file. Only the columns and rows that polars requests
    are read. Zones whose statistics (of a store, or from ``hyperchunk analyze``) rule out a match are skipped;
    :attr:`Table.scanned` tells the number of bytes scanned.

    Args:
        source: An argument of :func:`hyperchunk.open` (a path, a URL), an open file, or a :class:`Table`.
        table: Path of a group or a dataset.
        columns, rows: As for :meth:`hyperchunk.Group.table`.
        options: Conversion options as for :meth:`hyperchunk.Group.table`, but multi-dimensional cells are arrays
            (``cells="list"``); and options of :func:`hyperchunk.open`.

    Raises:
        ModuleNotFoundError: polars is not installed.
        TypeError: An option does not exist, or `source` is a table or an open file and takes none.

    Example:
        >>> lazy = hyperchunk.scan_hyperchunk("particles.h5", "/Timestep_0")  # doctest: +SKIP
        >>> lazy.filter(pl.col("px") > 32).select(pl.len(), pl.col("x").mean()).collect()  # doctest: +SKIP
    """
    import_optional("polars")
    from polars.io.plugins import register_io_source

    from hyperchunk.arrow.predicates import candidate_zones, condition
    from hyperchunk.arrow.zones import Zones, filtered_batches
    from hyperchunk.arrow.zones import scan as zoned_scan

    view = _view(source, table, columns, rows, options)._with_defaults(cells="list")
    if view._decoded:
        return _scan_frame(view, table, register_io_source)
    if view.is_zero_copy and not view._core.keeps_zones():
        # Everything is mapped without a copy: polars accesses only the pages that it needs.
        return view.to_polars().lazy()
    schema = to_frame(view[:0]).schema

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        part = view if n_rows is None else view.slice(0, n_rows)
        wanted = part.column_names if with_columns is None else with_columns
        if predicate is None:
            for batch in part.select(wanted).batches(batch_size):
                yield to_frame(batch)
            return
        asked = set(predicate.meta.root_names())
        if not asked:
            for batch in part.batches(batch_size):
                yield to_frame(batch).filter(predicate).select(wanted)
            return
        known = condition(part, predicate)
        if known is not None:
            yield from map(to_frame, filtered_batches(part, known, wanted, batch_size))
            return
        needs = [name for name in part.column_names if name in asked]
        zones = Zones.read(part, needs)
        candidates = None if zones is None else candidate_zones(zones, predicate)
        for rows in zoned_scan(part, needs, wanted, zones, candidates):
            mask = to_frame(rows.first()).select(predicate.alias("")).to_series()
            if mask.any():
                yield to_frame(rows.chosen(None)).filter(mask)

    detail = f"{view.num_rows} rows of {table}"
    found = register_io_source(read, schema=schema, explain_name="hyperchunk", explain_detail=detail)
    assert found is not None
    return found


def _scan_frame(frame: Table, table: str, register: Callable[..., pl.LazyFrame | None]) -> pl.LazyFrame:
    """Returns a :class:`polars.LazyFrame` over a frame: only the columns that polars requests are decoded."""
    from hyperchunk.frames.frame import for_polars

    schema = frame.schema.remove_metadata()

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        part = frame if n_rows is None else frame.slice(0, n_rows)
        wanted = part.column_names if with_columns is None else with_columns
        asked = set() if predicate is None else set(predicate.meta.root_names())
        needs = [name for name in part.column_names if name in asked or name in wanted]
        for batch in part.select(needs).batches(batch_size):
            found = to_frame(for_polars(batch))
            yield (found if predicate is None else found.filter(predicate)).select(wanted)

    made = register(
        read, schema=to_frame(for_polars(schema.empty_table())).schema, explain_name="hyperchunk", explain_detail=table
    )
    assert made is not None
    return made


def to_frame(arrow: ArrowData) -> pl.DataFrame:
    """Converts an object with Arrow's PyCapsule interface to polars: booleans become polars' own, and types that
    exist only in HDF5 become their storage types.
    """
    import_optional("polars")
    import polars as pl

    frame = pl.DataFrame(arrow)
    plain = []
    for name, dtype in frame.schema.items():
        if isinstance(dtype, pl.BaseExtension) and dtype.ext_name() != "arrow.fixed_shape_tensor":
            stored = pl.col(name).ext.storage()
            plain.append(stored.cast(pl.Boolean) if dtype.ext_name() == "arrow.bool8" else stored)
    return frame.with_columns(plain) if plain else frame


def _view(
    source: FileName | Group | Table, table: str, columns: Sequence[str] | None, rows: Rows | None, options: ScanOptions
) -> Table:
    from hyperchunk.group import Group

    table_names = (*CONVERSION_OPTIONS, "mapped", "batch_rows")
    asked = cast("TableOptions", {name: value for name, value in options.items() if name in table_names})
    of_file = cast("OpenOptions", {name: value for name, value in options.items() if name not in table_names})
    if isinstance(source, Table):
        if asked or of_file or table != "/":
            raise TypeError("a Table cannot be combined with a path or options: set them when it is made")
        view = source if columns is None else source.select(columns)
        return view if rows is None else view[to_slice(rows, view.num_rows)]
    if not isinstance(source, Group):
        import hyperchunk

        source = hyperchunk.open(source, **of_file)
    elif of_file:
        raise TypeError(f"option {min(of_file)!r} is for opening a file, but the file is already open")
    return source.table(table, columns=columns, rows=rows, **asked)
