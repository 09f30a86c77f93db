// A model in Java, and functions in Java that the runtime calls:
//   java -cp CLASSES --enable-native-access=ALL-UNNAMED -Dtilewright.library=... examples/java/Deploy.java FOLDER
// FOLDER is one that examples/cpp/models.py wrote.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.tvm.Device;
import org.apache.tvm.Function;
import org.apache.tvm.Module;
import org.apache.tvm.NDArray;
import org.apache.tvm.TVMError;
import org.apache.tvm.TVMType;
import org.apache.tvm.contrib.GraphExecutor;
import org.apache.tvm.contrib.GraphModule;

public final class Deploy {
  public static void main(String[] args) throws Exception {
    String folder = args[0];
    Device cpu = Device.cpu();

    NDArray x = NDArray.empty(new long[] {2, 2}, new TVMType("float32"));
    x.copyFrom(new float[] {0, 10, 20, 30});
    GraphModule model = new GraphModule(Module.load(folder + "/model.so").getFunction("default").call(cpu).asModule(), cpu);
    NDArray y = model.setInput("x", x).run().getOutput(0);
    System.out.println(Arrays.toString(y.asFloatArray()) + " ahead of time");

    GraphModule graph = GraphExecutor.create(Files.readString(Path.of(folder, "deploy.json")), Module.load(folder + "/deploy.so"), cpu);
    graph.loadParams(Files.readAllBytes(Path.of(folder, "deploy.params"))).setInput(0, x).run();
    System.out.println(Arrays.toString(graph.getOutput(0, y).asFloatArray()) + " from three files");

    Function.register("example.join", all -> all[0].asString() + all[1].asLong());
    System.out.println(Function.getFunction("example.join").call("a", 1).asString());
    Function apply = Function.convertFunc(all -> all[0].asFunction().call(all[1]));
    System.out.println(apply.call((Function.Callback) all -> 2 * all[0].asDouble(), 21).asDouble());
    try {
      apply.call((Function.Callback) all -> {
        throw new IllegalArgumentException("no ink");
      }, 1);
    } catch (TVMError e) {
      System.out.println(e.kind() + ": " + e.getMessage());
    }
    try {
      model.setInput("x", NDArray.empty(new long[] {3}));
    } catch (TVMError e) {
      System.out.println(e.kind() + ": " + e.getMessage());
    }
  }
}
