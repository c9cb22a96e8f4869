package frazil.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.VariantExtraction;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.execution.WholeStageCodegenExec$;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionDirectory$;
import org.apache.spark.sql.execution.datasources.PartitionSpec;
import org.apache.spark.sql.execution.datasources.PartitionSpec$;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils$;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetScan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType$;
import org.apache.spark.sql.types.IntegerType$;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StringType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Scans Parquet files that Python has planned by Spark's own vectorised reader. Python is asked what a query's
 * filters leave: "plan" when they are pushed, "aggregates" for those that statistics may tell, "files" when it runs.
 */
public final class ParquetFiles {
  private static final String PUSH_DOWN = "spark.sql.iceberg.aggregate-push-down.enabled";
  private static final int MOST_VALUES = 10000;

  private ParquetFiles() { }

  /** The files of a read, as a table. A file's number and location are columns that no file holds. */
  public static final class Files implements SupportsRead {
    final SparkSession session;
    final StructType schema;
    final StructType constants;
    final String identity;
    final String title;
    final String root;
    final Set telling; // columns by whose values a join can leave files out
    final CaseInsensitiveStringMap options;
    final BiFunction answers;
    final Function trees; // writes an expression as JSON

    public Files(SparkSession session, StructType schema, StructType constants, String identity, String title, String root, String telling, java.util.Map options, BiFunction answers, Function trees) {
      this.session = session;
      this.schema = schema;
      this.constants = constants;
      this.identity = identity;
      this.title = title;
      this.root = root;
      this.telling = new HashSet(Arrays.asList(telling.split("\n")));
      this.options = new CaseInsensitiveStringMap(options);
      this.answers = answers;
      this.trees = trees;
    }

    public String name() { return title; }
    public StructType schema() { return together(schema, constants); }
    public Set capabilities() { return EnumSet.of(TableCapability.BATCH_READ); }
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap of_relation) { return new Builder(this); }
    public boolean equals(Object other) { return other instanceof Files && ((Files) other).identity.equals(identity); }
    public int hashCode() { return identity.hashCode(); }
    public String toString() { return title; }
  }

  /** Takes what a query needs of the files. */
  public static final class Builder implements SupportsPushDownRequiredColumns, SupportsPushDownCatalystFilters, SupportsPushDownAggregates, SupportsPushDownLimit {
    private final Files files;
    private StructType wanted;
    private List filters = new ArrayList();
    private String trees = "[]"; // the filters, as Python reads them
    private String left; // rows and number of the files that the filters leave, number of all, bytes of those left
    private boolean holds = true; // every row of those files is one that the filters want
    private int limit = -1;
    private String asked;
    private Told told;

    Builder(Files files) {
      this.files = files;
      this.wanted = files.schema();
    }

    public void pruneColumns(StructType columns) { wanted = columns; }

    public scala.collection.immutable.Seq pushFilters(scala.collection.immutable.Seq expressions) {
      filters = new ArrayList();
      for (int n = 0; n < expressions.size(); n++) {
        Expression filter = (Expression) expressions.apply(n);
        if (filter.deterministic()) { filters.add(filter); }
      }
      trees = text(filters);
      plan();
      holds = holds && filters.size() == expressions.size();
      return holds ? none() : expressions; // Spark applies filters to the rows, too, unless all rows are wanted
    }

    private String text(List filters) {
      StringBuilder text = new StringBuilder();
      for (int n = 0; n < filters.size(); n++) { text.append(n == 0 ? "" : ",").append(files.trees.apply(filters.get(n))); }
      return "[" + text + "]";
    }

    private void plan() {
      String answer = (String) files.answers.apply("plan", query(false) + "\n");
      holds = answer.startsWith("holds ");
      left = answer.substring(answer.indexOf(' ') + 1);
    }

    // What Python plans the files by, with each question: it may have forgotten the query since.
    private String query(boolean holds) { return (holds ? "holds " : " ") + (limit < 0 ? "" : limit) + "\n" + trees; }

    // Spark itself ends a query once it has as many rows; the files are read for no more of them.
    public boolean pushLimit(int rows) {
      if (!holds) { return false; }
      limit = rows;
      return true;
    }

    public boolean isPartiallyPushed() { return true; }

    public Predicate[] pushedFilters() { return new Predicate[0]; }
    public boolean supportCompletePushDown(Aggregation aggregation) { return tell(aggregation) != null; }
    public boolean pushAggregation(Aggregation aggregation) { return tell(aggregation) != null; }

    /** Returns the aggregates of all rows, if the files' statistics tell them. */
    private Told tell(Aggregation aggregation) {
      if (!holds || aggregation.groupByExpressions().length > 0) { return null; }
      AggregateFunc[] functions = aggregation.aggregateExpressions();
      StringBuilder text = new StringBuilder();
      StructType schema = new StructType();
      for (int n = 0; n < functions.length; n++) {
        org.apache.spark.sql.connector.expressions.Expression of = null;
        String kind = "count";
        if (functions[n] instanceof Min) {
          kind = "min";
          of = ((Min) functions[n]).column();
        } else if (functions[n] instanceof Max) {
          kind = "max";
          of = ((Max) functions[n]).column();
        } else if (functions[n] instanceof org.apache.spark.sql.connector.expressions.aggregate.Count) {
          org.apache.spark.sql.connector.expressions.aggregate.Count count = (org.apache.spark.sql.connector.expressions.aggregate.Count) functions[n];
          if (count.isDistinct()) { return null; }
          of = count.column();
        } else if (!(functions[n] instanceof CountStar)) {
          return null;
        }
        String column = of instanceof NamedReference ? String.join("\n", ((NamedReference) of).fieldNames()) : "";
        if (of == null ? false : !Arrays.asList(files.schema.fieldNames()).contains(column) || column.contains("\n")) { return null; }
        DataType type = kind.equals("count") ? LongType$.MODULE$ : files.schema.apply(column).dataType();
        schema = schema.add(kind + n, type, true);
        text.append(n == 0 ? "" : "\n").append(kind).append(" ").append(column);
      }
      if (!text.toString().equals(asked)) {
        asked = text.toString();
        String values = (String) files.answers.apply("aggregates", query(true) + "\n" + SQLConf$.MODULE$.get().getConfString(PUSH_DOWN, "true") + "\n" + asked);
        told = values.isEmpty() ? null : new Told(files, schema, values.split("\n"));
      }
      return told;
    }

    public Scan build() {
      if (told != null) { return told; }
      if (left == null || limit >= 0) { plan(); }
      return new FilesScan(files, wanted, filters, holds, query(holds), left + (limit < 0 ? "" : " " + limit));
    }
  }

  /** Is the one row of aggregates that the statistics of files tell. */
  static final class Told implements LocalScan {
    private final Files files;
    private final StructType schema;
    private final Object[] values;

    Told(Files files, StructType schema, String[] texts) {
      this.files = files;
      this.schema = schema;
      this.values = new Object[texts.length];
      for (int n = 0; n < texts.length; n++) {
        values[n] = number(texts[n], schema.fields()[n].dataType());
      }
    }

    public InternalRow[] rows() { return new InternalRow[] {new GenericInternalRow(values)}; }
    public StructType readSchema() { return schema; }
    public String description() { return files.title + " told by statistics of files"; }
  }

  /** Reads those of the files that the filters of a query leave. */
  public static final class FilesScan implements Scan, Batch, SupportsRuntimeV2Filtering, SupportsReportStatistics {
    private final Files files;
    private final StructType columns;
    private final StructType constants;
    private final List arrived = new ArrayList();
    private final long[] counts; // rows and number of the files that are left, number of all, bytes of those left
    private final String filtered;
    private final String limited;
    private final Filter[] pushed; // what the reader holds against a row group's statistics
    private final String query;
    private NamedReference[] filterable;
    private PartitionReaderFactory factory;
    private Listing listing;
    private ParquetScan parquet;
    private Map columnStats;

    FilesScan(Files files, StructType wanted, List filters, boolean holds, String query, String left) {
      this.files = files;
      List own = Arrays.asList(files.constants.fieldNames());
      StructType columns = new StructType();
      StructType constants = new StructType();
      StructField[] fields = wanted.fields();
      for (int n = 0; n < fields.length; n++) {
        if (own.contains(fields[n].name())) { constants = constants.add(fields[n]); } else { columns = columns.add(fields[n]); }
      }
      this.columns = columns;
      this.constants = constants;
      StringBuilder filtered = new StringBuilder();
      List pushed = new ArrayList();
      for (int n = 0; n < filters.size(); n++) {
        scala.Option filter = DataSourceStrategy$.MODULE$.translateFilter((Expression) filters.get(n), true);
        // what holds for all rows may be of columns that are not read, which are null to the reader
        if (filter.isDefined() && !holds) { pushed.add(filter.get()); }
        filtered.append(n == 0 ? "" : ", ").append(filter.isDefined() ? filter.get() : filters.get(n));
      }
      String[] numbers = left.split(" ");
      this.limited = numbers.length > 4 ? ", PushedLimit: " + numbers[4] : "";
      this.filtered = filtered.toString();
      this.pushed = (Filter[]) pushed.toArray(new Filter[0]);
      this.query = query;
      this.counts = new long[4];
      for (int n = 0; n < counts.length; n++) { counts[n] = Long.parseLong(numbers[n]); }
    }

    public StructType readSchema() { return together(columns, constants); }

    public String description() {
      StringBuilder text = new StringBuilder("Files: ").append(filesRead()).append(" of ").append(counts[2]);
      if (filesRead() < counts[1]) { text.append(" (").append(counts[1] - filesRead()).append(" left out by joins)"); }
      text.append(", PushedFilters: [").append(filtered).append("]").append(limited).append(", ReadSchema: ").append(readSchema().catalogString());
      return text.toString();
    }

    /** Returns the number of files that the filters leave: those of joins too, once the scan has run. */
    public long filesRead() { return listing == null || listing.listed < 0L ? counts[1] : listing.listed; }

    public Batch toBatch() { return this; }

    // Spark's UI looks the classes of metrics up by their names, which it finds on the class path alone.
    public CustomMetric[] supportedCustomMetrics() {
      try {
        Class.forName(FilesRead.class.getName(), false, Thread.currentThread().getContextClassLoader());
      } catch (ClassNotFoundException e) {
        return new CustomMetric[0];
      }
      return new CustomMetric[] {new FilesRead(), new FilesLeftOut(), new LeftOutByJoins()};
    }

    public CustomTaskMetric[] reportDriverMetrics() {
      if (supportedCustomMetrics().length == 0) { return new CustomTaskMetric[0]; } // Spark 4.1 fails on others
      long left = filesRead();
      return new CustomTaskMetric[] {
          new Count("numFiles", left), new Count("filesLeftOut", counts[2] - left), new Count("filesLeftOutByJoins", counts[1] - left)};
    }

    public Statistics estimateStatistics() {
      final long rows = counts[0];
      // as Spark estimates its own Parquet tables, by which it chooses the joins that it broadcasts
      double read = (8.0 + readSchema().defaultSize()) / (8.0 + files.schema().defaultSize());
      final long bytes = Math.max(1L, (long) (SQLConf$.MODULE$.get().fileCompressionFactor() * counts[3] * read));
      return new Statistics() {
        public OptionalLong sizeInBytes() { return OptionalLong.of(bytes); }
        public OptionalLong numRows() { return OptionalLong.of(rows); }
        public Map columnStats() { return rows == 0L || !SQLConf$.MODULE$.get().cboEnabled() ? new HashMap() : ofColumns(rows); }
      };
    }

    // For each column a line: numbers of distinct values and of nulls, the least and the greatest value, "-" for what is not known.
    private Map ofColumns(long rows) {
      if (columnStats != null) { return columnStats; }
      columnStats = new HashMap();
      String names = String.join("\n", columns.fieldNames());
      String[] lines = ((String) files.answers.apply("statistics", query + "\n" + names)).split("\n");
      for (int n = 0; n < columns.size() && lines.length == columns.size(); n++) {
        String[] told = lines[n].split(" ");
        final OptionalLong distinct = count(told[0], rows);
        final OptionalLong nulls = count(told[1], rows);
        final Optional least = Optional.ofNullable(number(told[2], columns.apply(n).dataType()));
        final Optional greatest = Optional.ofNullable(number(told[3], columns.apply(n).dataType()));
        columnStats.put(new FieldReference(oneName(columns.fields()[n].name())), new ColumnStatistics() {
          public OptionalLong distinctCount() { return distinct; }
          public OptionalLong nullCount() { return nulls; }
          public Optional min() { return least; }
          public Optional max() { return greatest; }
        });
      }
      return columnStats;
    }

    private static OptionalLong count(String text, long rows) {
      return text.equals("-") ? OptionalLong.empty() : OptionalLong.of(Math.min(Long.parseLong(text), rows));
    }

    public NamedReference[] filterAttributes() {
      if (filterable == null) {
        List each = new ArrayList();
        String[] names = columns.fieldNames();
        for (int n = 0; n < names.length; n++) {
          if (files.telling.contains(names[n])) { each.add(new FieldReference(oneName(names[n]))); }
        }
        filterable = (NamedReference[]) each.toArray(new NamedReference[0]);
      }
      return filterable;
    }

    public void filter(Predicate[] predicates) {
      for (int n = 0; n < predicates.length; n++) {
        if (predicates[n].name().equals("IN")) { arrived.add(values(predicates[n].children(), files.trees)); }
      }
    }

    public InputPartition[] planInputPartitions() { return parquet().planInputPartitions(); }

    // Spark asks many times while it plans, and each factory is broadcast.
    public PartitionReaderFactory createReaderFactory() {
      if (factory == null) { factory = parquet().createReaderFactory(); }
      return factory;
    }

    // As the factory answers, for which a plan that never runs would broadcast all of Hadoop's settings.
    public Scan.ColumnarSupportMode columnarSupportMode() {
      SQLConf session = ((org.apache.spark.sql.classic.SparkSession) files.session).sessionState().conf(); // the reader's own
      boolean batches = ParquetUtils$.MODULE$.isBatchReadSupportedForSchema(session, readSchema())
          && session.wholeStageEnabled() && !WholeStageCodegenExec$.MODULE$.isTooManyFields(session, readSchema());
      return batches ? Scan.ColumnarSupportMode.SUPPORTED : Scan.ColumnarSupportMode.UNSUPPORTED;
    }

    // Spark's scan and its listing are made once: each takes a copy of all of Hadoop's settings.
    private ParquetScan parquet() {
      if (parquet != null) { return parquet; }
      scala.collection.immutable.Map settings = scala.collection.immutable.Map.from(scala.jdk.javaapi.CollectionConverters.asScala(files.options.asCaseSensitiveMap()));
      listing = new Listing(files, query, arrived, settings);
      parquet = new ParquetScan(
          files.session, listing.hadoopConf(), listing, files.schema, columns, constants,
          pushed, files.options, scala.Option.empty(), none(), none(), new VariantExtraction[0]);
      return parquet;
    }

    public boolean equals(Object other) {
      if (!(other instanceof FilesScan)) { return false; }
      FilesScan scan = (FilesScan) other;
      return files.equals(scan.files) && columns.equals(scan.columns) && constants.equals(scan.constants)
          && filtered.equals(scan.filtered) && limited.equals(scan.limited);
    }

    public int hashCode() { return files.hashCode() * 31 + columns.hashCode(); }
  }

  /** A number that the SQL page of Spark's UI shows beside a scan. */
  public static class FilesRead extends CustomSumMetric {
    public String name() { return "numFiles"; }
    public String description() { return "number of files read"; }
  }

  public static class FilesLeftOut extends CustomSumMetric {
    public String name() { return "filesLeftOut"; }
    public String description() { return "number of files left out by partitions and bounds"; }
  }

  public static class LeftOutByJoins extends CustomSumMetric {
    public String name() { return "filesLeftOutByJoins"; }
    public String description() { return "number of files left out by joins while the query ran"; }
  }

  static final class Count implements CustomTaskMetric {
    private final String name;
    private final long value;

    Count(String name, long value) {
      this.name = name;
      this.value = value;
    }

    public String name() { return name; }
    public long value() { return value; }
  }

  /** Lists the files of a scan when it runs: for each its length, number, location and path, a line each. */
  static final class Listing extends PartitioningAwareFileIndex {
    private final Files files;
    private final String query;
    private scala.collection.immutable.Seq directories;
    private int known;
    private final List arrived;
    long listed = -1L;

    Listing(Files files, String query, List arrived, scala.collection.immutable.Map settings) {
      super(files.session, settings, scala.Option.empty(), NoopCache$.MODULE$);
      this.files = files;
      this.query = query;
      this.arrived = arrived;
    }

    public scala.collection.immutable.Seq listFiles(scala.collection.immutable.Seq of_partitions, scala.collection.immutable.Seq of_data) {
      if (directories != null && known == arrived.size()) { return directories; }
      known = arrived.size();
      String text = (String) files.answers.apply("files", query + "\n[" + String.join(",", arrived) + "]");
      List each = new ArrayList();
      String[] lines = text.isEmpty() ? new String[0] : text.split("\n");
      listed = lines.length / 4;
      for (int n = 0; n < lines.length; n += 4) {
        Path path = new Path(lines[n + 3]);
        FileStatus status = new FileStatus(length(path, Long.parseLong(lines[n])), false, 1, 128L << 20, 0L, path);
        InternalRow row = new GenericInternalRow(new Object[] {Long.valueOf(Long.parseLong(lines[n + 1])), UTF8String.fromString(lines[n + 2])});
        each.add(PartitionDirectory$.MODULE$.apply(row, new FileStatus[] {status}));
      }
      directories = scala.jdk.javaapi.CollectionConverters.asScala(each).toSeq();
      return directories;
    }

    // Some writers record another length of a file than it has, and a look at a local disk is quick.
    private static long length(Path path, long recorded) {
      if (!"file".equals(path.toUri().getScheme())) { return recorded; }
      long real = new java.io.File(path.toUri().getPath()).length();
      return real > 0L ? real : recorded;
    }

    public scala.collection.immutable.Seq rootPaths() {
      List roots = new ArrayList();
      roots.add(new Path(files.root));
      return scala.jdk.javaapi.CollectionConverters.asScala(roots).toSeq();
    }

    public StructType partitionSchema() { return files.constants; }
    public PartitionSpec partitionSpec() { return PartitionSpec$.MODULE$.emptySpec(); }
    public scala.collection.mutable.LinkedHashMap leafFiles() { return new scala.collection.mutable.LinkedHashMap(); }
    public scala.collection.immutable.Map leafDirToChildrenFiles() { return scala.collection.immutable.Map$.MODULE$.empty(); }
    public void refresh() { }
  }

  // A whole number, day or instant as Spark holds it inside; null for "-".
  private static Object number(String text, DataType type) {
    if (text.equals("-")) { return null; }
    boolean small = type.equals(IntegerType$.MODULE$) || type.equals(DateType$.MODULE$);
    return small ? (Object) Integer.valueOf(text) : (Object) Long.valueOf(text);
  }

  // The columns that files hold, and behind them those that each file has one value of.
  private static StructType together(StructType columns, StructType constants) {
    StructType all = columns;
    StructField[] fields = constants.fields();
    for (int n = 0; n < fields.length; n++) { all = all.add(fields[n]); }
    return all;
  }

  private static scala.collection.immutable.Seq none() {
    return scala.jdk.javaapi.CollectionConverters.asScala(new ArrayList()).toSeq();
  }

  private static scala.collection.immutable.Seq oneName(String name) {
    List parts = new ArrayList();
    parts.add(name);
    return scala.jdk.javaapi.CollectionConverters.asScala(parts).toSeq();
  }

  /**
   * Writes the values that a join leaves for a column as a list of JSON: the word for their form, the column's name and
   * the values; of very many values the least and the greatest.
   */
  private static String values(org.apache.spark.sql.connector.expressions.Expression[] of_in, Function trees) {
    List values = new ArrayList();
    for (int n = 1; n < of_in.length; n++) {
      if (((LiteralValue) of_in[n]).value() != null) { values.add(((LiteralValue) of_in[n]).value()); }
    }
    String form = "IN";
    if (values.size() > MOST_VALUES) {
      if (!(values.get(0) instanceof Comparable)) { return "null"; }
      form = "BETWEEN";
      values = Arrays.asList(new Object[] {java.util.Collections.min(values), java.util.Collections.max(values)});
    }
    String column = String.join(".", ((NamedReference) of_in[0]).fieldNames());
    StringBuilder text = new StringBuilder("[\"").append(form).append("\",").append(trees.apply(new Literal(UTF8String.fromString(column), StringType$.MODULE$)));
    for (int n = 0; n < values.size(); n++) {
      text.append(",").append(trees.apply(new Literal(values.get(n), ((LiteralValue) of_in[1]).dataType())));
    }
    return text.append("]").toString();
  }
}
