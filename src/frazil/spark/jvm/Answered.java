package frazil.spark.jvm;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Map;

/** Stands before an object of Python: what never changes is answered in the JVM, all else is asked of Python. */
public final class Answered implements InvocationHandler {
  private final Object asked;
  private final Map answers;

  public Answered(Object asked, Map answers) {
    this.asked = asked;
    this.answers = answers;
  }

  /** Returns an object with the interfaces of Python's. */
  public Object shown() {
    Class[] interfaces = asked.getClass().getInterfaces();
    return Proxy.newProxyInstance(interfaces[0].getClassLoader(), interfaces, this);
  }

  public Object invoke(Object shown, Method method, Object[] arguments) throws Throwable {
    String name = method.getName();
    if (name.equals("equals")) { return Boolean.valueOf(shown == arguments[0]); }
    if (name.equals("hashCode")) { return Integer.valueOf(System.identityHashCode(shown)); }
    if (arguments == null && answers.containsKey(name)) { return answers.get(name); }
    try {
      return method.invoke(asked, arguments);
    } catch (InvocationTargetException e) {
      throw e.getTargetException();
    }
  }
}
