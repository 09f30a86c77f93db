package org.apache.tvm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** The C interface of the runtime library (tvm/runtime/c_runtime_api.h), called through java.lang.foreign. */
final class Native {
  /** Addresses that lead to memory of any size. */
  static final AddressLayout POINTER = ADDRESS.withTargetLayout(MemoryLayout.sequenceLayout(Long.MAX_VALUE, java.lang.foreign.ValueLayout.JAVA_BYTE));

  private static final Linker LINKER = Linker.nativeLinker();
  private static final SymbolLookup LIBRARY = library();
  private static final Map<String, MethodHandle> KNOWN = new ConcurrentHashMap<>();

  static final Map<Long, Function.Callback> CALLBACKS = new ConcurrentHashMap<>();
  static final AtomicLong NEXT_CALLBACK = new AtomicLong(1);
  static final MemorySegment ENTER = stub("enter", FunctionDescriptor.of(JAVA_INT, POINTER, POINTER, JAVA_INT, POINTER, JAVA_LONG));
  static final MemorySegment FORGET = stub("forget", FunctionDescriptor.ofVoid(JAVA_LONG));

  private Native() {}

  /** The library of the property or environment variable, or one that the system's loader finds. */
  private static SymbolLookup library() {
    String path = System.getProperty("tilewright.library", System.getenv("TILEWRIGHT_LIBRARY"));
    if (path == null) path = System.mapLibraryName("tilewright_runtime");
    try {
      Path file = Path.of(path);
      return Files.exists(file) ? SymbolLookup.libraryLookup(file, Arena.global()) : SymbolLookup.libraryLookup(path, Arena.global());
    } catch (IllegalArgumentException e) {
      throw new TVMError("RuntimeError: cannot load the runtime library " + path + ": give its path as -Dtilewright.library=... (`tilewright runtime"
          + " config --libdir` prints its folder)");
    }
  }

  private static MemorySegment stub(String name, FunctionDescriptor descriptor) {
    try {
      MethodType type = descriptor.toMethodType();
      return LINKER.upcallStub(MethodHandles.lookup().findStatic(Native.class, name, type), descriptor, Arena.global());
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  /** Calls a function that returns a code; arguments are int, long or MemorySegment. */
  static void call(String name, Object... args) {
    int code;
    try {
      code = (int) function(name, args).invokeWithArguments(args);
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
    if (code != 0) throw lastError();
  }

  private static MethodHandle function(String name, Object[] args) {
    MethodHandle known = KNOWN.get(name);
    if (known != null) return known;
    MemoryLayout[] layouts = new MemoryLayout[args.length];
    for (int i = 0; i < args.length; ++i) layouts[i] = args[i] instanceof Integer ? JAVA_INT : args[i] instanceof Long ? JAVA_LONG : ADDRESS;
    return handle(name, FunctionDescriptor.of(JAVA_INT, layouts));
  }

  private static MethodHandle handle(String name, FunctionDescriptor descriptor) {
    return KNOWN.computeIfAbsent(name, n -> LINKER.downcallHandle(LIBRARY.find(n).orElseThrow(() -> new TVMError("RuntimeError: the runtime library has no function " + n)), descriptor));
  }

  private static TVMError lastError() {
    try {
      MemorySegment text = (MemorySegment) handle("TVMGetLastError", FunctionDescriptor.of(POINTER)).invokeExact();
      return new TVMError(text.getString(0));
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw new AssertionError(e);
    }
  }

  /** Called by the runtime: a function in Java. What it throws becomes the error of the call. */
  @SuppressWarnings("unused")
  private static int enter(MemorySegment values, MemorySegment codes, int count, MemorySegment ret, long key) {
    try (Arena arena = Arena.ofConfined()) {
      TVMValue[] args = new TVMValue[count];
      for (int i = 0; i < count; ++i) {
        // Objects become this side's own references.
        MemorySegment value = values.asSlice(8L * i, 8), code = codes.asSlice(4L * i, 4);
        if (TVMValue.isObject(code.get(JAVA_INT, 0))) call("TVMCbArgToReturn", value, code);
        args[i] = TVMValue.of(value, code.get(JAVA_INT, 0));
      }
      Object result = CALLBACKS.get(key).invoke(args);
      if (result instanceof Function.Callback c) result = Function.convertFunc(c);
      if (result != null) {
        MemorySegment value = arena.allocate(8), code = arena.allocate(JAVA_INT);
        code.set(JAVA_INT, 0, TVMValue.put(result, value, arena));
        call("TVMCFuncSetReturn", ret, value, code, 1);
        java.lang.ref.Reference.reachabilityFence(result);
      }
      return 0;
    } catch (Throwable e) {
      raise(e);
      return -1;
    }
  }

  private static void raise(Throwable e) {
    String message = e.getMessage() == null ? "" : e.getMessage();
    String text = e instanceof TVMError error ? error.kind() + ": " + message
        : e instanceof IllegalArgumentException ? "ValueError: " + message
        : e instanceof IndexOutOfBoundsException ? "IndexError: " + message
        : "RuntimeError: " + e.getClass().getName() + (message.isEmpty() ? "" : ": " + message);
    try (Arena arena = Arena.ofConfined()) {
      handle("TVMAPISetLastError", FunctionDescriptor.ofVoid(ADDRESS)).invokeExact(arena.allocateFrom(text));
    } catch (Throwable other) {
      throw new AssertionError(other);
    }
  }

  /** Called by the runtime: nobody can call the function any more. */
  @SuppressWarnings("unused")
  private static void forget(long key) {
    CALLBACKS.remove(key);
  }
}
