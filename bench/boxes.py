"""How much of a clustered table box queries read: the data files, and the row groups of them, whose
bounds in both columns meet the box.

The boxes are random, yet the same for every engine. A box of 5 % holds 5 % of the area of two
uniform columns; its sides have ratios of up to about 2.5, 1.6 or 1.3 to one another.
"""

import numpy as np
import pyarrow.parquet as pq

SHARES = (1, 5, 20)  # percent
BOXES = 400
# of uniform columns of data.py
RANGES = {
    "product_id": 100_000,
    "order_id": 1_000_000_000,
    "price": 1000,
}


# The orders of cluster_boxes_*: the curve, and its columns.
ZORDER, PRICE, HILBERT = (
    ("zorder", "product_id", "order_id"),
    ("zorder", "order_id", "price"),
    ("hilbert", "product_id", "order_id"),
)


def boxes(percent):
    """Least and greatest value of both columns, as shares of their ranges: four arrays."""
    random, share = np.random.default_rng(percent), percent / 100
    width = share ** random.uniform(0.4, 0.6, BOXES)
    height = share / width
    left, low = random.uniform(0, 1 - width), random.uniform(0, 1 - height)
    return left, left + width, low, low + height


def read_by_boxes(paths, columns):
    """Facts: percent of the bytes that boxes of 1, 5 and 20 % read on average, by files and by row
    groups, and how many there are.
    """
    files, groups = [], []
    for path in paths:
        of_file = np.array([[*bounds, size] for bounds, size in row_groups(path, columns)])
        groups += of_file.tolist()
        files.append(
            [
                of_file[:, 0].min(),
                of_file[:, 1].max(),
                of_file[:, 2].min(),
                of_file[:, 3].max(),
                of_file[:, 4].sum(),
            ]
        )
    facts = {"files": len(files), "groups": len(groups)}
    for percent in SHARES:
        facts[f"read_{percent}"] = read(np.array(files), percent)
        facts[f"read_{percent}_by_groups"] = read(np.array(groups), percent)
    return facts


def row_groups(path, columns):
    with pq.ParquetFile(path) as file:
        places = [file.schema_arrow.get_field_index(c) for c in columns]
        for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
            ends = [group.column(p).statistics for p in places]
            bounds = [
                end / RANGES[c]
                for c, s in zip(columns, ends, strict=True)
                for end in (s.min, s.max)
            ]
            yield (
                bounds,
                sum(group.column(i).total_compressed_size for i in range(group.num_columns)),
            )


def read(parts, percent):
    left, right, low, high = boxes(percent)
    x_min, x_max, y_min, y_max, sizes = (column[:, None] for column in parts.T)
    hit = (x_min <= right) & (x_max >= left) & (y_min <= high) & (y_max >= low)
    return round(float((hit * sizes).sum(0).mean() / sizes.sum() * 100), 2)
