"""Make pages that GitHub shows fit for the site: papers outside of docs/ and the reference of classes
become pages, links that leave the site lead to the repository, and lists and tables get the blank
line before them that Python's Markdown asks for.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/frazil-py/frazil"
PAPERS = {  # page of the site: file of the repository
    "index.md": "README.md",
    "known-gaps.md": "KNOWN_GAPS.md",
    "changelog.md": "CHANGELOG.md",
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
# page: its title, and what it shows, of the package frazil: classes, functions, whole modules
API = {
    "functions": (
        "Functions",
        """table.load.load_catalog table.load.load_table table.load.list_catalogs table.load.clear_caches
        dropin.spark_session dropin.install dropin.configure dropin.sql.sql dropin.server.serve
        sql.results.last_result spark.streams.sink.files.write_stream_files""",
    ),
    "catalog": (
        "Catalogs and views",
        "table.catalog.Catalog table.catalog_transaction table.views.view.View spec.view",
    ),
    "table": ("Tables", "table.table.Table table.load.StaticTable"),
    "reading": (
        "Reading",
        """table.scan.DataScan table.scan.IncrementalAppendScan table.changelog.ChangesScan
        table.inspect.InspectTable table.metadata_table.MetadataTable scan.explain.explanation.Explanation
        scan.explain.explain_file scan.explain.delete_report scan.tasks.FileScanTask""",
    ),
    "changing": (
        "Changing rows and tables",
        """ops.operation.CommitResult table.transaction.Transaction table.merge.MergeBuilder table.evolve
        commit.evolve.evolve_spec.UpdateSpec commit.evolve.evolve_spec.UpdateSortOrder
        commit.evolve.manage_snapshots.ManageSnapshots
        commit.evolve.manage_snapshots.UpdateStatistics commit.evolve.update_properties.UpdateProperties""",
    ),
    "streams": ("Streams", "stream.engine.StreamWriter stream.sink.many_tables"),
    "maintenance": (
        "Maintenance",
        """table.maintenance.MaintenanceTable table.expire_chain.ExpireSnapshots""",
    ),
    "results": (
        "Results of maintenance",
        """maintain.advice.auto.AutoResult maintain.advice.finding
        maintain.compact.procedure.RewriteDataFilesResult maintain.migration.add_files.AddFilesResult
        maintain.migration.move_tables.MoveTablesResult maintain.migration.new_tables.MigrateTableResult
        maintain.migration.new_tables.SnapshotTableResult maintain.migration.register.RegisterTableResult
        maintain.orphans.remove_orphan_files.OrphanFilesResult
        maintain.position_deletes.convert_equality.ConvertEqualityDeletesResult
        maintain.position_deletes.rewrite_position_delete_files.RewritePositionDeleteFilesResult
        maintain.rewrite_manifests.RewriteManifestsResult
        maintain.rewrite_table_path.table_path.RewriteTablePathResult
        maintain.snapshots.expire_snapshots.ExpireSnapshotsResult
        maintain.snapshots.move_snapshots.AncestorsResult maintain.snapshots.move_snapshots.FastForwardResult
        maintain.snapshots.move_snapshots.MovedSnapshotResult
        maintain.snapshots.move_snapshots.PickedSnapshotResult
        maintain.stats.partition_stats.PartitionStatsResult maintain.stats.table_stats.TableStatsResult""",
    ),
    "schema": (
        "Schemas, types, partitions, sort orders",
        "spec.schema.Schema spec.types spec.partitioning spec.transforms spec.sorting",
    ),
    "expressions": ("Filters as expressions", "expr.parse.parse expr.nodes"),
    "metadata": (
        "Metadata, files, reports",
        """spec.metadata.TableMetadata spec.snapshot spec.manifest spec.updates spec.pyiceberg_properties
        io io.pyarrow storage.file_io catalog.reports.ScanReport catalog.reports.CommitReport spec.logs.JsonFormatter""",
    ),
    "errors": ("Errors", "errors"),
    "extending": (
        "Catalogs and runners of your own, tests",
        """catalog.backend.CatalogBackend catalog.base tasks.runner.InProcess
        testing.flaky_backend.FlakyBackend testing.flaky_runner testing.flaky_storage.FlakyStorage
        testing.server_backend.ServerBackend""",
    ),
}
# of these only what they define themselves: a StaticTable is a Table, and errors have what the first has
OWN = ("frazil.table.load.StaticTable", "frazil.errors")


def shown(page: str) -> list[str]:
    """Return what a page of the reference shows, by full names."""
    return [f"frazil.{name}" for name in API[page][1].split()]


def on_files(files: Any, config: Any) -> Any:
    """Add the papers of the repository and the reference."""
    from mkdocs.structure.files import File

    for uri, paper in PAPERS.items():
        files.append(File.generated(config, uri, content=(ROOT / paper).read_text()))
    for page, (title, _) in API.items():
        text = "".join(
            f"::: {name}\n    options: {{inherited_members: {str(name not in OWN).lower()}}}\n\n"
            for name in shown(page)
        )
        files.append(File.generated(config, f"api/{page}.md", content=f"# {title}\n{text}"))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links towards what the site has, or to the repository, and part lists and tables from the
    lines above them.
    """
    here = page.file.src_uri
    if here.startswith(("api/", "adr/")):  # a search shows what explains before them
        page.meta["search"] = {"boost": 0.3}
    source = PAPERS.get(here, f"docs/{here}")
    pages = {paper: uri for uri, paper in PAPERS.items()}
    pages |= {f"docs/{f.src_uri}": f.src_uri for f in files if f.src_uri not in PAPERS}

    def turned(match: re.Match[str]) -> str:
        target, part, anchor = (match["target"] or "").partition("#")
        ours = target.startswith(f"{REPOSITORY}/blob/main/")
        if not target or ("://" in target and not ours) or target.startswith("mailto:"):
            return match[0]
        path = target.removeprefix(f"{REPOSITORY}/blob/main/")
        path = path if ours else posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path in pages:
            to = posixpath.relpath(pages[path], posixpath.dirname(here) or ".")
        elif not (ROOT / path).exists():
            return match[0]  # mkdocs says that it leads nowhere
        else:
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            to = f"{REPOSITORY}/{kind}/main/{path}"
        return f"]({to}{part}{anchor})"

    code_or_link = r"^```.*?^```|`[^`\n]*`|\]\((?P<target>[^)\s]+)\)"
    return re.sub(code_or_link, turned, parted(markdown), flags=re.S | re.M)


def parted(markdown: str) -> str:
    """Put a blank line before each list and table, and behind a table, where there is none."""
    lines: list[str] = []
    in_code, before = False, ""
    for line in markdown.splitlines():
        kind = "table" if line.startswith("|") else "list" if re.match(r"- |\d+\. ", line) else ""
        if not in_code and kind != before and (kind or before == "table") and lines[-1:] != [""]:
            lines.append("")
        if not in_code and kind == "table":  # there a pipe in code needs a backslash on GitHub only
            line = re.sub(r"`[^`]*`", lambda m: m[0].replace("\\|", "|"), line)
        lines.append(line)
        in_code ^= line.startswith("```")
        before = "" if in_code else kind
    return "\n".join(lines) + "\n"


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Lead from a docstring that names a page to that page."""
    if not page.file.src_uri.startswith("api/"):
        return html
    return re.sub(
        r"\bdocs/([a-z-]+)\.md",
        lambda m: f'<a href="../../{m[1]}/">{m[0]}</a>' if (ROOT / m[0]).exists() else m[0],
        html,
    )
