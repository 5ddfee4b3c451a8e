import Foundation
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// Descriptions that can be known to be wrong before anything is called.
struct ForeignRefusalTests {
  private static let number: JSONObject = ["n": ["type": "integer"]]
  private static let text: JSONObject = ["n": ["type": "string"]]

  private static func of(_ properties: JSONObject, _ args: [JSON], _ returns: JSON = "i32") -> JSON
  {
    ForeignBench.tool("negate_i32", properties, args, returns)
  }

  private static let tools: [(JSON, String)] = [
    (of(number, [["type": "u128", "from": "n"]]), "the unknown type u128"),
    (of(number, [["type": "i32", "from": "n"]], "int"), "the unknown type int"),
    (of(number, [["type": "ptr", "to": "long", "name": "x"]]), "the unknown type long"),
    (of(number, []), "a parameter n of the tool that goes nowhere"),
    (
      of(number, [["type": "i32", "from": "m"]]), "the argument m, which the tool's parameters lack"
    ),
    (of(text, [["type": "i32", "from": "n"]]), "whose schema has not the type integer"),
    (of(number, [["type": "cstr_in", "from": "n"]]), "whose schema has not the type string"),
    (of(text, [["type": "bytes_in", "from": "n"]]), "a buffer without a length"),
    (of([:], [["type": "bytes_out", "room": 8]]), "a buffer without a length"),
    (
      of(text, [["type": "bytes_in", "from": "n", "length": "f64"]]), "a length that is no integer"
    ),
    (
      of([:], [["type": "bytes_out", "length": "u64"]]),
      "a missing member at /tools/0/ffi/args/0/room"
    ),
    (
      of([:], [["type": "bytes_out", "length": "u64", "room": 0]]),
      "a room that is neither from 1 to 16777216 nor an argument"
    ),
    (
      of([:], [["type": "bytes_out", "length": "u64", "room": 8, "written": "return"]], "f64"),
      "a buffer whose length is returned by a function that returns no integer"
    ),
    (of([:], [["type": "ptr"]]), "a ptr that is neither"),
    (of([:], [["type": "i32"]]), "a value without exactly one of from and value"),
    (of([:], [["type": "i32", "value": "x"]]), "a value that is no integer"),
    (of([:], [["type": "struct", "value": [:]]]), "a struct without members"),
    (of([:], [["type": "i32", "value": 1, "length": "u64"]]), "a member that i32 does not have"),
    (of([:], [], ["type": "f64", "ok": [0]]), "a status that is no integer"),
    (of([:], [], ["type": "i32", "errors": ["x": "y"]]), "an error that is no number with a text"),
    (
      of([:], [JSON](repeating: ["type": "i32", "value": 1], count: 33)),
      "33 parameters (at most 32)"
    ),
    (
      of([:], [JSON](repeating: ["type": "ptr", "to": "i32", "name": "x"], count: 2)),
      "two values with the name x"
    ),
    (
      ForeignBench.tool("missing", [:], [], "void"),
      "takes missing for the tool missing from"
    ),
    (ForeignBench.tool("variable", [:], [], "void"), "where it is no function"),
    (
      ForeignBench.tool("twice", [:], [], ["type": "cstr", "free": "nothere"]),
      "takes nothere for the tool twice from"
    ),
    (ForeignBench.tool("a-b", [:], [], "void"), "the name of a function in C"),
  ]

  private static func refusal(_ path: String) -> PerdureError? {
    do {
      _ = try PluginFiles.inspect(path: path)
      return nil
    } catch { return error as? PerdureError }
  }

  @Test(arguments: tools)
  func `a wrong signature is refused in one sentence`(_ tool: JSON, _ sentence: String) throws {
    let error = try Self.refusal(ForeignBench.description([tool]))
    #expect(error?.code == .pluginRefused)
    #expect(error?.message.contains(sentence) == true, "\(String(describing: error))")
    #expect(error?.hint != nil)
  }

  @Test(
    arguments: [
      (
        "libnothere.so.1",
        "needs the library libnothere.so.1 for the tool negate_i32, which is not on"
      ),
      (
        "/nowhere/lib.so", "needs the library /nowhere/lib.so for the tool negate_i32, which is not"
      ),
      ("lib/x.so", "a library with a path that is not absolute"), ("", "a library that is no name"),
      ("/etc/passwd", "/etc/passwd is not an ELF file"), ("libc.so.6", "which does not export it"),
    ]
  )
  func `a library that is missing or none is refused`(
    _ library: String,
    _ sentence: String
  ) throws {
    let tool = ForeignBench.unary("negate_i32", "i32")
    let error = try Self.refusal(ForeignBench.description([tool], library: library))
    #expect(error?.message.contains(sentence) == true, "\(String(describing: error))")
  }

  private static let manifests: [(String, JSON, String)] = [
    ("hooks", [["point": "beforeTool", "role": "guard"]], "functions of libraries do not have"),
    ("settings", ["schema": [:]], "functions of libraries do not have at /settings"),
    ("tools", [], "no tools"), ("runtime", "c", "a plugin with code of its own"),
    ("execution", ["mode": "inProcess"], "a mode in which functions of libraries are not called"),
    ("abi", ["major": 2], "asks for ABI major 2"),
    ("manifest", 2, "a manifest version other than 1"),
  ]

  @Test(arguments: manifests)
  func `a manifest with what functions cannot have is refused`(
    _ member: String,
    _ value: JSON,
    _ sentence: String
  ) throws {
    let path = try ForeignBench.description([ForeignBench.unary("negate_i32", "i32")]) { manifest in
      manifest[JSONString(member)] = value
    }
    let error = Self.refusal(path)
    #expect(error?.message.contains(sentence) == true, "\(String(describing: error))")
  }

  @Test(arguments: ["{", "{}", "{\"manifest\": 1}", "  \n{\"manifest\": 1,"])
  func `text that is no description is refused`(_ text: String) throws {
    let path = try Fixtures.folder() + "/x.ffi.json"
    try Data(text.utf8).write(to: URL(filePath: path))
    #expect(Self.refusal(path)?.code == .pluginRefused)
  }

  // MARK: Chance

  /// The same value with something else at one place.
  private static func changed(_ value: JSON, _ chance: inout SeededGenerator) -> JSON {
    let others: [JSON] = [
      .null, true, -1, 0, .int(Int64.max), .double(0.5), .bigInteger("99999999999999999999"), "",
      "i32", "struct", "bytes_out", "n", [], [:], ["type": "ptr"], [[]],
    ]
    guard Int.random(in: 0..<3, using: &chance) > 0 else {
      return others.randomElement(using: &chance) ?? .null
    }
    switch value {
    case .array(var elements):
      guard let index = elements.indices.randomElement(using: &chance) else { return value }
      if Bool.random(using: &chance) {
        elements[index] = changed(elements[index], &chance)
      } else {
        elements.append(elements[index])
      }
      return .array(elements)
    case .object(var members):
      guard let key = members.keys.randomElement(using: &chance) else { return value }
      members[key] = members[key].map { changed($0, &chance) }
      if Int.random(in: 0..<8, using: &chance) == 0 { members[key] = nil }
      return .object(members)
    default: return others.randomElement(using: &chance) ?? .null
    }
  }

  @Test func `a description that chance has changed is taken or refused`() throws {
    var chance = SeededGenerator(for: "descriptions of functions")
    let path = try Fixtures.folder() + "/x.ffi.json"
    let whole = try Data(
      contentsOf: Fixtures.root.appending(path: "examples/plugin-ffi/libraries.ffi.json")
    )
    let original = try JSON(parsing: Array(whole))
    for _ in 0..<Effort.choose(300, long: 20_000) {
      var value = original
      for _ in 0...Int.random(in: 0..<3, using: &chance) { value = Self.changed(value, &chance) }
      try Data(value.encoded).write(to: URL(filePath: path))
      do { _ = try PluginFiles.inspect(path: path) } catch {
        #expect((error as? PerdureError)?.code == .pluginRefused, "\(value)")
      }
    }
  }
}
