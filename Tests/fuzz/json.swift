// What the parser accepts must survive printing; what it refuses must not trap. The parity of
// the length chooses the options, so that both ways to call it are covered by a plain corpus.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOne(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let start, count > 0 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: start, count: count))
  let options = count.isMultiple(of: 2) ? JSON.ParseOptions() : JSON.ParseOptions.border
  guard let value = try? JSON(parsing: bytes, options: options) else { return 0 }
  let printed = value.encoded
  guard let again = try? JSON(parsing: printed, options: options), again == value,
    again.encoded == printed
  else { fatalError("a value changed when it was printed and parsed") }
  applyOperations(value)
  checkSchema(value)
  return 0
}

/// Reads the value as a batch and applies it to itself; nothing may trap.
private func applyOperations(_ value: JSON) {
  guard let batch = try? Operation.batch(json: value) else { return }
  var target = value
  for operation in batch {
    let before = target
    if (try? target.apply(operation)) == nil, target != before {
      fatalError("a failed operation changed the value")
    }
  }
}

/// Reads the value as a schema and checks it against itself; nothing may trap.
private func checkSchema(_ value: JSON) {
  guard let schema = try? JSONSchema(compiling: value) else { return }
  _ = schema.validate(schema.coerce(value))
}
