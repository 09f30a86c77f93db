package org.apache.tvm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** A packed function. */
public final class Function extends Handle {
  /** A function in Java: the result is a value that a call takes, or null. What it throws is the error of the call. */
  @FunctionalInterface
  public interface Callback {
    Object invoke(TVMValue... args);
  }

  private final List<Object> arguments = new ArrayList<>();

  Function(MemorySegment address) {
    super(address, "TVMFuncFree");
  }

  /** The function that is registered under a name; null where there is none. */
  public static Function getFunction(String name) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      Native.call("TVMFuncGetGlobal", arena.allocateFrom(name), out);
      MemorySegment found = out.get(ADDRESS, 0);
      return found.address() == 0 ? null : new Function(found);
    }
  }

  /** Registers a function for all languages of the process. */
  public static void register(String name, Callback callback, boolean override) {
    try (Function f = convertFunc(callback); Arena arena = Arena.ofConfined()) {
      Native.call("TVMFuncRegisterGlobal", arena.allocateFrom(name), f.address(), override ? 1 : 0);
    }
  }

  public static void register(String name, Callback callback) {
    register(name, callback, false);
  }

  /** Names of all registered functions. */
  public static List<String> listGlobalFuncNames() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment count = arena.allocate(JAVA_INT), names = arena.allocate(ADDRESS);
      Native.call("TVMFuncListGlobalNames", count, names);
      List<String> all = new ArrayList<>();
      MemorySegment list = names.get(Native.POINTER, 0);
      for (int i = 0; i < count.get(JAVA_INT, 0); ++i) all.add(list.getAtIndex(Native.POINTER, i).getString(0));
      return all;
    }
  }

  /** A packed function that calls one in Java. */
  public static Function convertFunc(Callback callback) {
    long key = Native.NEXT_CALLBACK.getAndIncrement();
    Native.CALLBACKS.put(key, callback);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      Native.call("TVMFuncCreateFromCFunc", Native.ENTER, MemorySegment.ofAddress(key), Native.FORGET, out);
      return new Function(out.get(ADDRESS, 0));
    }
  }

  /** Adds an argument to the next invoke(). */
  public Function pushArg(Object argument) {
    arguments.add(argument);
    return this;
  }

  public Function pushArgs(Object[] all) {
    arguments.addAll(List.of(all));
    return this;
  }

  /** Calls with the arguments that were pushed. */
  public TVMValue invoke() {
    Object[] all = arguments.toArray();
    arguments.clear();
    return call(all);
  }

  /** Calls; arguments are numbers, String, byte[], Device, TVMType, NDArray, Module, Function, Callback, TVMValue or null. */
  public TVMValue call(Object... args) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment values = arena.allocate(8L * (args.length + 1), 8), codes = arena.allocate(4L * (args.length + 1), 4);
      List<Function> made = new ArrayList<>();
      for (int i = 0; i < args.length; ++i) {
        Object argument = args[i];
        if (argument instanceof Callback c) made.add((Function) (argument = convertFunc(c)));
        codes.setAtIndex(JAVA_INT, i, TVMValue.put(argument, values.asSlice(8L * i, 8), arena));
      }
      MemorySegment result = arena.allocate(8, 8), code = arena.allocate(JAVA_INT);
      Native.call("TVMFuncCall", address(), values, codes, args.length, result, code);
      made.forEach(Function::release);
      for (Object argument : args) java.lang.ref.Reference.reachabilityFence(argument);
      java.lang.ref.Reference.reachabilityFence(this);
      return TVMValue.of(result, code.get(JAVA_INT, 0));
    }
  }
}
