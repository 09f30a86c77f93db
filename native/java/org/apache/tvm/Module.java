package org.apache.tvm;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** A module: something that answers names with functions, and imports others that may be asked in turn. */
public final class Module extends Handle {
  private Function entry;

  Module(MemorySegment address) {
    super(address, "TVMModFree");
  }

  /** A compiled library from a file. */
  public static Module load(String path) {
    return load(path, "");
  }

  public static Module load(String path, String format) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      Native.call("TVMModLoadFromFile", arena.allocateFrom(path), arena.allocateFrom(format), out);
      return new Module(out.get(ADDRESS, 0));
    }
  }

  /** The function of a name, with the imported modules if they are to be asked too. Throws where there is none. */
  public Function getFunction(String name, boolean queryImports) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      Native.call("TVMModGetFunction", address(), arena.allocateFrom(name), queryImports ? 1 : 0, out);
      MemorySegment found = out.get(ADDRESS, 0);
      if (found.address() == 0) throw new TVMError("AttributeError: the module has no function `" + name + "`" + near(name));
      return new Function(found);
    }
  }

  /** "; did you mean ...?" with near names of its functions; empty where no name is near. */
  private String near(String name) {
    try (Function ask = Function.getFunction("runtime.NearFunctions")) {
      return ask.call(this, name).asString();
    }
  }

  public Function getFunction(String name) {
    return getFunction(name, false);
  }

  /** The main function. */
  public Function entryFunc() {
    if (entry == null) entry = getFunction("__tvm_main__");
    return entry;
  }

  public void importModule(Module other) {
    Native.call("TVMModImport", address(), other.address());
  }

  /** Which kind of module it is. */
  public String typeKey() {
    try (Function ask = Function.getFunction("runtime.ModuleGetTypeKey")) {
      return ask.call(this).asString();
    }
  }
}
