package org.apache.tvm;

/** What a function of the runtime, of a library or of another language raised. */
public class TVMError extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private final String kind;

  /** @param text "ValueError: the message", or a message alone */
  public TVMError(String text) {
    super(text.substring(start(text)));
    kind = start(text) == 0 ? "InternalError" : text.substring(0, start(text) - 2);
  }

  private static int start(String text) {
    int end = text.indexOf(": ");
    return end > 0 && text.substring(0, end).matches("\\w+(Error|Exception|Interrupt|Iteration)") ? end + 2 : 0;
  }

  /** The name of its type, such as "ValueError". */
  public String kind() {
    return kind;
  }
}
