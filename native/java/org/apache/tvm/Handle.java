package org.apache.tvm;

import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;

/** One reference to an object of the runtime, given back by release(), or once Java has no use of it any more. */
abstract class Handle implements AutoCloseable {
  private static final Cleaner CLEANER = Cleaner.create();
  private final MemorySegment address;
  private final Cleaner.Cleanable reference;

  Handle(MemorySegment address, String free) {
    this.address = address;
    // It does not hold `this`, which would never be without use then.
    reference = CLEANER.register(this, () -> {
      if (free != null) Native.call(free, address);
    });
  }

  final MemorySegment address() {
    return address;
  }

  /** Gives the reference back; the object must not be used after that. */
  public void release() {
    reference.clean();
  }

  @Override
  public void close() {
    release();
  }
}
