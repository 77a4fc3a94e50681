"""Tables for polars, lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hyperchunk.arrow.installed import needed
from hyperchunk.arrow.table import LOOKS, Table

if TYPE_CHECKING:
    import polars as pl


def scan_hyperchunk(
    source: Any,
    table: str = "/",
    *,
    columns: Sequence[str] | None = None,
    rows: slice | tuple[int, int] | range | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """A :class:`polars.LazyFrame` over a table of an HDF5 file: polars says which columns and rows it wants, and only those
    are read.

    `source` is what :func:`hyperchunk.open` takes (a path, a URL), a file that is open, or a :class:`Table`; `table` the path
    of a group or a dataset. `columns`, `rows` and the looks (``strings=``, ``enums=`` …) are as for :meth:`Group.table`, but
    rows of several dimensions are arrays (``cells="list"``); all else goes to :func:`hyperchunk.open`.

    >>> lazy = hyperchunk.scan_hyperchunk("particles.h5", "/Timestep_0")  # doctest: +SKIP
    ... lazy.filter(pl.col("px") > 32).select(pl.len(), pl.col("x").mean()).collect()
    """
    plugins = needed("polars.io.plugins")
    view = _view(source, table, columns, rows, options)._looking(cells="list")
    schema = _frame(view[:0]).schema

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        part = view if n_rows is None else view.slice(0, n_rows)
        if with_columns is not None:
            wanted = set(with_columns) | set(() if predicate is None else predicate.meta.root_names())
            part = part.select([name for name in part.column_names if name in wanted])
        for batch in part.batches(batch_size):
            frame = _frame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if with_columns is None else frame.select(with_columns)

    detail = f"{view.num_rows} rows of {table}"
    found = plugins.register_io_source(read, schema=schema, explain_name="hyperchunk", explain_detail=detail)
    assert found is not None
    return found  # type: ignore[no-any-return]


def _frame(arrow: Any) -> pl.DataFrame:
    return needed("polars").DataFrame(arrow)  # type: ignore[no-any-return]


def _view(source: Any, table: str, columns: Any, rows: Any, options: dict[str, Any]) -> Table:
    from hyperchunk.group import Group

    asked = {name: options.pop(name) for name in (*LOOKS, "mapped", "batch_rows") if name in options}
    if isinstance(source, Table):
        if asked or options or table != "/":
            raise TypeError("a Table is scanned as it is")
        view = source if columns is None else source.select(columns)
        return view if rows is None else view[rows]
    if not isinstance(source, Group):
        import hyperchunk

        source = hyperchunk.open(source, **options)
    elif options:
        raise TypeError(f"the file is open: {sorted(options)[0]!r} is for opening one")
    return source.table(table, columns=columns, rows=rows, **asked)
