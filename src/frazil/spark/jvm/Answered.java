package frazil.spark.jvm;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/** Puts objects before objects of Python, which remember the answers that do not change: Spark asks a table a dozen times what it can do. */
public final class Answered {
  private final Set remembered;

  /** Takes the names of the methods, all without arguments, whose answers stay the same. */
  public Answered(Set remembered) { this.remembered = remembered; }

  /** Returns an object with the interfaces of one of Python's. */
  public Object before(Object asked) {
    Class[] interfaces = asked.getClass().getInterfaces();
    return Proxy.newProxyInstance(interfaces[0].getClassLoader(), interfaces, new Handler(asked, remembered));
  }

  static final class Handler implements InvocationHandler {
    private final Object asked;
    private final Set remembered;
    private final Map answers = new HashMap();

    Handler(Object asked, Set remembered) {
      this.asked = asked;
      this.remembered = remembered;
    }

    public Object invoke(Object shown, Method method, Object[] arguments) throws Throwable {
      String name = method.getName();
      if (name.equals("equals")) { return Boolean.valueOf(shown == arguments[0]); }
      if (name.equals("hashCode")) { return Integer.valueOf(System.identityHashCode(shown)); }
      if (arguments != null || !remembered.contains(name)) { return ask(method, arguments); }
      synchronized (answers) {
        if (answers.containsKey(name)) { return answers.get(name); }
      }
      Object answer = ask(method, arguments); // without the lock, as Python may ask Spark in turn
      synchronized (answers) { answers.put(name, answer); }
      return answer;
    }

    private Object ask(Method method, Object[] arguments) throws Throwable {
      try {
        return method.invoke(asked, arguments);
      } catch (InvocationTargetException e) {
        throw e.getTargetException();
      }
    }
  }
}
