import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.tvm.ArgTypeCode;
import org.apache.tvm.Device;
import org.apache.tvm.Function;
import org.apache.tvm.Module;
import org.apache.tvm.NDArray;
import org.apache.tvm.TVMError;
import org.apache.tvm.TVMType;
import org.apache.tvm.TVMValue;

/** What the Java interface does: values in both directions, errors, arrays, references, threads. */
public final class Classic {
  private static int failed = 0;

  private static void expect(boolean holds, String what) {
    if (holds) return;
    System.out.println("failed: " + what);
    ++failed;
  }

  private static String errorOf(Runnable body) {
    try {
      body.run();
    } catch (TVMError e) {
      return e.kind() + ": " + e.getMessage();
    }
    return "nothing";
  }

  public static void main(String[] args) throws Exception {
    Function id = Function.convertFunc(all -> all[0]);
    expect(id.call(1L << 40).asLong() == 1L << 40 && id.call((byte) 3).asLong() == 3, "integers");
    expect(id.call(2.5f).asDouble() == 2.5 && id.call(2).asDouble() == 2.0, "numbers");
    expect(id.call(true).typeCode == ArgTypeCode.BOOL && id.call(true).asBoolean(), "a bool");
    expect(id.call("short").asString().equals("short") && id.call("a longer text, ä").asString().equals("a longer text, ä"), "texts");
    expect(Arrays.equals(id.call((Object) new byte[] {1, 0, 2}).asBytes(), new byte[] {1, 0, 2}), "bytes");
    expect(id.call((Object) null).typeCode == ArgTypeCode.NULL && id.call((Object) null).get() == null, "nothing");
    expect(id.call(Device.cuda(2)).get().equals(Device.cuda(2)), "a device");
    expect(id.call(new TVMType("int8x4")).get().toString().equals("int8x4"), "a data type");
    expect(id.call(id).asFunction().call(7).asLong() == 7, "a function");
    expect(id.call((Function.Callback) all -> "inner").asFunction().call().asString().equals("inner"), "a callback that is kept");
    expect(Function.convertFunc(all -> (Function.Callback) more -> more.length).call().asFunction().call(1, 2, 3).asLong() == 3, "a callback as a result");
    Module system = Function.getFunction("runtime.SystemLib").call().asModule();
    expect(id.call(system).asModule().typeKey().equals("library"), "a module");
    expect(id.pushArg(5).invoke().asLong() == 5, "pushed arguments");

    NDArray a = NDArray.empty(new long[] {2, 3}, new TVMType("int32"));
    a.copyFrom(new int[] {1, 2, 3, 4, 5, 6});
    NDArray b = id.call(a).asNDArray();
    expect(Arrays.equals(b.asIntArray(), new int[] {1, 2, 3, 4, 5, 6}) && b.size() == 6 && Arrays.equals(b.shape(), new long[] {2, 3}), "an array");
    expect(b.device().equals(Device.cpu()) && b.dtype().toString().equals("int32") && b.internal().length == 24, "what an array is of");
    NDArray c = a.copyTo(NDArray.empty(new long[] {6}, new TVMType("int32")));
    a.release();
    a.release();
    expect(b.asIntArray()[5] == 6 && c.asIntArray()[0] == 1, "an array that is held twice");
    NDArray empty = NDArray.empty(new long[] {0});
    expect(empty.asFloatArray().length == 0, "an empty array");

    expect(errorOf(() -> id.call("x").asLong()).equals("TypeError: an integer was expected, but the value is of the kind STR"), "another kind");
    expect(errorOf(() -> system.getFunction("none")).equals("AttributeError: the module has no function `none`"), "no function");
    expect(errorOf(() -> Module.load("/nowhere.so")).startsWith("FileNotFoundError: "), "no file");
    expect(Function.getFunction("no.such") == null, "no global function");
    Function.register("java.f", all -> 1);
    expect(errorOf(() -> Function.register("java.f", all -> 2)).startsWith("ValueError: global function `java.f` is already registered"), "a name twice");
    Function.register("java.f", all -> 3, true);
    expect(Function.getFunction("java.f").call().asLong() == 3 && Function.listGlobalFuncNames().contains("java.f"), "a name again");
    expect(errorOf(() -> Function.convertFunc(all -> all[3]).call()).startsWith("IndexError: "), "an index");
    expect(errorOf(() -> Function.convertFunc(all -> { throw new TVMError("KeyError: lost"); }).call()).equals("KeyError: lost"), "an error that goes through");
    expect(errorOf(() -> Function.convertFunc(all -> { throw new IllegalStateException("x"); }).call()).equals("RuntimeError: java.lang.IllegalStateException: x"),
        "an exception of Java");
    expect(errorOf(() -> NDArray.empty(new long[] {-1})).startsWith("ValueError: "), "a negative extent");

    List<Thread> threads = new ArrayList<>();
    long[] sums = new long[4];
    for (int t = 0; t < sums.length; ++t) {
      int which = t;
      threads.add(new Thread(() -> {
        for (int i = 0; i < 2000; ++i) sums[which] += id.call((Function.Callback) all -> all[0].asLong() + 1).asFunction().call(i).asLong();
      }));
    }
    for (Thread t : threads) t.start();
    for (Thread t : threads) t.join();
    expect(Arrays.stream(sums).allMatch(s -> s == 2000L * 2001 / 2), "calls of several threads");
    if (failed == 0) System.out.println("fine");
    System.exit(failed);
  }
}
