import PerdureValue

/// Reads the descriptions of functions in a manifest of the runtime `ffi`.
///
/// What can be known to be wrong without the header of the library is refused here.
struct ForeignReader {
  static let runtime = "ffi"

  private static let words =
    ForeignScalar.allCases.map(\.rawValue)
    + ["ptr", "cstr_in", "bytes_in", "bytes_out", "struct"]

  /// The libraries by the names that the tools have for them.
  private let libraries: [String: String]
  private var parameters: JSON = .null
  private var used: Set<String> = []

  /// Reads the libraries of the whole manifest.
  init(_ reader: inout FieldReader) throws(BorderProblem) {
    var found: [String: String] = [:]
    let names = try reader.required("libraries", reader.object("libraries"))
    for (key, value) in names.members {
      let at = names.path(key.string)
      guard let file = value.string?.unicode, !file.isEmpty, !file.utf8.contains(0) else {
        throw .shape("a library that is no name such as libm.so.6", at: at)
      }
      guard file.hasPrefix("/") || !file.utf8.contains(UInt8(ascii: "/")) else {
        throw .shape("a library with a path that is not absolute", at: at)
      }
      found[key.string] = file
    }
    libraries = found
  }

  /// Reads the function of a tool with these parameters.
  mutating func function(
    _ reader: inout FieldReader,
    _ parameters: JSON
  ) throws(BorderProblem) -> ForeignFunction {
    self.parameters = parameters
    used = []
    let name = try reader.required("library", reader.string("library"))
    guard let library = libraries[name] else {
      throw .shape("a library \(name) that \"libraries\" lacks", at: reader.path("library"))
    }
    let symbol = try reader.name("symbol", "the name of a function in C", Self.isSymbol)
    let at = reader.path("args")
    let elements = try reader.required("args", reader.any("args"))
    guard let elements = elements.array else { throw .shape("a value that is no array", at: at) }
    var list: [ForeignParameter] = []
    for (index, element) in elements.enumerated() {
      list.append(try parameter(element, "\(at)/\(index)"))
    }
    let function = ForeignFunction(
      library: library,
      symbol: symbol,
      parameters: list,
      returns: try returned(reader.any("returns"), reader.path("returns"))
    )
    try check(function, reader)
    return function
  }

  private func check(_ function: ForeignFunction, _ reader: FieldReader) throws(BorderProblem) {
    guard function.count <= ForeignFunction.limit else {
      throw .shape(
        "\(function.count) parameters (at most \(ForeignFunction.limit))",
        at: reader.path("args")
      )
    }
    for key in parameters["properties"]?.object?.keys ?? [] where !used.contains(key.string) {
      throw .shape("a parameter \(key) of the tool that goes nowhere", at: reader.path("args"))
    }
    var names: Set<String> = []
    for parameter in function.parameters {
      switch parameter {
      case .scalarOut(let name, _), .bytesOut(let name, _, _, _, _):
        guard names.insert(name).inserted else {
          throw .shape("two values with the name \(name)", at: reader.path("args"))
        }
      case .scalar, .null, .text, .bytesIn, .structure: break
      }
      guard case .bytesOut(_, _, _, .result, _) = parameter else { continue }
      guard case .scalar(let type) = function.returns.kind, !type.isFloating else {
        throw .shape(
          "a buffer whose length is returned by a function that returns no integer",
          at: reader.path("returns")
        )
      }
    }
    if !function.returns.isStatus, names.contains(function.returns.name) {
      throw .shape("two values with the name \(function.returns.name)", at: reader.path("returns"))
    }
  }

  private static func isSymbol(_ text: String) -> Bool {
    guard let first = text.utf8.first, !(48...57).contains(first), text.utf8.count <= 256 else {
      return false
    }
    return text.utf8.allSatisfy {
      (48...57).contains($0) || (65...90).contains($0) || (97...122).contains($0) || $0 == 95
    }
  }

  // MARK: Parameters

  private mutating func parameter(
    _ element: JSON,
    _ at: String
  ) throws(BorderProblem) -> ForeignParameter {
    guard let object = element.object else { throw .shape("a value that is no object", at: at) }
    var reader = FieldReader(object, at: at)
    let word = try reader.required("type", reader.string("type"))
    let parameter: ForeignParameter
    if let scalar = ForeignScalar(rawValue: word) {
      let kinds = scalar.isFloating ? ["number", "integer"] : ["integer"]
      parameter = .scalar(scalar, try source(&reader, kinds))
    } else {
      switch word {
      case "ptr": parameter = try pointer(&reader)
      case "cstr_in": parameter = .text(try source(&reader, ["string"]))
      case "bytes_in":
        parameter = .bytesIn(
          try source(&reader, ["string"]),
          length: try length(&reader),
          try reader.word("encoding", as: ForeignEncoding.self) ?? .text
        )
      case "bytes_out": parameter = try buffer(&reader)
      case "struct":
        parameter = .structure(try members(&reader), try source(&reader, ["object"]))
      default: throw Self.unknown(word, reader.path("type"))
      }
    }
    try reader.finish()
    guard let first = reader.unknown.first else { return parameter }
    throw .shape("a member that \(word) does not have", at: first)
  }

  private static func unknown(_ word: String, _ at: String) -> BorderProblem {
    .shape("the unknown type \(word) (there are \(words.joined(separator: ", ")))", at: at)
  }

  private mutating func pointer(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> ForeignParameter {
    guard let word = try reader.string("to") else {
      guard reader.any("value")?.isNull == true else {
        throw .shape(
          "a ptr that is neither \"value\": null nor \"to\" a number that the function sets",
          at: reader.pointer
        )
      }
      return .null
    }
    guard let scalar = ForeignScalar(rawValue: word) else {
      throw Self.unknown(word, reader.path("to"))
    }
    return .scalarOut(name: try reader.required("name", reader.string("name")), scalar)
  }

  private mutating func buffer(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> ForeignParameter {
    let at = reader.path("room")
    let room: ForeignSource
    switch try reader.required("room", reader.any("room")) {
    case .int(let number) where (1...ForeignParameter.roomLimit).contains(number):
      room = .constant(.int(number))
    case .string(let name): room = .argument(try argument(name.string, ["integer"], at))
    default:
      throw .shape(
        "a room that is neither from 1 to \(ForeignParameter.roomLimit) nor an argument",
        at: at
      )
    }
    return .bytesOut(
      name: try reader.string("name") ?? "bytes",
      room: room,
      length: try length(&reader),
      try reader.word("written", as: ForeignParameter.Written.self) ?? .pointer,
      try reader.word("encoding", as: ForeignEncoding.self) ?? .text
    )
  }

  /// The type of the length of a buffer.
  private func length(_ reader: inout FieldReader) throws(BorderProblem) -> ForeignScalar {
    guard let word = try reader.string("length") else {
      throw .shape("a buffer without a length", at: reader.pointer)
    }
    guard let scalar = ForeignScalar(rawValue: word), !scalar.isFloating else {
      throw .shape("a length that is no integer type (\(word))", at: reader.path("length"))
    }
    return scalar
  }

  private func members(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> [ForeignMember] {
    let members = try reader.objects("members") { reader throws(BorderProblem) in
      let name = try reader.required("name", reader.string("name"))
      let word = try reader.required("type", reader.string("type"))
      guard let type = ForeignScalar(rawValue: word) else {
        throw Self.unknown(word, reader.path("type"))
      }
      return ForeignMember(name: name, type: type)
    }
    guard !members.isEmpty else { throw .shape("a struct without members", at: reader.pointer) }
    return members
  }

  private mutating func source(
    _ reader: inout FieldReader,
    _ kinds: [String]
  ) throws(BorderProblem) -> ForeignSource {
    let name = try reader.string("from")
    let value = reader.any("value")
    switch (name, value) {
    case (let name?, nil):
      return .argument(try argument(name, kinds, reader.path("from")))
    case (nil, let value?):
      guard Self.fits(value, kinds) else {
        throw .shape("a value that is no \(kinds[0])", at: reader.path("value"))
      }
      return .constant(value)
    default: throw .shape("a value without exactly one of from and value", at: reader.pointer)
    }
  }

  private static func fits(_ value: JSON, _ kinds: [String]) -> Bool {
    switch value {
    case .int, .bigInteger: kinds.contains("integer")
    case .double: kinds.contains("number")
    case .string: kinds.contains("string")
    case .object: kinds.contains("object")
    case .null, .bool, .array: false
    }
  }

  /// Checks that the tool has such a parameter, always and of such a kind.
  private mutating func argument(
    _ name: String,
    _ kinds: [String],
    _ at: String
  ) throws(BorderProblem) -> String {
    let key = JSONString(name)
    guard let schema = parameters["properties"]?[key] else {
      throw .shape("the argument \(name), which the tool's parameters lack", at: at)
    }
    guard parameters["required"]?.array?.contains(.string(key)) == true else {
      throw .shape("the argument \(name), which the tool's parameters do not require", at: at)
    }
    guard let type = schema["type"]?.text, kinds.contains(type) else {
      throw .shape("the argument \(name), whose schema has not the type \(kinds[0])", at: at)
    }
    used.insert(name)
    return name
  }

  // MARK: Results

  private func returned(_ value: JSON?, _ at: String) throws(BorderProblem) -> ForeignReturn {
    guard let value else { throw .shape("a missing member", at: at) }
    var members: JSONObject = [:]
    if value.text != nil {
      members["type"] = value
    } else if let object = value.object {
      members = object
    } else {
      throw .shape("a value that is neither a type nor an object", at: at)
    }
    var reader = FieldReader(members, at: at)
    let word = try reader.required("type", reader.string("type"))
    let kind: ForeignReturn.Kind
    switch word {
    case "void": kind = .nothing
    case "cstr":
      kind = .text(
        free: try reader.any("free") == nil
          ? nil : reader.name("free", "the name of a function in C", Self.isSymbol)
      )
    case "struct": kind = .structure(try self.members(&reader))
    default:
      guard let scalar = ForeignScalar(rawValue: word) else {
        throw Self.unknown(word, reader.path("type"))
      }
      kind = .scalar(scalar)
    }
    let name = try reader.string("name") ?? "result"
    let result = ForeignReturn(
      kind: kind,
      name: name,
      ok: try Self.numbers(&reader),
      errors: try Self.errors(&reader)
    )
    if case .scalar(let type) = kind, !type.isFloating {
    } else if result.ok != nil {
      throw .shape("a status that is no integer", at: reader.path("ok"))
    }
    try reader.finish()
    guard let first = reader.unknown.first else { return result }
    throw .shape("a member that \(word) does not have", at: first)
  }

  private static func numbers(_ reader: inout FieldReader) throws(BorderProblem) -> [Int64]? {
    try reader.optionalArray("ok") { (value, at) throws(BorderProblem) in
      guard case .int(let number) = value else {
        throw .shape("a value that is no integer", at: at)
      }
      return number
    }
  }

  private static func errors(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> [Int64: String] {
    guard let object = try reader.object("errors") else { return [:] }
    var errors: [Int64: String] = [:]
    for (key, value) in object.members {
      guard let number = Int64(key.string), let text = value.text else {
        throw .shape("an error that is no number with a text", at: object.path(key.string))
      }
      errors[number] = text
    }
    return errors
  }
}

extension ForeignReturn {
  /// Whether it only says how the call went, or returns nothing.
  package var isStatus: Bool {
    if case .nothing = kind { return true }
    return ok != nil
  }
}
