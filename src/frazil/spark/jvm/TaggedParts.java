package frazil.spark.jvm;

import java.util.ArrayDeque;
import java.util.Locale;
import java.util.function.Function;
import java.util.function.IntSupplier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.collection.Seq;

/**
 * Finds the tagged parts of a plan, its sub-queries included: writes the number of each tag as a line, and the word
 * "connector" for a relation that reads an Iceberg table by a connector that tags no plans (Java's, or the format
 * "iceberg" in Python). The relations of Frazil have the names of their tables.
 */
public final class TaggedParts implements Function {
  private final TreeNodeTag tag;

  public TaggedParts(TreeNodeTag tag) { this.tag = tag; }

  public Object apply(Object plan) {
    StringBuilder found = new StringBuilder();
    ArrayDeque open = new ArrayDeque();
    open.push(plan);
    while (!open.isEmpty()) {
      LogicalPlan node = (LogicalPlan) open.pop();
      Option value = node.getTagValue(tag);
      if (value.isDefined()) { found.append(((IntSupplier) value.get()).getAsInt()).append("\n"); }
      if (node instanceof DataSourceV2Relation && isByConnector(((DataSourceV2Relation) node).table())) { found.append("connector\n"); }
      pushAll(node.children(), open);
      pushAll(node.subqueries(), open);
    }
    return found.toString();
  }

  private static boolean isByConnector(Table table) {
    return table.getClass().getName().contains("iceberg") || table.name().toLowerCase(Locale.ROOT).equals("iceberg");
  }

  private static void pushAll(Seq plans, ArrayDeque open) {
    for (int n = 0; n < plans.size(); n++) { open.push(plans.apply(n)); }
  }
}
