package frazil.spark.jvm;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.analysis.PlanWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeColumn;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.Assignment;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertAction;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeAction;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TruncateTable;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.DataType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Writes DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE as JSON: as the parser returns them, and as the
 * analyser resolves them, with expressions as `ExpressionTrees` writes them.
 */
public final class RowStatements {
  private final Function trees;

  /** `trees`: writes expressions; null: nothing does, so that Spark evaluates them. */
  public RowStatements(Function trees) { this.trees = trees; }

  // As parsed

  /** The JSON of a parsed statement, possibly below WITH; "null" for any other plan. */
  public String read(LogicalPlan plan) {
    boolean within = plan instanceof UnresolvedWith;
    LogicalPlan statement = within ? ((UnresolvedWith) plan).child() : plan;
    LogicalPlan table = tableOf(statement);
    if (table == null) { return "null"; }
    LogicalPlan named = table instanceof SubqueryAlias ? ((SubqueryAlias) table).child() : table;
    StringBuilder out = new StringBuilder("{\"kind\":").append(quoted(simpleName(statement)));
    out.append(",\"is_within\":").append(within);
    out.append(",\"table\":").append(names(nameOf(named)));
    out.append(",\"is_computed\":").append(named instanceof PlanWithUnresolvedIdentifier);
    out.append(",\"alias\":[");
    if (table instanceof SubqueryAlias) { out.append(quoted(((SubqueryAlias) table).alias())); }
    out.append("],\"has_where\":").append(whereOf(statement) != null);
    if (statement instanceof AnalyzeColumn && ((AnalyzeColumn) statement).columnNames().isDefined()) {
      out.append(",\"statistics_of\":").append(names((Seq) ((AnalyzeColumn) statement).columnNames().get()));
    } else if (statement instanceof UpdateTable) {
      out.append(",\"assignments\":").append(written(((UpdateTable) statement).assignments()));
    } else if (statement instanceof MergeIntoTable) {
      MergeIntoTable merge = (MergeIntoTable) statement;
      out.append(",\"evolves\":").append(merge.withSchemaEvolution()).append(",\"clauses\":[");
      Object[] actions = actionsOf(merge);
      for (int n = 0; n < actions.length; n++) {
        MergeAction action = (MergeAction) actions[n];
        int matched = merge.matchedActions().size(), inserted = matched + merge.notMatchedActions().size();
        out.append(n == 0 ? "{" : ",{").append("\"kind\":").append(quoted(simpleName(action)));
        out.append(",\"matched\":").append(n < matched).append(",\"by_source\":").append(n >= inserted);
        out.append(",\"has_condition\":").append(action.condition().isDefined());
        out.append(",\"assignments\":").append(written(assignmentsOf(action))).append("}");
      }
      out.append("]");
    }
    return out.append("}").toString();
  }

  private static String written(Seq assignments) {
    StringBuilder out = new StringBuilder("[");
    for (int n = 0; n < assignments.size(); n++) {
      Assignment assignment = (Assignment) assignments.apply(n);
      Expression key = assignment.key(), value = assignment.value();
      Seq column = value instanceof UnresolvedAttribute ? ((UnresolvedAttribute) value).nameParts() : null;
      out.append(n == 0 ? "{" : ",{").append("\"key\":");
      out.append(key instanceof UnresolvedAttribute ? names(((UnresolvedAttribute) key).nameParts()) : "[" + quoted(key.sql()) + "]");
      out.append(",\"column\":").append(column == null ? "[]" : names(column));
      out.append(",\"is_default\":").append(column != null && column.size() == 1 && "DEFAULT".equalsIgnoreCase((String) column.apply(0)));
      out.append("}");
    }
    return out.append("]").toString();
  }

  private static LogicalPlan tableOf(LogicalPlan plan) {
    if (plan instanceof DeleteFromTable) { return ((DeleteFromTable) plan).table(); }
    if (plan instanceof UpdateTable) { return ((UpdateTable) plan).table(); }
    if (plan instanceof MergeIntoTable) { return ((MergeIntoTable) plan).targetTable(); }
    if (plan instanceof TruncateTable) { return ((TruncateTable) plan).table(); }
    if (plan instanceof AnalyzeTable) { return ((AnalyzeTable) plan).child(); }
    return plan instanceof AnalyzeColumn ? ((AnalyzeColumn) plan).child() : null;
  }

  private static Seq nameOf(LogicalPlan named) {
    if (named instanceof UnresolvedRelation) { return ((UnresolvedRelation) named).multipartIdentifier(); }
    if (named instanceof UnresolvedTable) { return ((UnresolvedTable) named).multipartIdentifier(); }
    return named instanceof UnresolvedTableOrView ? ((UnresolvedTableOrView) named).multipartIdentifier() : null;
  }

  private static Expression whereOf(LogicalPlan plan) {
    if (plan instanceof UpdateTable) {
      Option condition = ((UpdateTable) plan).condition();
      return condition.isDefined() ? (Expression) condition.get() : null;
    }
    if (!(plan instanceof DeleteFromTable)) { return null; }
    Expression condition = ((DeleteFromTable) plan).condition();
    return condition instanceof Literal && condition.toString().equals("true") ? null : condition;
  }

  private static Object[] actionsOf(MergeIntoTable merge) {
    Seq every = (Seq) ((Seq) merge.matchedActions().$plus$plus(merge.notMatchedActions())).$plus$plus(merge.notMatchedBySourceActions());
    Object[] actions = new Object[every.size()];
    for (int n = 0; n < actions.length; n++) { actions[n] = every.apply(n); }
    return actions;
  }

  private static Seq assignmentsOf(Object action) {
    if (action instanceof UpdateAction) { return ((UpdateAction) action).assignments(); }
    return action instanceof InsertAction ? ((InsertAction) action).assignments() : NONE;
  }

  private static final Seq NONE = (Seq) scala.collection.immutable.Nil$.MODULE$;

  // As analysed

  /** A statement that Spark's analyser has resolved. */
  public static final class Analysed {
    private final LogicalPlan plan;
    private final String text;
    private Analysed(LogicalPlan plan, String text) { this.plan = plan; this.text = text; }
    public String text() { return text; }
    public LogicalPlan source() { return ((MergeIntoTable) plan).sourceTable(); }
  }

  /**
   * Resolves a statement over a plan that has the table's columns, under the name `called`, whose parts
   * NUL separates, unless it is empty.
   */
  public Analysed analysed(SparkSession session, LogicalPlan parsed, LogicalPlan columns, String called) throws Exception {
    LogicalPlan target = columns;
    if (!called.isEmpty()) {
      String[] parts = called.split("\0");
      Seq qualifier = NONE;
      for (int n = parts.length - 2; n >= 0; n--) { qualifier = (Seq) qualifier.prepended(parts[n]); }
      target = new SubqueryAlias(new AliasIdentifier(parts[parts.length - 1], qualifier), columns);
    }
    LogicalPlan plan = parsed instanceof UnresolvedWith ? ((UnresolvedWith) parsed).child() : parsed;
    plan = (LogicalPlan) plan.withNewChildren((Seq) ((Seq) plan.children().tail()).prepended(target));
    if (parsed instanceof UnresolvedWith) {
      UnresolvedWith around = (UnresolvedWith) parsed;
      plan = new UnresolvedWith(plan, around.cteRelations(), around.allowRecursion());
    }
    QueryExecution query = session.sessionState().executePlan(plan, (scala.Enumeration.Value) CommandExecutionMode.SKIP());
    LogicalPlan analysed;
    try {
      query.assertAnalyzed();
      analysed = query.analyzed();
    } catch (Exception error) {
      String condition = error instanceof org.apache.spark.SparkThrowable ? ((org.apache.spark.SparkThrowable) error).getCondition() : null;
      if (condition == null) { throw error; }
      analysed = session.sessionState().analyzer().execute(plan);
      if (condition.startsWith("DATATYPE_MISMATCH.CAST_")) {
        analysed = (LogicalPlan) analysed.transformExpressions(new MatchedByName());
        session.sessionState().analyzer().checkAnalysis(analysed);
      } else if (!condition.equals("INVALID_NON_DETERMINISTIC_EXPRESSIONS") || !setsRandomValues(analysed)) {
        throw error;
      }
    }
    analysed = innermost(analysed);
    // windows add columns below a condition, which are none of the table's
    LogicalPlan of = analysed instanceof MergeIntoTable ? tableOf(analysed) : target;
    return new Analysed(analysed, resolved(analysed, of));
  }

  /** The statement below the definitions of WITH. */
  private static LogicalPlan innermost(LogicalPlan plan) {
    while (tableOf(plan) == null && !plan.children().isEmpty()) { plan = (LogicalPlan) plan.children().last(); }
    return plan;
  }

  /**
   * Whether it is an UPDATE with random values and no random condition: Spark takes it where it rewrites
   * the statement for the table, which it does before its check.
   */
  private static boolean setsRandomValues(LogicalPlan plan) {
    LogicalPlan statement = innermost(plan);
    if (!(statement instanceof UpdateTable)) { return false; }
    Expression where = whereOf(statement);
    return where == null || where.deterministic();
  }

  /**
   * Takes the cast that the analyser puts around the value off an assignment of a struct, list or map: it
   * matches members of structs by position, where tables that take row-level changes match by name.
   */
  public static final class MatchedByName extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof Assignment)) { return false; }
      Expression key = ((Assignment) node).key();
      return (key instanceof AttributeReference || key instanceof GetStructField) && isNested(key.dataType().sql());
    }
    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) { return otherwise.apply(node); }
      Assignment assignment = (Assignment) node;
      return new Assignment(assignment.key(), valueOf(assignment));
    }
  }

  private static boolean isNested(String type) {
    return type.startsWith("STRUCT<") || type.startsWith("ARRAY<") || type.startsWith("MAP<");
  }

  /**
   * The value without the cast to its column's type that the analyser puts around it, which fails for
   * values that do not fit in every mode. A cast of the statement's own is marked or, as `int(x)` is not,
   * has its own place in the text.
   */
  private static Expression valueOf(Assignment assignment) {
    Expression value = assignment.value();
    boolean isAdded = value instanceof Cast && !value.getTagValue(Cast$.MODULE$.USER_SPECIFIED_CAST()).isDefined()
        && value.origin().startIndex().equals(assignment.origin().startIndex());
    return isAdded ? ((Cast) value).child() : value;
  }

  private String resolved(LogicalPlan statement, LogicalPlan target) {
    StringBuilder out = new StringBuilder("{\"target\":").append(columns(target));
    out.append(",\"where\":").append(tree(whereOf(statement)));
    if (statement instanceof UpdateTable) {
      out.append(",\"assignments\":").append(resolved(((UpdateTable) statement).assignments()));
    } else if (statement instanceof MergeIntoTable) {
      MergeIntoTable merge = (MergeIntoTable) statement;
      out.append(",\"source\":").append(columns(merge.sourceTable()));
      out.append(",\"on\":").append(tree(merge.mergeCondition())).append(",\"clauses\":[");
      Object[] actions = actionsOf(merge);
      for (int n = 0; n < actions.length; n++) {
        Option condition = ((MergeAction) actions[n]).condition();
        out.append(n == 0 ? "{" : ",{").append("\"condition\":");
        out.append(tree(condition.isDefined() ? (Expression) condition.get() : null));
        out.append(",\"assignments\":").append(resolved(assignmentsOf(actions[n]))).append("}");
      }
      out.append("]");
    }
    return out.append("}").toString();
  }

  private String resolved(Seq assignments) {
    StringBuilder out = new StringBuilder("[");
    for (int n = 0; n < assignments.size(); n++) {
      Assignment assignment = (Assignment) assignments.apply(n);
      Expression key = assignment.key(), value = valueOf(assignment);
      DataType have = value.dataType(), want = key.dataType();
      boolean keeps = assignment.value() instanceof AttributeReference && key instanceof AttributeReference && have.equals(want);
      String name = key instanceof AttributeReference ? ((AttributeReference) key).name() : key.sql();
      out.append(n == 0 ? "{" : ",{").append("\"name\":").append(quoted(name)).append(",\"key\":").append(quoted(key.sql()));
      out.append(",\"value\":").append(tree(value)).append(",\"keeps_type\":").append(keeps);
      out.append(",\"have\":").append(quoted(have.sql())).append(",\"want\":").append(quoted(want.sql()));
      out.append(",\"ansi\":").append(Cast$.MODULE$.canANSIStoreAssign(have, want));
      out.append(",\"strict\":").append(Cast$.MODULE$.canUpCast(have, want)).append("}");
    }
    return out.append("]").toString();
  }

  /** A text within the text, since trees can be deeper than one reader of JSON goes. */
  private String tree(Expression expression) {
    Object text = expression == null || trees == null ? null : trees.apply(expression);
    return text == null ? "null" : quoted((String) text);
  }

  private static String columns(LogicalPlan plan) {
    StringBuilder out = new StringBuilder("[");
    for (int n = 0; n < plan.output().size(); n++) {
      AttributeReference column = (AttributeReference) plan.output().apply(n);
      out.append(n == 0 ? "[" : ",[").append(column.exprId().id()).append(",").append(quoted(column.name())).append("]");
    }
    return out.append("]").toString();
  }

  private static String simpleName(Object of) {
    String name = of.getClass().getName();
    return name.substring(name.lastIndexOf('.') + 1).replace("$", "");
  }

  private static String names(Seq names) {
    if (names == null) { return "null"; }
    StringBuilder out = new StringBuilder("[");
    for (int n = 0; n < names.size(); n++) { out.append(n == 0 ? "" : ",").append(quoted((String) names.apply(n))); }
    return out.append("]").toString();
  }

  private static String quoted(String text) {
    return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
  }
}
