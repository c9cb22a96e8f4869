package frazil.spark.jvm;

import java.lang.reflect.Field;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
//since 4.2: import org.apache.spark.sql.catalyst.analysis.NamedStreamingRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedDataSource;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * A rule of a session's analyser, before names are resolved. What no text was parsed for is shown
 * to Python: a DELETE, UPDATE or MERGE (`Dataset.mergeInto` of Scala and of Spark Connect), a read of
 * `format("iceberg")`, and a table that is read as a stream. A session that the JVM has made lets
 * Python make the catalogs known when it first looks for one.
 */
public final class RowChanges extends Rule {
  /** On a plan that Spark is to run as it is. */
  private static final TreeNodeTag LEFT = new TreeNodeTag("frazil.left");
  private final SparkSession session;
  private Function sessions;
  private Function statements;
  /** Whether the thread asks Python, which analyses plans of its own meanwhile. */
  private static final ThreadLocal ASKING = new ThreadLocal();

  /** `sessions`: gives, of a session, what is shown its plans: returns another plan, or null. */
  public RowChanges(SparkSession session, Function sessions) { this.session = session; this.sessions = sessions; }

  /** Make such a rule one of the sessions that the JVM makes of this one. */
  public void addToNewSessions() { session.extensions().injectHintResolutionRule(new ForNewSessions(sessions)); }

  /** Make the rule one of the session's, whose analyser may be there already. */
  public void add() throws Exception {
    Analyzer analyser = session.sessionState().analyzer();
    Seq rules = analyser.hintResolutionRules();
    for (int n = 0; n < rules.size(); n++) {
      if (rules.apply(n) instanceof RowChanges) {
        RowChanges there = (RowChanges) rules.apply(n);
        there.sessions = sessions;
        there.statements = null;
        return;
      }
    }
    Field field = analyser.getClass().getDeclaredField("hintResolutionRules");
    field.setAccessible(true);
    field.set(analyser, rules.appended(this));
  }

  public TreeNode apply(TreeNode plan) {
    if (ASKING.get() != null || plan.getTagValue(LEFT).isDefined()) { return plan; }
    boolean changes = isNamed(plan instanceof DeleteFromTable ? ((DeleteFromTable) plan).table()
        : plan instanceof UpdateTable ? ((UpdateTable) plan).table()
        : plan instanceof MergeIntoTable ? ((MergeIntoTable) plan).targetTable() : null);
    boolean reads = isRead(plan), streams = !reads && ((LogicalPlan) plan).isStreaming();
    if (statements == null && (changes || reads || streams || !isPrepared())) { ask(); }
    if (streams) { return ((LogicalPlan) plan).resolveOperatorsUp(new Reads(statements)); }
    Object taken = changes || reads ? statements.apply(plan) : null;
    return taken == null ? plan : (TreeNode) taken;
  }

  /** Shows the reads within a plan of a stream. */
  public static final class Reads extends AbstractPartialFunction {
    private final Function statements;
    public Reads(Function statements) { this.statements = statements; }
    public boolean isDefinedAt(Object plan) { return isRead((TreeNode) plan); }
    public Object applyOrElse(Object plan, Function1 otherwise) {
      Object taken = isDefinedAt(plan) ? statements.apply(plan) : null;
      return taken == null ? otherwise.apply(plan) : taken;
    }
  }

  /** Let Python make the catalogs known, once. */
  private synchronized void ask() {
    if (statements != null) { return; }
    ASKING.set(this);
    try { statements = (Function) sessions.apply(session); } finally { ASKING.remove(); }
  }

  private boolean isPrepared() { return "true".equals(session.conf().get("spark.frazil.installed", "false")); }

  private static boolean isRead(TreeNode plan) {
    TreeNode read = plan;
    //since 4.2: if (read instanceof NamedStreamingRelation) { read = ((NamedStreamingRelation) read).child(); }
    if (read instanceof UnresolvedRelation) { return ((UnresolvedRelation) read).isStreaming(); }
    return read instanceof UnresolvedDataSource && ((UnresolvedDataSource) read).format().equalsIgnoreCase("iceberg");
  }

  private static boolean isNamed(LogicalPlan table) {
    return table instanceof UnresolvedRelation || (table instanceof SubqueryAlias && ((SubqueryAlias) table).child() instanceof UnresolvedRelation);
  }

  public static final class ForNewSessions extends AbstractFunction1 {
    private final Function sessions;
    public ForNewSessions(Function sessions) { this.sessions = sessions; }
    public Object apply(Object session) {
      RowChanges rule = new RowChanges((SparkSession) session, sessions);
      // Spark builds the analyser when a session first looks for a catalog. Python, which looks for
      // them as well, has another one built meanwhile, over the same catalogs.
      if (ASKING.get() == null && !rule.isPrepared()) {
        try { rule.ask(); } catch (RuntimeException e) { return rule; }  // the first plan asks again, and fails
      }
      return rule;
    }
  }
}
