"""pyarrow without any table format: the floor of the doors without Spark."""

import gc

import kit
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

NAME = "raw"
HIVE = ds.partitioning(pa.schema([("day", pa.date32()), ("bucket", pa.int32())]), flavor="hive")


def open(b):
    return None


def version(_):
    return f"pyarrow {pa.__version__}"


def settle(_):
    gc.collect()


def files(folder):
    return ds.dataset(sorted(map(str, folder.glob("*.parquet"))))


def sums(b, where=None, counted=True):
    count = price = qty = 0
    with b.timed():
        for batch in files(b.events).scanner(columns=["price", "qty"], filter=where).to_batches():
            count += len(batch)
            price += pc.sum(batch["price"]).as_py() or 0.0
            qty += pc.sum(batch["qty"]).as_py() or 0
    return {
        "check": kit.shown(*([count, price] if where is not None and counted else [price, qty]))
    }


def arrow_scan_2col(_, b):
    return sums(b)


def arrow_scan_filter(_, b):
    at = lambda text: pa.scalar(text).cast(pa.timestamp("us", "UTC"))
    return sums(
        b,
        (pc.field("ts") >= at("2024-01-04T12:00:00Z"))
        & (pc.field("ts") < at("2024-01-04T13:00:00Z")),
    )


def arrow_scan_all(_, b):
    best = {}
    with b.timed():
        for batch in files(b.events).scanner().to_batches():
            if len(batch):
                for c in kit.COLUMNS:
                    top = pc.max(batch[c]).as_py()
                    best[c] = max(top, best.get(c, top))
    return {"check": kit.shown(*best.values())}


def arrow_mor_read_pos(_, b):
    """The rows left, by their predicate."""
    return sums(b, pc.field("product_id") >= 1000, counted=False)


arrow_mor_read_dv = arrow_mor_read_pos


def without_ids(b, name):
    """The anti join in memory, with the columns that are asked for."""
    with b.timed():
        keys = ds.dataset(str(b.deletes / name)).to_table()
        left = (
            files(b.events)
            .to_table(columns=["id", "price", "qty"])
            .join(keys, "id", join_type="left anti")
        )
        totals = [pc.sum(left["price"]).as_py(), pc.sum(left["qty"]).as_py()]
    return {"check": kit.shown(*totals)}


def arrow_mor_read_eq_100k(_, b):
    return without_ids(b, "eq_few.parquet")


def arrow_mor_read_eq_5m(_, b):
    return without_ids(b, "eq_many.parquet")


def arrow_delete_cow(_, b):
    """The rows left, written."""
    return write(
        b, "raw_delete_cow", lambda: files(b.events).scanner(filter=pc.field("product_id") >= 1000)
    )


def written(where):
    found = files_below(where).to_table(columns=["price"])
    return {
        "rows": len(found),
        "check": kit.shown(len(found), float(pc.sum(found["price"]).as_py())),
        **kit.on_disk(where),
    }


def files_below(where):
    return ds.dataset(sorted(map(str, where.rglob("*.parquet"))))


def write(b, name, reader, **partitioned):
    where = b.fresh(name)
    options = ds.ParquetFileFormat().make_write_options(compression="zstd")
    with b.timed():
        ds.write_dataset(
            reader(),
            str(where),
            format="parquet",
            file_options=options,
            max_rows_per_group=1 << 20,
            **partitioned,
        )
    return written(where)


def arrow_write_plain(_, b):
    return write(b, "raw_plain", lambda: files(b.events).scanner())


def arrow_write_part(_, b):
    """Day and a plain modulus: the same number of partitions with the cheapest of hashes."""
    columns = {c: pc.field(c) for c in kit.COLUMNS}
    columns |= {
        "day": pc.field("ts").cast(pa.date32()),
        "bucket": pc.bit_wise_and(pc.field("id"), 15).cast(pa.int32()),
    }
    return write(
        b,
        "raw_part",
        lambda: files(b.events).scanner(columns=columns),
        partitioning=HIVE,
        max_partitions=1024,
        max_open_files=512,
    )
