/// What to do about what any test may find, whatever it was looking for.
enum CheckRemedy {
  private static let table: [(part: String, remedy: String)] = [
    (
      "which it had refused",
      "return 0 from start for a call that is completed, else complete nothing"
    ),
    (
      "and then refused it",
      "return 0 from start for a call that is completed, else complete nothing"
    ),
    ("more than once", "let one place own the completion of a call"),
    ("which was never made", "complete the id of pdr_call, and no other number"),
    ("from a release function", "let release only free memory"),
    ("from its entry function", "call nothing but host->query in perdure_plugin_1"),
    ("after it was destroyed", "join every thread and drop every callback before destroy returns"),
    ("it was stopped", "complete every open call and join every thread before lifecycle.stopped"),
    ("ticket", "answer with the number that deactivate was called with"),
    ("without credit", "wait for the operation output.flush after PDR_E_WOULD_BLOCK"),
    ("no UTF-8", "emit bytes that may be no text as application/octet-stream; keep messages UTF-8"),
    ("emitted output", "emit only for tools and wraps of tools"),
    ("size says", "set the member size to sizeof of the struct and zero the rest"),
    ("null pointer", "set len to 0 when there are no bytes"),
    ("flags", "leave flags 0"),
    ("more than any host takes", "set len to the number of bytes"),
    ("bytes of pdr_plugin", "compare out->size before filling in members, or refuse a smaller one"),
    ("bytes of a pdr_call", "read a member only if call->size covers it"),
    ("past the", "use ptr with len, never as a C string"),
    ("only lent", "copy the bytes before changing them"),
    ("given back", "copy what is needed after start has returned"),
  ]

  /// What to do about a broken promise or a crash, if the words of the sentence tell.
  static func of(_ sentence: String) -> String? {
    table.first { sentence.contains($0.part) }?.remedy
  }

  /// What to do about a process that ended.
  static func ofEnd(_ sentence: String, name: String) -> String {
    of(sentence) ?? "run it in a debugger with --in-process --group \(name)"
  }
}
